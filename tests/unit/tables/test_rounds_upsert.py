"""Tables that keep the newest record of each key: after each round they equal a view of the topic by key."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.cli.tables.explain import _newest
from siltstone.tables import rewriting
from siltstone.tables.planning import exports
from siltstone.tables.rewriting import run_rewrite
from support.maintenance.table_faults import (
    another_driver,
    appending,
    commit_and_kill,
    export_is_killed,
    kill,
)
from support.maintenance.table_world import TableWorld, table_world


@pytest.fixture(params=["iceberg", "delta"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TableWorld]:
    with table_world(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[TableWorld]:
    with table_world(tmp_path, "iceberg") as made:
        yield made


def kept(world: TableWorld, partitions: int = 2, **table: str) -> list[int]:
    return world.kept(partitions=partitions, mode="upsert", buckets="4", **table)


def newest(world: TableWorld, streams: list[int]) -> list[tuple[Any, ...]]:
    """Returns the view of the topic by the plain rule: the newest record of each key in each partition."""
    found: dict[tuple[int, str], tuple[Any, ...]] = {}
    for number, stream in enumerate(streams):
        for offset, key, value in world.records(stream):
            if key is not None:
                found[number, key] = (number, offset, key.encode(), value and value.encode())
    return sorted(row for row in found.values() if row[3] is not None)


def export_all(world: TableWorld) -> None:
    while world.export(round_bytes=1_500).units:
        pass


def test_tb13_the_table_is_the_view_by_key_after_rounds_with_tombstones_and_kills(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = kept(world)
    rng = Random(5)
    for number, instead in enumerate((kill, commit_and_kill, None)):
        for stream in streams:
            world.fill(stream, seed=rng.randrange(1_000), count=60, keys=15)
        if instead is not None:
            with appending(world, monkeypatch, instead):
                export_is_killed(world)
        export_all(world)
        assert world.rows() == newest(world, streams), f"round {number}"
        assert world.progress().rows == len(world.rows())
    for stream in streams:
        world.append_pairs(stream, [(f"{number}", None) for number in range(15)])
    export_all(world)
    assert world.rows() == newest(world, streams)


def test_tb13_a_round_rewrites_only_the_buckets_that_have_new_records(world: TableWorld) -> None:
    (stream,) = kept(world, partitions=1)
    world.append_pairs(stream, [(f"k{number}", "1") for number in range(40)])
    assert world.export_now().text == "40 records merged into table kafka.t, which has 40 rows"
    before = set(world.paths())
    assert len(before) == 4
    world.append_pairs(stream, [("k7", "2")], [("k7", "3")])
    assert world.export_now().text == "2 records merged into table kafka.t, which has 40 rows"
    assert len(set(world.paths()) - before) == 1 and len(world.paths()) == 4
    world.append_pairs(stream, [("k7", None)])
    world.export_now()
    assert world.rows() == newest(world, [stream]) and len(world.rows()) == 39


def test_tb13_records_without_a_key_are_no_rows(world: TableWorld) -> None:
    (stream,) = kept(world, partitions=1)
    world.append_pairs(stream, [(None, "1"), ("a", "2"), (None, None)])
    world.export_now()
    assert world.places() == [(0, 1)]


def test_tb13_only_tombstones_leave_an_empty_table_whose_ledger_has_moved(world: TableWorld) -> None:
    (stream,) = kept(world, partitions=1)
    world.append_pairs(stream, [("a", None)])
    world.export_now()
    assert (world.rows(), world.progress().offsets) == ([], {0: 1})
    world.append_pairs(stream, [("a", "1")], [("a", None), ("b", "1")], [("b", None)])
    world.export_now()
    assert (world.rows(), world.paths(), world.progress().offsets) == ([], [], {0: 5})


@pytest.mark.usefixtures("small_slices")
def test_tb13_keys_and_rows_beyond_the_memory_of_a_task_are_done_in_slices(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = kept(world)
    sliced = []
    real = rewriting._Rewriting._slices

    def slices(each: Any) -> int:
        sliced.append(real(each))
        return sliced[-1]

    monkeypatch.setattr(rewriting._Rewriting, "_slices", slices)
    for seed in range(3):
        for stream in streams:
            world.fill(stream, seed=seed, count=60, keys=15)
        world.export_now()
        assert world.rows() == newest(world, streams)
    assert max(sliced) > 3


def test_tb3_of_two_drivers_that_merge_the_same_records_one_commits(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = kept(world)
    for seed in range(2):
        for stream in streams:
            world.fill(stream, seed=seed, count=30, keys=9)
        with appending(world, monkeypatch, another_driver(world)):
            (unit,) = world.export().units
        assert unit.outcome is Outcome.NOT_NEEDED
        assert world.rows() == newest(world, streams)


def test_tb8_older_rows_get_the_columns_that_a_later_round_adds(world: TableWorld) -> None:
    (stream,) = kept(world, partitions=1, value="json", columns="a int", key="string")
    world.append_pairs(stream, [("x", '{"a": 1}'), ("y", '{"a": 2}')])
    world.export_now()
    world.set_table(columns="a long,b string")
    world.append_pairs(stream, [("x", '{"a": 5000000000, "b": "new"}'), ("z", "{}")])
    world.export_now()
    world.append_pairs(stream, [(key, '{"a": 3}') for key in ("w", "v", "u", "t", "s", "r")])
    world.export_now()
    found = {row[2]: row[3] for row in world.rows()}
    assert (found["x"], found["y"], found["z"]) == ((5_000_000_000, "new"), (2, None), (None, None))
    assert len(found) == 9


def test_a_row_of_nulls_is_no_tombstone(world: TableWorld) -> None:
    (stream,) = kept(world, partitions=1, value="json", columns="a int", key="string")
    world.append_pairs(stream, [("x", "{}"), ("y", "{}"), ("y", None)])
    world.export_now()
    assert [row[2] for row in world.rows()] == ["x"]


def test_tb11_a_record_that_cannot_be_decoded_leaves_the_older_row(world: TableWorld) -> None:
    (stream,) = kept(world, partitions=1, value="json", columns="a int")
    world.append_pairs(stream, [("x", '{"a": 1}')])
    world.export_now()
    world.append_pairs(stream, [("x", "garbage"), ("y", '{"a": 2}')])
    world.export_now()
    assert world.places() == [(0, 0), (0, 2)]
    assert world.places("kafka.t__errors") == [(0, 1)]


def test_tb25_a_key_in_two_partitions_has_two_rows(world: TableWorld) -> None:
    streams = kept(world)
    for stream in streams:
        world.append_pairs(stream, [("a", "1"), ("b", "1")])
    export = exports(world.image)["t"]
    assert "mode" in _newest(world.context, world.settings, export)
    world.export_now()
    told = _newest(world.context, world.settings, export)
    assert told == {"mode": "upsert; 2 rows more than keys, of keys with records in several partitions"}
    world.append_pairs(streams[0], [("a", None)])
    world.export_now()
    assert world.rows() == newest(world, streams) and len(world.rows()) == 3
    assert "1 row more than keys" in _newest(world.context, world.settings, export)["mode"]


def test_tb7_a_merge_that_runs_twice_writes_the_same_file(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = kept(world, partitions=1)
    seen: dict[str, bytes] = {}

    def twice(given: bytes) -> bytes:
        run_rewrite(given)
        seen.update({str(path): path.read_bytes() for path in world.folder.rglob("data/*.parquet")})
        result = run_rewrite(given)
        assert {str(path): path.read_bytes() for path in world.folder.rglob("data/*.parquet")} == seen
        return result

    from siltstone.tables import round_tasks

    monkeypatch.setattr(round_tasks, "run_rewrite", twice)
    for seed in range(2):
        world.fill(stream, seed=seed, count=50)
        world.export_now()
    assert world.rows() == newest(world, [stream])


def test_a_table_that_was_made_in_another_mode_is_left_alone(world: TableWorld) -> None:
    (stream,) = kept(world, partitions=1)
    world.append_pairs(stream, [("a", "1")])
    world.export_now()
    world.append_pairs(stream, [("a", "2")])
    world.configure(
        "t", **{"siltstone.table.mode": "append", "siltstone.table.partition.by": "bucket(key,4)"}
    )
    assert "it was made with siltstone.table.mode=upsert, which cannot be changed" in world.why_failed()
    world.configure("t", **{"siltstone.table.mode": "upsert", "siltstone.table.buckets": "8"})
    assert "it is divided by bucket(key,4), which cannot be changed" in world.why_failed()


def test_tb22_files_that_another_program_replaces_meanwhile_are_left_to_the_next_round(
    iceberg: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = kept(iceberg, partitions=1)
    iceberg.append_pairs(stream, [("a", "1")])
    iceberg.export_now()

    def instead(real: Any, table: Any, files: Any, ledger: Any) -> None:
        with iceberg.table_of() as other:
            other._table.delete()  # type: ignore[attr-defined]
        real(table, files, ledger)

    iceberg.append_pairs(stream, [("a", "2"), ("b", "1")])
    with appending(iceberg, monkeypatch, instead):
        (unit,) = iceberg.export().units
    assert unit.outcome is Outcome.NOT_NEEDED and "another program has replaced files" in unit.text
    iceberg.export_now()
    with iceberg.table_of() as table:
        rows = table._table.scan().to_arrow().to_pylist()  # type: ignore[attr-defined]
    assert sorted((row["key"], row["offset"]) for row in rows) == [(b"a", 1), (b"b", 2)], "as it wanted it"


def test_manifests_of_an_iceberg_table_do_not_pile_up(iceberg: TableWorld) -> None:
    (stream,) = kept(iceberg, partitions=1)
    for number in range(12):
        iceberg.append_pairs(stream, [(f"k{number % 5}", str(number))])
        iceberg.export_now()
    with iceberg.table_of() as table:
        snapshot = table._table.current_snapshot()  # type: ignore[attr-defined]
        assert len(snapshot.manifests(table._table.io)) <= 6  # type: ignore[attr-defined]
        assert snapshot.summary["total-records"] == "5" and snapshot.summary.operation.value == "overwrite"
    assert iceberg.rows() == newest(iceberg, [stream])


def test_every_reader_finds_the_newest_rows_alone(world: TableWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    streams = kept(world)
    for seed in range(3):
        for stream in streams:
            world.fill(stream, seed=seed, count=40)
        world.export_now()
    place = f"{world.settings.location}/kafka/t"
    with world.table_of() as table:
        lazily = pl.scan_delta(place) if world.table_format == "delta" else pl.scan_iceberg(table.place)
        found = lazily.select("partition", "offset", "key", "value").collect().rows()
    assert sorted(found) == newest(world, streams)
