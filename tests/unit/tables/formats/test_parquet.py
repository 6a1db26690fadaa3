"""The commit files of a Parquet table: their bytes, and the errors for damaged ones."""

from io import BytesIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.clock import ManualClock
from siltstone.tables.failures import CommitOvertaken, LedgerLost, TableCommitUnknown, TableRolledBack
from siltstone.tables.formats.parquet import WHOLE_EVERY, ParquetCommit, ParquetFormat, _write
from siltstone.tables.formats.port import DataFile, Replacement, listed
from siltstone.tables.ledger import Ledger, TableIdentity
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
    with pytest.raises(LedgerLost, match=r"notes\.txt is not a commit file"):
        ParquetFormat(store).load("kafka.t")


SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])
EMPTY = Ledger(identity=TableIdentity("store", "topic"), created_ms=5)
BY = (PartitionTransform("day", "timestamp"),)


def put_rows(store: MemoryStore, path: str, *places: tuple[int, int]) -> DataFile:
    """Writes a data file whose rows are at these partitions and offsets."""
    rows = pa.Table.from_pylist([{"partition": n, "offset": at} for n, at in places], SCHEMA)
    out = BytesIO()
    pq.write_table(rows, out)
    store.put(f"kafka/t/{path}", [out.getvalue()])
    return DataFile(path, len(places), out.tell())


def test_a_table_is_what_its_commits_say(store: MemoryStore) -> None:
    tables = ParquetFormat(store)
    table = tables.make("kafka.t", EMPTY, SCHEMA, BY)
    assert (table.ledger, table.schema, table.partition_by) == (EMPTY, SCHEMA, BY)
    assert (table.rows, list(table.files()), table.place) == (0, [], "memory:tables/kafka/t/")
    files = [DataFile("data/a.parquet", 3, 10), DataFile("data/b.parquet", 4, 10)]
    first = EMPTY.after({0: 7}, "first", 8)
    table.append(files, first)
    assert table.rows == 0, "a loaded table is of one moment"
    newer = tables.load("kafka.t")
    assert newer is not None and (newer.rows, newer.ledger, list(newer.files())) == (
        7,
        first,
        [listed(each) for each in files],
    )
    newer.append([DataFile("data/c.parquet", 1, 10)], first.after({0: 8}, "second", 9))
    newest = tables.load("kafka.t")
    assert newest is not None and newest.rows == 8
    assert newest.kept_paths() == {"data/a.parquet", "data/b.parquet", "data/c.parquet"}
    with pytest.raises(CommitOvertaken):
        newer.append([], first)


class _Silent(MemoryStore):
    def put_if_absent(self, key: str, buffers: object) -> None:
        raise StoreTransient("no answer")


def test_a_commit_without_an_answer_may_have_been_written() -> None:
    with pytest.raises(
        TableCommitUnknown, match=r"the commit to table kafka\.t may have been written: no answer"
    ):
        _write("kafka.t", _Silent(ManualClock()), COMMIT)


def test_a_table_that_another_driver_has_made_is_his(store: MemoryStore) -> None:
    tables = ParquetFormat(store)
    tables.make("kafka.t", EMPTY, SCHEMA, BY)
    other = Ledger(identity=TableIdentity("store", "other"))
    assert tables.make("kafka.t", other, SCHEMA, ()).ledger == EMPTY


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        (["a", "kafka"], ["a", "b", "c", "kafka"], ["a", "b", "c", "kafka"]),
        (["a", "b"], ["c", "a"], ["a", "b", "c"]),
        (["a", "kafka"], ["kafka", "a"], ["a", "kafka"]),
    ],
)
def test_columns_are_added_behind_the_others_and_before_those_of_the_record(
    store: MemoryStore, before: list[str], wanted: list[str], after: list[str]
) -> None:
    tables = ParquetFormat(store)
    table = tables.make("kafka.t", EMPTY, pa.schema([(name, pa.int32()) for name in before]), ())
    table.append([DataFile("data/a.parquet", 3, 10)], EMPTY.after({0: 3}, "first", 8))
    newer = tables.load("kafka.t")
    assert newer is not None
    newer.add_columns(pa.schema([(name, pa.int32()) for name in wanted]))
    found = tables.load("kafka.t")
    assert found is not None and found.schema.names == after
    assert (found.rows, len(list(found.files())), found.ledger.offsets) == (3, 1, {0: 3})


def test_offsets_of_the_last_commit_are_found_from_an_end_on(store: MemoryStore) -> None:
    tables = ParquetFormat(store)
    table = tables.make("kafka.t", EMPTY, SCHEMA, ())
    files = [
        put_rows(store, "data/a.parquet", (0, 4), (0, 5), (1, 0)),
        put_rows(store, "data/b.parquet", (0, 6), (2, 9)),
    ]
    table.append(files, EMPTY.after({0: 7, 1: 1, 2: 10}, "first", 8))
    newer = tables.load("kafka.t")
    assert newer is not None
    assert newer.offsets_from({0: 5, 1: 0, 2: 10}) == {0: [5, 6], 1: [0]}
    assert newer.offsets_from({}) == {}


REPLACING = ParquetCommit(
    number=4,
    rows=12,
    properties={"siltstone.layout": "2"},
    partition_by=(),
    schema=b"\x00\xff",
    files=(DataFile("data/b.parquet", 12, 7),),
    removed=("data/a.parquet",),
    whole=(DataFile("data/b.parquet", 12, 7),),
)
REPLACING_BYTES = (
    b'{"number":4,"rows":12,"properties":{"siltstone.layout":"2"},"partition_by":[],"schema":"AP8=",'
    b'"files":[["data/b.parquet",12,7,[]]],"removed":["data/a.parquet"],"whole":[["data/b.parquet",12,7,[]]]}'
)


def test_a_commit_of_layout_2_has_these_bytes(store: MemoryStore) -> None:
    _write("kafka.t", store, REPLACING)
    key = "kafka/t/_siltstone/00000000000000000004.json"
    assert store.get_range(key, 0, store.head(key).size_bytes) == REPLACING_BYTES
    assert msgspec.json.decode(REPLACING_BYTES, type=ParquetCommit) == REPLACING


def test_a_table_whose_files_were_replaced_is_not_read_by_a_program_that_knows_layout_1_alone(
    store: MemoryStore,
) -> None:
    tables = ParquetFormat(store)
    tables.make("kafka.t", EMPTY, SCHEMA, ())
    ledger = EMPTY
    for number in range(3):
        table = tables.load("kafka.t")
        assert table is not None
        ledger = ledger.after({0: number}, f"{number}", number)
        replaced = None
        if number == 1:
            replaced = Replacement(
                (listed(DataFile("data/0.parquet", 1, 10)),),
                (DataFile("data/x.parquet", 1, 10),),
                keeps_rows=True,
            )
        table.append([DataFile(f"data/{number}.parquet", 1, 10)], ledger, replaced)
    newest = tables.load("kafka.t")
    assert newest is not None and newest.ledger == ledger and newest.rows == 3
    assert [each.path for each in newest.files()] == ["data/1.parquet", "data/x.parquet", "data/2.parquet"]
    assert "data/0.parquet" in newest.kept_paths()
    stored = [
        msgspec.json.decode(store.get_range(each.key, 0, each.size_bytes)) for each in store.list("kafka/t/_")
    ]
    assert [each["properties"]["siltstone.layout"] for each in stored] == ["1", "1", "2", "2"]


def test_only_the_commits_since_the_last_full_list_are_read(store: MemoryStore) -> None:
    tables = ParquetFormat(store)
    table = tables.make("kafka.t", EMPTY, SCHEMA, ())
    for number in range(WHOLE_EVERY + 3):
        table.append(
            [DataFile(f"data/{number:03}.parquet", 1, 10)], EMPTY.after({0: number}, f"{number}", number)
        )
        newest = tables.load("kafka.t")
        assert newest is not None
        table = newest
    assert [each.path for each in table.files()] == [f"data/{n:03}.parquet" for n in range(WHOLE_EVERY + 3)]
    read = [each.number for each in table._commits_since_whole()]  # type: ignore[attr-defined]
    assert read == [WHOLE_EVERY + 3, WHOLE_EVERY + 2, WHOLE_EVERY + 1, WHOLE_EVERY]
