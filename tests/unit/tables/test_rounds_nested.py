"""Columns of structs, arrays and maps: other readers of the tables see what the records have."""

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from support.maintenance.table_world import TableWorld

COLUMNS = (
    "name string, at struct<lat: double, floor: int>, tags array<string>,"
    " stops array<struct<code: string, when: timestamp, more: json>>, counts map<string, int>"
)
FULL = (
    '{"name": "a", "at": {"lat": 1.5, "floor": 2}, "tags": ["x", null], "counts": {"u": 1, "v": null},'
    ' "stops": [{"code": "SFO", "when": "2026-02-28T00:00:00Z", "more": [1, {"k": 2}]}, {"code": "JFK"}]}'
)
SFO = {"code": "SFO", "when": datetime(2026, 2, 28, tzinfo=UTC), "more": '[1, {"k": 2}]'}
JFK = {"code": "JFK", "when": None, "more": None}


@pytest.fixture(autouse=True)
def planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


def read(world: TableWorld) -> list[dict[str, Any]]:
    """Returns the rows as another program reads them, in the order of their offsets."""
    with world.table_of() as table:
        if world.table_format == "iceberg":
            frame = pl.scan_iceberg(table._table).collect()  # type: ignore[attr-defined]
        elif world.table_format == "delta":
            frame = pl.read_delta(f"{world.folder}/tables/kafka/t")
        else:
            frame = pl.read_parquet(world.paths())
    rows = frame.to_dicts()
    return sorted(rows, key=lambda row: row["kafka"]["offset"])


def test_tb28_nested_columns_are_rows_for_other_readers(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns=COLUMNS)
    world.append_values(
        stream, FULL, "{}", '{"tags": [1]}', '{"at": {}, "tags": [], "stops": [null], "counts": {}}'
    )
    world.export_now()
    full, nothing, empty = read(world)
    assert {name: full[name] for name in ("name", "at", "tags", "stops", "counts")} == {
        "name": "a",
        "at": {"lat": 1.5, "floor": 2},
        "tags": ["x", None],
        "stops": [SFO, JFK],
        "counts": {"u": 1, "v": None},
    }
    assert [nothing[name] for name in ("at", "tags", "stops", "counts")] == [None] * 4
    assert empty["at"] == {"lat": None, "floor": None}
    assert (empty["tags"], empty["stops"], empty["counts"]) == ([], [None], {})
    (dead,) = world.frame("kafka.t__errors").to_dicts()
    assert dead["offset"] == 2 and "$.tags[0]" in dead["reason"]


def test_tb28_a_field_that_is_taken_off_a_struct_is_null_in_newer_rows(world: TableWorld) -> None:
    (stream,) = world.kept(
        value="json", columns="at struct<lat: double, floor: int>, counts map<string, int>"
    )
    world.append_values(stream, FULL)
    world.export_now()
    world.set_table(columns="at struct<floor: int>, counts map<string, int>")
    world.append_values(stream, FULL)
    world.export_now()
    world.set_table(columns="counts map<string, int>, at struct<floor: int, lat: double>")
    world.append_values(stream, FULL)
    world.export_now()
    assert [(row["at"]["lat"], row["at"]["floor"]) for row in read(world)] == [(1.5, 2), (None, 2), (1.5, 2)]


def test_tb28_a_field_that_is_added_to_a_struct_is_a_field_where_the_format_can_have_more(
    world: TableWorld,
) -> None:
    (stream,) = world.kept(value="json", columns="at struct<floor: int>, counts map<string, int>")
    world.append_values(stream, FULL)
    world.export_now()
    world.set_table(
        columns="at struct<floor: long, lat: double>, counts map<string, long>, tags array<string>"
    )
    world.append_values(stream, FULL)
    if world.table_format == "iceberg":
        world.export_now()
        rows = read(world)
        assert [row["at"] for row in rows] == [{"floor": 2, "lat": None}, {"floor": 2, "lat": 1.5}]
        assert [row["tags"] for row in rows] == [None, ["x", None]]
    else:
        assert (
            "TableShapedOtherwise: table kafka.t does not fit the topic's configurations: column at is struct"
            in (world.why_failed())
        )


def test_tb28_a_plain_column_does_not_become_a_nested_one(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="at json")
    world.append_values(stream, FULL)
    world.export_now()
    world.set_table(columns="at struct<floor: int>")
    world.append_values(stream, FULL)
    assert "column at is string, and struct<floor: int" in world.why_failed()


@pytest.mark.parametrize("world", ["iceberg", "delta"], indirect=True)
def test_tb28_nested_columns_of_the_newest_record_of_each_key(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns=COLUMNS, mode="upsert", key="string", buckets="2")
    world.append_pairs(stream, [("a", FULL), ("b", FULL), ("c", FULL)])
    world.export_now()
    world.append_pairs(stream, [("a", '{"tags": ["new"]}'), ("b", None)])
    world.export_now()
    rows = {row["kafka"]["key"]: row for row in read(world)}
    assert set(rows) == {"a", "c"}
    assert (rows["a"]["tags"], rows["a"]["stops"]) == (["new"], None)
    assert (rows["c"]["stops"], rows["c"]["counts"]) == ([SFO, JFK], {"u": 1, "v": None})


def test_tb28_small_files_with_nested_columns_are_joined(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns=COLUMNS)
    for _ in range(6):
        world.append_values(stream, FULL)
        world.export_now()
        world.append_values(stream, "{}")
        world.export_now()
    assert len(world.paths()) < 12, "some were joined"
    assert [row["stops"] for row in read(world)] == [[SFO, JFK], None] * 6
    assert [row["at"] for row in read(world)] == [{"lat": 1.5, "floor": 2}, None] * 6
