"""Tables that keep all versions of their rows (``siltstone.table.history=scd2``), against a plain model."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from siltstone.metadata.commands import AddPartitions
from siltstone.topic_configs.table import parse_topic_configs
from siltstone.topic_configs.values import InvalidTopicConfig
from support.maintenance.table_faults import appending, commit_and_kill, export_is_killed, kill
from support.maintenance.table_world import TableWorld, table_world


@pytest.fixture(params=["iceberg", "delta"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TableWorld]:
    with table_world(tmp_path, request.param) as made:
        yield made


def kept(world: TableWorld, partitions: int = 1, **table: str) -> list[int]:
    given = {
        "mode": "upsert",
        "history": "scd2",
        "value": "json",
        "columns": "v long",
        "buckets": "2",
        **table,
    }
    return world.kept(partitions=partitions, **given)


Version = tuple[int, bytes, int, int, int | None, bool]


def versions(world: TableWorld) -> list[Version]:
    """Returns (partition, key, value, valid from, valid to, whether it is current), times in ms."""
    found = []
    for row in world.frame().to_dicts():
        valid_to = row["_valid_to"]
        times = [each and round(each.timestamp() * 1000) for each in (row["_valid_from"], valid_to)]
        kafka = row["kafka"]
        found.append((kafka["partition"], kafka["key"], row["v"], times[0], times[1], row["_is_current"]))
    return sorted(found, key=repr)


class Model:
    """The plain rule: each record ends the version before it, and begins one unless it is a tombstone."""

    def __init__(self) -> None:
        self.found: list[list[Any]] = []

    def add(self, partition: int, key: bytes, value: int | None, time_ms: int) -> None:
        for each in self.found:
            if each[:2] == [partition, key] and each[5]:
                each[4:] = [time_ms, False]
        if value is not None:
            self.found.append([partition, key, value, time_ms, None, True])

    def truncate(self, time_ms: int) -> None:
        for each in self.found:
            if each[5]:
                each[4:] = [time_ms, False]

    def versions(self) -> list[Version]:
        return sorted((tuple(each) for each in self.found), key=repr)


def append(world: TableWorld, model: Model, streams: list[int], partition: int, pairs: list[Any]) -> None:
    """Appends records of one time, a second after the ones before."""
    world.clock.advance_ms(1_000)
    written = [(key, None if value is None else f'{{"v": {value}}}') for key, value in pairs]
    world.append_pairs(streams[partition], written)
    for key, value in pairs:
        model.add(partition, key.encode(), value, world.clock.now_ms())


def test_ch9_each_version_ends_where_the_next_one_begins(world: TableWorld) -> None:
    streams, model = kept(world), Model()
    append(world, model, streams, 0, [("a", 1), ("b", 2), ("a", 3), ("b", None)])
    world.export_now()
    assert versions(world) == model.versions()
    assert [each[2] for each in versions(world) if each[5]] == [3]
    append(world, model, streams, 0, [("a", 4), ("b", 5), ("c", None), ("a", None)])
    world.export_now()
    assert versions(world) == model.versions()
    assert [each[2] for each in versions(world) if each[5]] == [5]


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("seed", range(3))
def test_ch9_the_versions_are_those_of_the_plain_rule_after_kills_and_in_slices(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng, streams, model = Random(seed), kept(world, partitions=2), Model()
    for number, instead in enumerate((None, kill, commit_and_kill, None)):
        for _ in range(4):
            pairs = [
                (f"k{rng.randrange(6)}", rng.choice([None, *range(5)])) for _ in range(rng.randrange(1, 8))
            ]
            append(world, model, streams, rng.randrange(2), pairs)
        if instead is not None:
            with appending(world, monkeypatch, instead):
                export_is_killed(world)
        world.export()
        assert versions(world) == model.versions(), f"after part {number}"


def test_ch9_found_columns_and_changes_have_versions_too(world: TableWorld) -> None:
    (stream,) = kept(world, columns="infer", change="debezium")
    world.append_pairs(
        stream, [("1", '{"op": "c", "after": {"v": 1}}'), ("1", '{"op": "u", "after": {"v": 2, "w": "x"}}')]
    )
    world.export_now()
    world.append_pairs(
        stream, [("1", '{"op": "d", "after": null}'), ("2", '{"op": "c", "after": {"_valid_to": 7}}')]
    )
    world.export_now()
    rows = sorted(world.frame().to_dicts(), key=lambda row: row["kafka"]["offset"])
    assert [(row["v"], row["w"], row["_is_current"]) for row in rows] == [
        (1, None, False), (2, "x", False), (None, None, True),
    ]  # fmt: skip
    assert rows[2]["_rescued_data"] == '{"_valid_to":7}'


def change(op: str, value: int | None = None) -> str:
    after = "null" if value is None else f'{{"v": {value}}}'
    return f'{{"op": "{op}", "after": {after}, "source": {{}}}}'


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("seed", range(4))
def test_ch14_a_truncate_ends_all_versions_before_it(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng, (stream,), model = Random(seed), kept(world, change="debezium"), Model()
    for number, instead in enumerate((None, kill, commit_and_kill, None, None)):
        for _ in range(4):
            world.clock.advance_ms(1_000)
            pairs: list[tuple[str | None, str]] = []
            for _ in range(rng.randrange(1, 8)):
                key, value = f"k{rng.randrange(6)}", rng.choice([None, *range(5)])
                if rng.random() < 0.15:
                    pairs.append((None, change("t")))
                    model.truncate(world.clock.now_ms())
                    continue
                pairs.append((key, change("d" if value is None else "u", value)))
                model.add(0, key.encode(), value, world.clock.now_ms())
            world.append_pairs(stream, pairs)
        if instead is not None:
            with appending(world, monkeypatch, instead):
                export_is_killed(world)
        world.export()
        assert versions(world) == model.versions(), f"after part {number}"


def test_ch14_more_truncates_than_a_task_takes_are_dead_letters(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.tables.task.TRUNCATES_MAX", 2)
    (stream,) = kept(world, change="debezium")
    world.append_pairs(stream, [("a", change("u", 1)), (None, change("t"))] * 3 + [("a", change("u", 2))] * 7)
    world.export_now()
    assert [each[2] for each in versions(world) if each[5]] == [2] and world.progress().dead_letters == 1
    assert "more than 2 such events" in world.frame("kafka.t__errors")["reason"][0]


def test_ch9_history_cannot_be_changed_once_there_is_a_table(world: TableWorld) -> None:
    (stream,) = kept(world)
    world.append_pairs(stream, [("a", '{"v": 1}')])
    world.export_now()
    world.set_table(history="")
    world.append_pairs(stream, [("a", '{"v": 2}')])
    assert "made with siltstone.table.history" in world.why_failed()


def test_ch9_history_needs_keys() -> None:
    with pytest.raises(InvalidTopicConfig, match="needs siltstone"):
        parse_topic_configs({"siltstone.table.format": "iceberg", "siltstone.table.history": "scd2"}, {})


def test_ch14_a_repeated_round_takes_the_truncates_that_it_took(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its units may be others, since objects were compacted, and the topic may have got a partition."""
    (stream,) = kept(world, change="debezium")
    world.append_pairs(stream, [("a", change("u", 1)), (None, change("t"))] * 3 + [("a", change("u", 2))])
    world.append_pairs(stream, [("b", "garbage"), *[(f"k{number}", change("u", 3)) for number in range(9)]])
    with appending(world, monkeypatch, kill, nth=2):
        export_is_killed(world)
    monkeypatch.setattr("siltstone.tables.task.TRUNCATES_MAX", 2)
    world.metadata.execute(AddPartitions(0, 1, world.topic_named("t").topic_id, 2))
    world.export_now()
    found = [each for each in versions(world) if each[1] == b"a"]
    assert [each[5] for each in found] == [False, False, False, True] and len(versions(world)) == 13
    world.append_pairs(stream, [(None, change("t"))])
    world.export_now()
    assert world.progress().dead_letters == 2, "the topic has two partitions"
