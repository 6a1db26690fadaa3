"""Tables that other programs change between exports, and during them (rule 16)."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.transforms import BucketTransform, IdentityTransform

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.tables.failures import TableFileRefused, TableHasUnknownFeatures
from siltstone.tables.inspecting import deletes_in_words, file_urls
from support.maintenance.foreign_table import ForeignTable
from support.maintenance.foreign_writers import (
    delete_by_equality,
    delete_by_positions,
    delete_by_vector,
    delta_table,
    expire_all_but,
    iceberg_table,
    offsets_by_reader,
    offsets_by_tasks,
    rows_by_reader,
    rows_by_tasks,
)
from support.maintenance.table_faults import appending
from support.maintenance.table_world import TableWorld, table_world


@pytest.fixture(params=["iceberg", "delta"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TableWorld]:
    """The folder has a name that a URL writes otherwise."""
    with table_world(tmp_path / "a store, with ä", request.param) as made:
        yield made


@pytest.fixture
def delta(tmp_path: Path) -> Iterator[TableWorld]:
    with table_world(tmp_path, "delta") as made:
        yield made


def delete_positions(world: TableWorld, positions: list[int], at: int = 0) -> None:
    """Deletes rows of a file of the table and writes no other data file."""
    with world.table_of() as table:
        path = sorted(table.files(), key=lambda each: each.path)[at].path
    if world.table_format == "delta":
        delete_by_vector(world, path, positions, is_inline=False)
    else:
        delete_by_positions(world, {path: positions})


def rounds(world: TableWorld, stream: int, count: int) -> list[str]:
    texts = []
    for number in range(count):
        world.append_pairs(stream, [(f"n{number}", "1")])
        texts.append(world.export_now().text)
    return texts


def test_rule_16_rows_that_others_delete_stay_deleted_and_the_others_stay_once(world: TableWorld) -> None:
    (stream,) = world.kept()
    world.append_pairs(stream, [(f"{number}", "1") for number in range(10)])
    world.export_now()
    delete_positions(world, [0, 1, 2])
    live = list(range(3, 10))
    assert offsets_by_reader(world) == offsets_by_tasks(world) == live
    with world.table_of() as table:
        assert table.rows == 7
        assert deletes_in_words(list(table.files())) == "3 rows of 1 file, not counted"
        with pytest.raises(
            TableFileRefused, match=r"of table kafka\.t cannot be given to a reader of Parquet: another"
        ):
            file_urls(table, world.settings)
    texts = rounds(world, stream, 13)
    assert any("10 small files joined to 1" in each for each in texts)
    assert offsets_by_reader(world) == offsets_by_tasks(world) == [*live, *range(10, 23)]
    assert world.progress().rows == 20
    with world.table_of() as table:
        has_deletes = [each.deleted_rows for each in table.files() if each.deleted_rows]
    assert has_deletes == ([3] if world.table_format == "delta" else []), (
        "Delta's file stays, Iceberg's was rewritten"
    )


def test_rule_16_an_upsert_table_is_merged_without_the_rows_that_others_deleted(world: TableWorld) -> None:
    (stream,) = world.kept(mode="upsert", buckets="1")
    world.append_pairs(stream, [(f"{number}", "1") for number in range(10)])
    world.export_now()
    delete_positions(world, [4])
    before = offsets_by_reader(world)
    assert len(before) == 9
    world.append_pairs(stream, [("0", "2"), ("x", "1")])
    if world.table_format == "delta":
        text = world.why_failed()
        assert (
            text.startswith("TableFileRefused: data file data/")
            and "cannot be merged with newer records" in text
        )
        assert "ZORDER BY (COLUMN)" in text and offsets_by_reader(world) == before
        delta_table(world).optimize.z_order(["offset"])  # writes the live rows to new files, as Spark's does
    world.export_now()
    assert offsets_by_reader(world) == offsets_by_tasks(world) == sorted({*before, 10, 11} - {0})
    assert world.progress().rows == 10


def test_rule_16_equality_deletes_are_never_overlooked(iceberg: TableWorld) -> None:
    (stream,) = iceberg.kept()
    world = iceberg
    world.append_pairs(stream, [(f"{number}", "1") for number in range(10)])
    world.export_now()
    delete_by_equality(world, "offset", [1, 2])
    with world.table_of() as table:
        assert (table.rows, deletes_in_words(list(table.files()))) == (
            10,
            "unknown for 1 file, counted whole",
        )
        with pytest.raises(TableFileRefused, match="it has equality deletes"):
            file_urls(table, world.settings)
    with pytest.raises(TableFileRefused, match=r"table kafka\.t cannot be read: it has equality deletes"):
        offsets_by_tasks(world)
    with world.table_of() as table:
        (old,) = {each.path for each in table.files()}
    texts = rounds(world, stream, 12)
    assert any("10 small files joined" in each for each in texts)
    with world.table_of() as table:
        assert [each.path for each in table.files() if each.unreadable] == [old], (
            "younger files have no deletes"
        )
        assert sum(each.rows for each in table.files()) == 22


def test_rule_16_equality_deletes_stop_a_merge_of_their_files(iceberg: TableWorld) -> None:
    (stream,) = iceberg.kept(mode="upsert", buckets="1")
    iceberg.append_pairs(stream, [("a", "1"), ("b", "1")])
    iceberg.export_now()
    delete_by_equality(iceberg, "offset", [1])
    iceberg.append_pairs(stream, [("a", "2")])
    assert "cannot be merged with newer records: it has equality deletes" in iceberg.why_failed()


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rule_16_a_delete_between_our_listing_and_our_commit_is_never_overwritten(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    given = {"mode": mode, "buckets": "1"} if mode == "upsert" else {}
    (stream,) = world.kept(**given)
    rounds(world, stream, 10 if mode == "append" else 1)

    def instead(real: Callable[..., None], table: Any, files: Any, ledger: Any) -> None:
        delete_positions(world, [0])
        real(table, files, ledger)

    before = offsets_by_reader(world)
    world.append_pairs(stream, [("new", "1")])
    with appending(world, monkeypatch, instead):
        (unit,) = world.export().units
    assert unit.outcome is Outcome.NOT_NEEDED and "another program has replaced files" in unit.text
    left = offsets_by_reader(world)
    assert len(left) == len(before) - 1
    if (world.table_format, mode) == ("delta", "upsert"):
        assert "cannot be merged with newer records" in world.why_failed()
    else:
        world.export_now()
        assert offsets_by_reader(world) == [*left, len(before)]


def test_rule_16_a_vector_without_rows_also_keeps_its_file(delta: TableWorld) -> None:
    """Its file is another one for Delta than the file without a vector."""
    (stream,) = delta.kept()
    rounds(delta, stream, 10)
    with delta.table_of() as table:
        path = next(table.files()).path
    delete_by_vector(delta, path, [])
    rounds(delta, stream, 3)
    with delta.table_of() as table:
        assert path in {each.path for each in table.files()}
    assert offsets_by_reader(delta) == list(range(13))


@pytest.mark.parametrize("value", ["A/Ü= %", "A+B 'C' (D)*", "%41"])
def test_rule_16_files_that_others_write_are_joined_once_with_the_columns_that_they_lack(
    delta: TableWorld, value: str
) -> None:
    """deltalake leaves the columns of the division out of files and puts their values into paths, quoted twice."""
    (stream,) = delta.kept(value="json", columns="carrier string", partition_by="identity(carrier)")
    for _ in range(4):
        delta.append_values(stream, *[json.dumps({"carrier": value})] * 2, '{"carrier": "B"}')
        delta.export_now()
    delta_table(delta).optimize.compact()
    with delta.table_of() as table, pytest.raises(TableFileRefused, match="without the columns by which"):
        file_urls(table, delta.settings)
    assert sorted(set(rows_of(delta))) == sorted({value, "B"})
    for _ in range(11):
        delta.append_values(stream, json.dumps({"carrier": value}))
        delta.export_now()
    assert offsets_by_reader(delta) == offsets_by_tasks(delta) == list(range(23))
    assert sorted(rows_of(delta)) == sorted([value] * 19 + ["B"] * 4)


def rows_of(world: TableWorld) -> list[str]:
    return list(rows_by_tasks(world)["carrier"].to_pylist())


def test_rule_16_files_that_others_name_in_another_way_are_joined_and_kept(iceberg: TableWorld) -> None:
    """Hadoop writes ``file:/a`` for ``file:///a``. An export took such manifests for files that nothing needs, and such
    data files for files in a folder ``file:``."""
    table = ForeignTable(iceberg, "append")
    table.append(2)
    table.export()
    place = iceberg_table(iceberg).location().replace("file:///", "file:/")
    with iceberg_table(iceberg).transaction() as transaction:
        transaction.set_properties(
            {"write.data.path": f"{place}/data", "write.metadata.path": f"{place}/metadata"}
        )
    iceberg_table(iceberg).overwrite(rows_by_reader(iceberg))
    table.check()
    texts = [table.round() for _ in range(11)]
    assert any("10 small files joined" in each for each in texts)
    table.check()
    iceberg_table(iceberg).delete("a == 1")
    table.model.delete(lambda row: row["a"] == 1)
    table.next_day()
    table.round()
    table.check()


def divide_once(world: TableWorld, table: ForeignTable) -> None:
    """Writes a file while the table is not divided as an export divides it, and takes the division back."""
    with iceberg_table(world).update_spec() as spec:
        for field in iceberg_table(world).spec().fields:
            spec.remove_field(field.name)
        if not table.model.is_upsert:
            spec.add_field("b", IdentityTransform(), "by_b")
    iceberg_table(world).append(table.new_row(a=1_000, b="x"))


def divide_as_before(world: TableWorld, table: ForeignTable) -> None:
    with iceberg_table(world).update_spec() as spec:
        if table.model.is_upsert:
            spec.add_field("kafka.key", BucketTransform(2), "key_bucket")
        else:
            spec.remove_field("by_b")


def write_elsewhere(world: TableWorld, table: ForeignTable) -> None:
    """Writes a file outside the folder of the table."""
    with iceberg_table(world).transaction() as transaction:
        transaction.set_properties({"write.data.path": f"{world.folder}/else where"})
    with iceberg_table(world).update_spec() as spec:
        for field in iceberg_table(world).spec().fields:
            spec.remove_field(field.name)
    iceberg_table(world).append(table.new_row(a=1_000, b="x"))


def test_rule_16_files_of_another_division_are_read_and_not_joined(iceberg: TableWorld) -> None:
    table = ForeignTable(iceberg, "append")
    table.append(3)
    table.export()
    divide_once(iceberg, table)
    table.check()
    table.append()
    assert "is divided by identity(b), which cannot be changed" in table.export_or_refusal()
    table.check()
    divide_as_before(iceberg, table)
    texts = [table.round() for _ in range(11)]
    assert any("small files joined" in each for each in texts)
    table.check()
    assert others(iceberg) == ["it is of another division of the table"]


def test_rule_16_a_merge_never_overlooks_a_file_of_another_division(iceberg: TableWorld) -> None:
    """It may have rows of any key, whatever its partition value is."""
    table = ForeignTable(iceberg, "upsert")
    table.append(5)
    table.export()
    divide_once(iceberg, table)
    divide_as_before(iceberg, table)
    table.check()
    table.append()
    refusal = table.export_or_refusal()
    assert refusal.startswith("TableFileRefused: data file data/") and "it is of another division" in refusal
    table.check()


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rule_16_files_elsewhere_are_read_and_never_replaced(iceberg: TableWorld, mode: str) -> None:
    table = ForeignTable(iceberg, mode)
    table.append(5)
    table.export()
    write_elsewhere(iceberg, table)
    table.check()
    if mode == "append":
        assert any("small files joined" in table.round() for _ in range(11))
        table.check()
        assert others(iceberg) == ["it lies outside the folder of the table"]
        return
    divide_as_before(iceberg, table)
    table.append()
    refusal = table.export_or_refusal()
    assert "cannot be merged with newer records" in refusal, refusal
    table.check()


def test_rule_16_columns_that_others_rename_or_drop_keep_their_rows_apart(iceberg: TableWorld) -> None:
    """The next export makes the column again: rows of files that had the name before do not get their values there."""
    table = ForeignTable(iceberg, "append")
    table.append(3)
    table.export()
    with iceberg_table(iceberg).update_schema() as update:
        update.rename_column("b", "c")
    table.model.rename("b", "c")
    table.check()
    table.round()
    table.check()
    with iceberg_table(iceberg).update_schema() as update:
        update.delete_column("b")
    table.model.drop("b")
    table.check()
    assert any("10 small files joined" in table.round() for _ in range(11))
    table.check()
    assert {each["b"] for each in table.model.rows} == {None, *"xyz"}


def others(world: TableWorld) -> list[str]:
    """Returns why files cannot be replaced."""
    with world.table_of() as table:
        return [each.kept.partition(":")[0] for each in table.files() if each.kept]


# -- features ----------------------------------------------------------------------------------------------------


def test_rule_16_a_feature_that_is_not_known_stops_the_export_before_it_writes(delta: TableWorld) -> None:
    (stream,) = delta.kept(value="json", columns="a long")
    delta.append_values(stream, '{"a": 1}')
    delta.export_now()
    delta_table(delta).alter.add_constraint({"positive": "a >= 0"})
    before = sorted(str(each) for each in delta.folder.rglob("*"))
    delta.set_table(columns="a long,b long")
    delta.append_values(stream, '{"a": -5}')
    text = delta.why_failed()
    assert text.startswith(
        "TableHasUnknownFeatures: table kafka.t cannot be written to, as another program has given it"
    )
    assert "checkConstraints (an export does not evaluate expressions)" in text
    assert sorted(str(each) for each in delta.folder.rglob("*")) == before
    assert offsets_by_tasks(delta) == [0], "it can be read"


def test_rule_16_a_feature_that_comes_during_an_export_stops_its_commit(
    delta: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = delta.kept(value="json", columns="a long")
    delta.append_values(stream, '{"a": 1}')
    delta.export_now()

    def instead(real: Callable[..., None], table: Any, files: Any, ledger: Any) -> None:
        delta_table(delta).alter.add_constraint({"positive": "a >= 0"})
        real(table, files, ledger)

    delta.append_values(stream, '{"a": -5}')
    with appending(delta, monkeypatch, instead):
        assert "TableHasUnknownFeatures" in delta.why_failed()
    assert offsets_by_reader(delta) == [0]


def test_rule_16_an_iceberg_table_that_was_encrypted_is_left_alone(iceberg: TableWorld) -> None:
    (stream,) = iceberg.kept()
    iceberg.append_pairs(stream, [("a", "1")])
    iceberg.export_now()
    with iceberg_table(iceberg).transaction() as transaction:
        transaction.set_properties({"encryption.key-id": "k"})
    iceberg.append_pairs(stream, [("a", "2")])
    assert "has given it encryption (an export has no keys)" in iceberg.why_failed()
    with (
        iceberg.table_of() as table,
        pytest.raises(TableHasUnknownFeatures, match="cannot be read"),
    ):
        file_urls(table, iceberg.settings)


# -- snapshots that were expired ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["delete", "overwrite"])
def test_tb22_snapshots_that_a_user_expires_after_a_commit_of_his_are_no_rollback(
    iceberg: TableWorld, how: str
) -> None:
    (stream,) = iceberg.kept(partition_by="")
    iceberg.append_pairs(stream, [("a", "1"), ("b", "1")])
    iceberg.export_now()
    table = iceberg_table(iceberg)
    if how == "delete":
        table.delete("offset == 0")
    else:
        table.overwrite(table.scan(row_filter="offset == 1").to_arrow())
    expire_all_but(iceberg, iceberg_table(iceberg).metadata.current_snapshot_id)
    iceberg.append_pairs(stream, [("c", "1")])
    iceberg.export_now()
    assert offsets_by_reader(iceberg) == [1, 2]


# -- programs that read the catalog ------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["rows", "columns", "table"])
def test_rule_5_a_commit_that_a_reader_of_the_catalog_holds_up_is_seen_when_it_is_made_and_not_before(
    iceberg: TableWorld, what: str
) -> None:
    """SQLite refuses a COMMIT while another program reads. The transaction stays open on a connection that SQLAlchemy
    uses again: the look-up saw rows there that were in no table."""
    path = iceberg.settings.catalog["uri"].removeprefix("sqlite:///")
    iceberg.settings.catalog["uri"] += "?timeout=0.01"
    (stream,) = iceberg.kept(value="json", columns="a long")
    iceberg.append_values(stream, '{"a": 1}')
    if what == "table":
        with iceberg.tables():
            pass  # the catalog makes its own tables
    else:
        iceberg.export_now()
    if what == "columns":
        iceberg.set_table(columns="a long, b long")
    iceberg.append_values(stream, '{"a": 2, "b": 2}')
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select * from iceberg_tables").fetchall()
    refusal = iceberg.why_failed()
    assert refusal.startswith(("TableCommitUnknown", "CatalogFailed")) and "database is locked" in refusal
    reader.close()
    if what != "table":
        assert offsets_by_reader(iceberg) == [0] and iceberg.progress().offsets == {0: 1}
    iceberg.export_now()
    assert offsets_by_reader(iceberg) == [0, 1] and iceberg.progress().rows == 2
