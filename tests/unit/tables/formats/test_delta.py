"""A Delta table is written by exports, and read by Polars and deltalake."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import deltalake
import mmh3
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.model.limits import DAY_MS
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.tables import joining
from siltstone.tables.failures import CatalogFailed, CommitOvertaken, LedgerLost, TableCommitUnknown
from siltstone.tables.formats.delta import DeltaFormat, _numbers_of, _token_of
from siltstone.tables.formats.port import LoadedTable
from siltstone.tables.ledger import GAPS_MAX, Gap, Ledger, TableIdentity
from support.maintenance.table_world import TableWorld, table_world

EMPTY = Ledger(identity=TableIdentity("store", "topic"), created_ms=5)
SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])
TOKEN = "7-00000000000000ff"


@pytest.fixture
def delta(tmp_path: Path) -> Iterator[TableWorld]:
    with table_world(tmp_path, "delta") as made:
        yield made


@pytest.fixture
def tables(tmp_path: Path) -> DeltaFormat:
    return DeltaFormat(tmp_path.as_uri(), {}, store_at(tmp_path.as_uri()))


def newest(tables: DeltaFormat) -> Any:
    table = tables.load("kafka.t")
    assert table is not None
    return table


def opened(world: TableWorld) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(f"{world.settings.location}/kafka/t")


# -- the ledger --------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**62), st.integers(0, 2**64 - 1))
def test_a_token_is_two_numbers(job: int, plan: int) -> None:
    token = f"{job}-{plan:016x}"
    numbers = _numbers_of(token)
    assert all(-(2**63) <= each < 2**63 for each in numbers)
    assert _token_of(*numbers) == token


def test_a_table_without_exports_has_no_token() -> None:
    assert _token_of(*_numbers_of("")) == ""


def test_a_ledger_is_read_as_it_was_committed(tables: DeltaFormat) -> None:
    table = tables.make("kafka.t", EMPTY, SCHEMA, ())
    assert (table.ledger.offsets, table.ledger.token, table.ledger.created_ms) == ({}, "", 5)
    assert (table.ledger.identity, table.rows, list(table.files())) == (EMPTY.identity, 0, [])
    gaps = tuple(Gap(1, number, number + 1) for number in range(GAPS_MAX + 3))
    first = table.ledger.after({0: 7, 1: 0, 3: 2**40}, TOKEN, 8, gaps[:2])
    table.append([], first)
    found = newest(tables).ledger
    assert (found.offsets, found.token, found.committed_ms) == ({0: 7, 1: 0, 3: 2**40}, TOKEN, 8)
    assert (found.gaps, found.snapshot_id) == (gaps[:2], 1)
    newest(tables).append([], found.after({0: 9}, TOKEN, 9, gaps[2:]))
    assert newest(tables).ledger.gaps == gaps[-GAPS_MAX:]
    assert newest(tables).ledger.offset(0) == 9


def test_tb3_a_table_that_was_loaded_before_another_commit_is_refused(tables: DeltaFormat) -> None:
    tables.make("kafka.t", EMPTY, SCHEMA, ())
    first, second = newest(tables), newest(tables)
    after = first.ledger.after({0: 1}, TOKEN, 8)
    first.append([], after)
    with pytest.raises(CommitOvertaken, match=r"table kafka\.t has changed meanwhile: CommitFailedError"):
        second.append([], after)
    with pytest.raises(CommitOvertaken):
        second.add_columns(pa.schema([("x", pa.int64())]))
    assert newest(tables).ledger.snapshot_id == 1


def test_a_table_that_another_driver_has_made_is_his(tables: DeltaFormat) -> None:
    tables.make("kafka.t", EMPTY, SCHEMA, ())
    other = Ledger(identity=TableIdentity("store", "other"))
    assert tables.make("kafka.t", other, SCHEMA, ()).ledger.identity == EMPTY.identity


def test_trouble_of_the_store_is_an_unknown_outcome_and_what_cannot_be_made_is_told(
    tables: DeltaFormat, tmp_path: Path
) -> None:
    table = tables.make("kafka.t", EMPTY, SCHEMA, ())
    after = table.ledger.after({0: 1}, TOKEN, 8)
    log = tmp_path / "kafka/t/_delta_log"
    log.rename(tmp_path / "moved")
    log.write_bytes(b"a file where a folder was")
    with pytest.raises(TableCommitUnknown, match=r"the commit to table kafka\.t may have taken place"):
        table.append([], after)
    with pytest.raises(CatalogFailed, match=r"table kafka\.x cannot be made"):
        tables.make("kafka.x", EMPTY, pa.schema([("time", pa.time64("us"))]), ())


def test_tb22_a_restored_table_is_not_appended_to(delta: TableWorld) -> None:
    (stream,) = delta.kept()
    for number in range(3):
        delta.append_pairs(stream, [("a", str(number))])
        delta.export_now()
    opened(delta).alter.set_table_properties({"delta.checkpointInterval": "30"})
    opened(delta).restore(3)
    delta.append_pairs(stream, [("b", "1")])
    delta.export_now()
    assert delta.places() == [(0, 0), (0, 1), (0, 2), (0, 3)], (
        "the newest state was restored: nothing is missing"
    )
    opened(delta).restore(2)
    delta.append_pairs(stream, [("b", "2")])
    text = delta.why_failed()
    assert "TableRolledBack: table kafka.t was rolled back or restored: version 2 was restored" in text


def test_tb22_a_table_without_its_newest_commit_is_not_appended_to(delta: TableWorld) -> None:
    (stream,) = delta.kept()
    for number in range(2):
        delta.append_pairs(stream, [("a", str(number))])
        delta.export_now()
    sorted((delta.folder / "tables/kafka/t/_delta_log").glob("*.json"))[-1].unlink()
    delta.append_pairs(stream, [("b", "2")])
    assert "TableRolledBack: table kafka.t was rolled back" in delta.why_failed()


@pytest.mark.parametrize("lost", ["/partitions", "/0", "siltstone.created"])
def test_tb22_a_ledger_that_was_removed_is_never_guessed(delta: TableWorld, lost: str) -> None:
    (stream,) = delta.kept()
    delta.append_pairs(stream, [("a", "1")])
    delta.export_now()
    for path in (delta.folder / "tables/kafka/t/_delta_log").glob("*.json"):
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        kept = [each for each in entries if not each.get("txn", {}).get("appId", "").endswith(lost)]
        for each in kept:
            each.get("metaData", {}).get("configuration", {}).pop(lost, None)
        path.write_text("\n".join(map(json.dumps, kept)))
    delta.append_pairs(stream, [("b", "2")])
    assert "LedgerLost: the ledger of table kafka.t is lost: its " in delta.why_failed()
    assert delta.places() == [(0, 0)]


def test_tb22_the_ledger_outlives_the_time_after_which_delta_forgets_transactions(delta: TableWorld) -> None:
    (stream,) = delta.kept()
    for number in range(2):
        delta.append_pairs(stream, [("a", str(number))])
        delta.export_now()
        opened(delta).alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 0 days"})
        opened(delta).create_checkpoint()
    assert delta.places() == [(0, 0), (0, 1)]


def test_a_delta_table_of_somebody_else_is_left_alone(delta: TableWorld) -> None:
    deltalake.DeltaTable.create(f"{delta.settings.location}/kafka/t", SCHEMA)
    (stream,) = delta.kept()
    delta.append_pairs(stream, [("a", "1")])
    assert delta.why_failed().startswith("TableNotOurs: table kafka.t exists")


# -- the division ------------------------------------------------------------------------------------------------

WHEN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("by", "column", "value"),
    [
        ("year(timestamp)", "timestamp_year", 2023),
        ("month(timestamp)", "timestamp_month", date(2023, 11, 1)),
        ("day(timestamp)", "timestamp_day", date(2023, 11, 14)),
        ("hour(timestamp)", "timestamp_hour", WHEN.replace(minute=0, second=0)),
        ("identity(partition)", "kafka_partition", 0),
        ("identity(carrier)", "carrier", "A/Ü="),
        ("identity(fast)", "fast", True),
        ("bucket(key,16)", "key_bucket", mmh3.hash(b"k0") % 2**31 % 16),
        ("truncate(carrier,2)", "carrier_truncate", "A/"),
    ],
)
def test_tb12_readers_find_the_division_in_a_column(
    delta: TableWorld, by: str, column: str, value: Any
) -> None:
    (stream,) = delta.kept(value="json", columns="carrier string, fast boolean")
    delta.configure("t", **{"siltstone.table.partition.by": by})
    delta.append_values(stream, '{"carrier": "A/Ü=", "fast": true}')
    delta.export_now()
    place = f"{delta.settings.location}/kafka/t"
    assert pl.scan_delta(place).select(column).collect().rows() == [(value,)]
    assert opened(delta).to_pyarrow_table(filters=[(column, "=", value)]).num_rows == 1
    (added,) = pa.table(opened(delta).get_add_actions(flatten=True)).to_pylist()
    assert added[f"partition.{column}"] == value
    assert (added["min.kafka.offset"], added["max.kafka.offset"], added["num_records"]) == (0, 0, 1)
    with delta.table_of() as table:
        assert [each.text for each in table.partition_by] == [by]
        assert column not in table.schema.names or (
            by.startswith("identity(") and column != "kafka_partition"
        )
        (file,) = table.files()
    delta.append_values(stream, '{"carrier": "A/Ü=", "fast": true}', None)
    delta.export_now()
    with delta.table_of() as table:
        values = [each.partition for each in table.files()]
    assert file.partition in values and len(set(values)) == (
        2 if column.startswith(("carrier", "fast", "key")) else 1
    )


def test_a_column_that_a_division_needs_cannot_be_a_field(delta: TableWorld) -> None:
    (stream,) = delta.kept(value="json", columns="kafka_partition string")
    delta.configure("t", **{"siltstone.table.partition.by": "identity(partition)"})
    delta.append_values(stream, "{}")
    assert "identity(partition) would have the name of the field kafka_partition" in delta.why_failed()


# -- files -------------------------------------------------------------------------------------------------------


def test_offsets_are_found_from_an_end_on(delta: TableWorld) -> None:
    streams = delta.kept(partitions=2, value="json")
    delta.append_values(streams[0], "{}", "garbage", "{}", "garbage")
    delta.append_values(streams[1], "garbage", "{}", "{}")
    delta.export_now()
    delta.append_values(streams[0], "garbage", "{}", "{}")
    delta.export_now()
    with delta.table_of("kafka.t__errors") as table:
        found = [table.offsets_from(ends) for ends in ({0: 0, 1: 0}, {0: 2}, {0: 4, 1: 1}, {0: 5}, {})]
        assert table.rows == 4
    ordered = [{number: sorted(offsets) for number, offsets in each.items()} for each in found]
    assert ordered == [{0: [1, 3, 4], 1: [0]}, {0: [3, 4]}, {0: [4]}, {}, {}]


def test_files_that_others_have_replaced_are_kept_for_a_day(
    delta: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "SMALL_FILES_MAX", 100)
    (stream,) = delta.kept()
    for number in range(25):
        delta.append_pairs(stream, [("a", str(number))])
        delta.export_now()
    folder = delta.folder / "tables/kafka/t"
    assert (folder / "_delta_log/_last_checkpoint").exists()
    before = {str(path.relative_to(folder)) for path in folder.glob("data/*.parquet")}
    assert len(before) == 25
    opened(delta).optimize.compact()
    with delta.table_of() as table:
        assert table.kept_paths() > before and len(list(table.files())) == 1
    opened(delta).create_checkpoint()
    with delta.table_of() as table:
        assert table.kept_paths() > before, "the checkpoint names them, too"
        table.expire(10 * DAY_MS)
    assert before < {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}, "they are young"
    opened(delta).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 days"})
    with delta.table_of() as table:
        table.expire(10 * DAY_MS)
    assert not before & {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}
    assert len(delta.places()) == 25
    delta.append_pairs(stream, [("b", "1")])
    delta.export_now()
    assert delta.rows() == delta.expected([stream])


def is_missing(table: LoadedTable) -> str:
    with pytest.raises(LedgerLost) as lost:
        _ = table.ledger
    return str(lost.value)


def test_a_table_of_a_newer_program_is_not_read(tables: DeltaFormat, tmp_path: Path) -> None:
    tables.make("kafka.t", EMPTY, SCHEMA, ())
    path = deltalake.DeltaTable((tmp_path / "kafka/t").as_uri())
    path.alter.set_table_properties({"siltstone.layout": "9"}, raise_if_not_exists=False)
    assert "its layout is 9, and this program knows 1" in is_missing(newest(tables))
