"""The commit files of a Parquet table: their bytes, and what is made of damaged ones."""

import msgspec
import pytest

from siltstone.maintenance.tables.failures import CommitOvertaken, LedgerLost, TableRolledBack
from siltstone.maintenance.tables.formats.parquet import ParquetCommit, ParquetFormat, _write
from siltstone.maintenance.tables.formats.port import DataFile
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock
from siltstone.topic_configs.table_export import PartitionTransform

COMMIT = ParquetCommit(
    number=3,
    rows=12,
    properties={"siltstone.layout": "1"},
    partition_by=(PartitionTransform("day", "timestamp"), PartitionTransform("identity", "carrier")),
    schema=b"\x00\xff",
    files=(DataFile("data/1-0123456789abcdef-00000-0000.parquet", 12, 3_456, (20_000, None)),),
)
BYTES = (
    b'{"number":3,"rows":12,"properties":{"siltstone.layout":"1"},'
    b'"partition_by":[["day","timestamp"],["identity","carrier"]],"schema":"AP8=",'
    b'"files":[["data/1-0123456789abcdef-00000-0000.parquet",12,3456,[20000,null]]]}'
)
KEY = "kafka/t/_siltstone/00000000000000000003.json"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(ManualClock(), "tables")


def test_a_commit_file_has_these_bytes_and_is_written_once(store: MemoryStore) -> None:
    _write("kafka.t", store, COMMIT)
    assert store.get_range(KEY, 0, len(BYTES)) == BYTES and store.head(KEY).size_bytes == len(BYTES)
    assert msgspec.json.decode(BYTES, type=ParquetCommit) == COMMIT
    with pytest.raises(CommitOvertaken, match=r"commit 3 of table kafka\.t is another driver's"):
        _write("kafka.t", store, COMMIT)


def test_commits_that_are_missing_before_the_newest_are_noticed(store: MemoryStore) -> None:
    assert ParquetFormat(store).load("kafka.t") is None
    _write("kafka.t", store, COMMIT)
    table = ParquetFormat(store).load("kafka.t")
    assert table is not None and table.rows == 12
    with pytest.raises(TableRolledBack, match="3 of its commit files are missing"):
        _ = table.ledger


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", BYTES[:-2]])
def test_a_damaged_commit_file_is_a_lost_ledger(store: MemoryStore, data: bytes) -> None:
    store.put(KEY, [data])
    with pytest.raises(LedgerLost, match=r"0003\.json is damaged"):
        ParquetFormat(store).load("kafka.t")


def test_a_file_of_another_name_beside_them_is_not_passed_over(store: MemoryStore) -> None:
    store.put("kafka/t/_siltstone/notes.txt", [b"mine"])
    with pytest.raises(LedgerLost, match=r"notes\.txt is none of its commit files"):
        ParquetFormat(store).load("kafka.t")
