"""Small files of quiet topics are joined by later rounds, and every reader finds the same rows."""

from typing import Any

import pytest

from siltstone.model.limits import DAY_MS
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.tables.orphans import delete_orphans
from support.maintenance.table_faults import (
    another_driver,
    appending,
    commit_and_kill,
    export_is_killed,
    kill,
)
from support.maintenance.table_world import TableWorld
from support.processes.tried import RecordTried


def rounds(world: TableWorld, stream: int, count: int, records: int = 3) -> None:
    for number in range(count):
        world.append_pairs(stream, [(f"k{number}", f"{each}") for each in range(records)])
        world.export_now()


def files_by_value(world: TableWorld) -> dict[Any, int]:
    found: dict[Any, int] = {}
    with world.table_of() as table:
        for each in table.files():
            found[each.partition] = found.get(each.partition, 0) + 1
    return found


def test_tb20_small_files_of_a_day_become_one(world: TableWorld) -> None:
    (stream,) = world.kept()
    rounds(world, stream, 10)
    assert list(files_by_value(world).values()) == [10]
    world.append_pairs(stream, [("a", "1")])
    assert world.export_now().text == "1 row in 1 file appended to table kafka.t; 10 small files joined to 1"
    assert list(files_by_value(world).values()) == [2]
    world.clock.advance_ms(DAY_MS)
    rounds(world, stream, 25)
    assert sorted(files_by_value(world).values()) <= [2, 10]
    assert world.rows() == world.expected([stream])
    assert world.progress().rows == len(world.expected([stream]))


@pytest.mark.nightly
def test_tb20_two_hundred_rounds_leave_twenty_files_of_a_day_at_most(
    world: TableWorld, record_tried: RecordTried
) -> None:
    record_tried("rounds", 200)
    (stream,) = world.kept()
    rounds(world, stream, 200, records=1_000)
    assert max(files_by_value(world).values()) <= 20
    assert world.rows() == world.expected([stream])


@pytest.mark.parametrize("instead", [kill, commit_and_kill])
def test_tb2_a_round_that_joins_and_is_killed_leaves_every_offset_once(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, instead: Any
) -> None:
    (stream,) = world.kept()
    rounds(world, stream, 10)
    world.append_pairs(stream, [("a", "1")])
    with appending(world, monkeypatch, instead):
        export_is_killed(world)
    world.append_pairs(stream, [("b", "1")])
    world.export_now()
    assert world.rows() == world.expected([stream])


def test_tb3_of_two_drivers_that_join_the_same_files_one_commits(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = world.kept()
    rounds(world, stream, 10)
    world.append_pairs(stream, [("a", "1")])
    with appending(world, monkeypatch, another_driver(world)):
        world.export()
    assert world.rows() == world.expected([stream])
    assert list(files_by_value(world).values()) == [2]


def test_files_of_columns_that_were_added_later_are_joined_with_older_ones(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="a int")
    for number in range(6):
        world.append_values(stream, f'{{"a": {number}, "b": "x"}}')
        world.export_now()
    world.set_table(columns="a int,b string")
    for number in range(6, 12):
        world.append_values(stream, f'{{"a": {number}, "b": "x"}}')
        world.export_now()
    assert list(files_by_value(world).values()) == [3]
    assert [row[3] for row in world.rows()] == [(n, "x" if n >= 6 else None) for n in range(12)]


def test_joined_files_are_kept_for_readers_and_deleted_later(world: TableWorld) -> None:
    (stream,) = world.kept()
    rounds(world, stream, 11)
    with world.table_of() as table:
        listed = {each.path for each in table.files()}
        assert (
            len(table.kept_paths() & {path for path in table.kept_paths() if path.startswith("data/")}) == 12
        )
        store = store_at(world.settings.location)
        assert delete_orphans(store, table, world.image.jobs, world.clock.now_ms() + 10 * DAY_MS) == 0
    if world.table_format == "parquet":
        world.clock.advance_ms(2 * DAY_MS)
        rounds(world, stream, 1)
        with world.table_of() as table:
            assert {path for path in table.kept_paths() if path in listed} == listed
            assert len(table.kept_paths()) == 3


def test_an_iceberg_table_has_a_snapshot_for_the_rows_and_one_for_the_joined_files(
    iceberg: TableWorld,
) -> None:
    (stream,) = iceberg.kept()
    rounds(iceberg, stream, 11)
    with iceberg.table_of() as table:
        snapshots = table._table.metadata.snapshots  # type: ignore[attr-defined]
        assert [each.summary.operation.value for each in snapshots[-2:]] == ["append", "replace"]
        assert table._table.scan().to_arrow().num_rows == 33  # type: ignore[attr-defined]


def test_a_delta_table_says_that_joined_rows_are_no_news(tmp_path: Any) -> None:
    import json

    from support.maintenance.table_world import table_world

    with table_world(tmp_path, "delta") as world:
        (stream,) = world.kept()
        rounds(world, stream, 11)
        newest = sorted((world.folder / "tables/kafka/t/_delta_log").glob("*.json"))[-1]
        entries = [json.loads(line) for line in newest.read_text().splitlines()]
        changes = [each["add"]["dataChange"] for each in entries if "add" in each]
        assert sorted(changes) == [False, True]
        assert [each["remove"]["dataChange"] for each in entries if "remove" in each] == [False] * 10
