"""Tables whose changes are ordered by a field (``siltstone.table.sequence``), in Iceberg and Delta, against a plain
rule; and what independent readers see of a bucket without rows."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

import duckdb
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from siltstone.model.limits import DAY_MS
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
        "value": "json",
        "columns": "v long, at long",
        "sequence": "at",
        "buckets": "2",
        "retention": "true",
        **table,
    }
    return world.kept(partitions=partitions, **given)


def value(number: int, at: int | None) -> str:
    return json.dumps({"v": number} if at is None else {"v": number, "at": at})


def rows(world: TableWorld) -> dict[tuple[int, bytes], tuple[int, int]]:
    """Returns value and sequence of each row, by partition and key."""
    found = {}
    for row in world.frame().to_dicts():
        place = (row["kafka"]["partition"], row["kafka"]["key"])
        assert place not in found, "a key has one row"
        found[place] = (row["v"], row["_sequence"])
    return found


class Model:
    """The plain rule: a record counts if its sequence is at least the highest one of its key so far."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, bytes], int] = {}
        self.rows: dict[tuple[int, bytes], tuple[int, int]] = {}

    def add(self, partition: int, key: str, number: int | None, at: int) -> None:
        place = (partition, key.encode())
        if number is None:
            self.rows.pop(place, None)
        elif at >= self.known.get(place, at):
            self.known[place], self.rows[place] = at, (number, at)


def test_sq1_late_and_repeated_records_change_nothing(world: TableWorld) -> None:
    (stream,) = kept(world)
    world.append_pairs(stream, [("a", value(1, 10)), ("a", value(2, 5)), ("b", value(3, 1))])
    world.export_now()
    assert rows(world) == {(0, b"a"): (1, 10), (0, b"b"): (3, 1)}
    world.append_pairs(stream, [("a", value(4, 9)), ("b", value(5, 1)), ("b", value(6, 0))])
    world.export_now()
    assert rows(world) == {(0, b"a"): (1, 10), (0, b"b"): (5, 1)}, "of equal ones the last counts"


def test_sq2_a_late_record_does_not_bring_a_removed_row_back(world: TableWorld) -> None:
    (stream,) = kept(world)
    world.append_pairs(stream, [("a", value(1, 10))])
    world.export_now()
    world.append_pairs(stream, [("a", None)])
    world.export_now()
    assert rows(world) == {}
    world.append_pairs(stream, [("a", value(2, 9)), ("b", value(3, 1))])
    world.export_now()
    assert rows(world) == {(0, b"b"): (3, 1)}
    world.append_pairs(stream, [("a", value(4, 11))])
    world.export_now()
    assert rows(world) == {(0, b"a"): (4, 11), (0, b"b"): (3, 1)}


def test_sq5_a_removed_key_is_forgotten_after_a_week(world: TableWorld) -> None:
    (stream,) = kept(world)
    world.append_pairs(stream, [("a", value(1, 10))])
    world.append_pairs(stream, [("a", None)])
    world.export_now()
    world.clock.advance_ms(8 * DAY_MS)
    # A merge of the bucket drops what is old, and the merge after it no longer knows it.
    for number in (0, 1):
        world.append_pairs(stream, [(f"k{each}", value(each, number)) for each in range(8)])
        world.export_now()
    world.append_pairs(stream, [("a", value(2, 9))])
    world.export_now()
    assert rows(world)[0, b"a"] == (2, 9)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("seed", range(3))
def test_sq1_rows_are_those_of_the_plain_rule_after_kills_and_in_slices(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng, streams, model = Random(seed), kept(world, partitions=2), Model()
    for number, instead in enumerate((None, kill, commit_and_kill, None)):
        for _ in range(4):
            partition, pairs = rng.randrange(2), []
            for _ in range(rng.randrange(1, 8)):
                key, new, at = f"k{rng.randrange(6)}", rng.choice([None, *range(5)]), rng.randrange(8)
                pairs.append((key, None if new is None else value(new, at)))
                model.add(partition, key, new, at)
            world.append_pairs(streams[partition], pairs)
        if instead is not None:
            with appending(world, monkeypatch, instead):
                export_is_killed(world)
        world.export()
        assert rows(world) == model.rows, f"after part {number}"


def test_sq3_the_fields_of_change_events(world: TableWorld) -> None:
    """Deletes have a sequence here, so one that comes before its insert counts, too."""

    def event(op: str, lsn: int | str | None, row: Any = None) -> str:
        return json.dumps({"op": op, "before": None, "after": row, "source": {"lsn": lsn}})

    (stream,) = kept(world, change="debezium", columns="v long", sequence="source.lsn")
    world.append_pairs(
        stream,
        [
            ("1", event("c", 1, {"v": 1})), ("1", event("u", 3, {"v": 3})), ("1", event("u", 2, {"v": 2})),
            ("2", event("d", 9)), ("2", None), ("2", event("c", 8, {"v": 8})), ("3", event("c", "7", {"v": 7})),
        ],
    )  # fmt: skip
    world.export_now()
    assert rows(world) == {(0, b"1"): (3, 3), (0, b"3"): (7, 7)}
    world.append_pairs(stream, [("2", event("u", 8, {"v": 8})), ("1", event("d", 4)), ("3", event("d", 6))])
    world.export_now()
    assert rows(world) == {(0, b"3"): (7, 7)}


def test_sq3_flat_rows_of_change_events(world: TableWorld) -> None:
    (stream,) = kept(world, change="debezium", columns="v long, at long")
    gone = json.dumps({"v": 1, "at": 5, "__deleted": "true"})
    world.append_pairs(stream, [("1", value(1, 4)), ("1", gone), ("1", value(1, 4)), ("2", value(2, 1))])
    world.export_now()
    assert rows(world) == {(0, b"2"): (2, 1)}


def test_sq4_records_without_a_sequence_are_dead_letters(world: TableWorld) -> None:
    (stream,) = kept(world)
    world.append_pairs(stream, [("a", value(1, None)), *((f"k{each}", value(each, 1)) for each in range(4))])
    unit = world.export_now()
    assert "1 bad" in unit.text or "dead" in unit.text, unit.text
    assert "it has no sequence: at is missing" in world.frame("kafka.t__errors")["reason"][0]
    assert len(rows(world)) == 4


def test_sq4_a_field_of_text_is_no_sequence(world: TableWorld) -> None:
    (stream,) = kept(world, columns="infer", sequence="w")
    world.append_pairs(stream, [(f"k{each}", json.dumps({"w": "x"})) for each in range(3)])
    world.export_now()
    assert "no whole number, time or date" in world.frame("kafka.t__errors")["reason"][0]


def test_sq6_the_time_of_records(world: TableWorld) -> None:
    (stream,) = kept(world, value="string", columns="", sequence="kafka.timestamp")
    world.clock.advance_ms(5_000)
    world.append_pairs(stream, [("a", "late"), ("b", "there")])
    world.export_now()
    now_us = world.clock.now_ms() * 1000
    assert sorted(world.frame()["_sequence"].to_list()) == [now_us, now_us]


def test_sq7_a_bucket_without_rows_is_read_by_others(world: TableWorld) -> None:
    (stream,) = kept(world, buckets="1")
    world.append_pairs(stream, [("a", value(1, 10)), ("a", None)])
    world.export_now()
    assert len(world.paths()) == 1, "the note of the removed key has a file"
    if world.table_format == "delta":
        (path,) = Path(unquote(urlsplit(world.settings.location).path)).glob("kafka/t")
        assert DeltaTable(path).to_pyarrow_table().num_rows == 0
    else:
        catalog = load_catalog("siltstone", **world.settings.catalog)
        assert catalog.load_table("kafka.t").scan().to_arrow().num_rows == 0
    assert duckdb.sql(f"select count(*) from read_parquet('{world.paths()[0]}')").fetchall() == [(0,)]
    world.append_pairs(stream, [("a", value(2, 9))])
    world.export_now()
    assert rows(world) == {}
    world.append_pairs(stream, [("a", value(3, 12))])
    world.export_now()
    assert rows(world) == {(0, b"a"): (3, 12)}


def test_sq8_the_configuration_cannot_be_changed_once_there_is_a_table(world: TableWorld) -> None:
    (stream,) = kept(world)
    world.append_pairs(stream, [("a", value(1, 1))])
    world.export_now()
    world.set_table(sequence="")
    world.append_pairs(stream, [("a", value(2, 2))])
    assert "made with siltstone.table.sequence" in world.why_failed()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mode": "append"}, "needs siltstone.table.mode=upsert"),
        ({"history": "scd2"}, "in the order of the offsets"),
        ({"sequence": "w"}, "there is no column w"),
        ({"columns": "v long, at string"}, "its type is string"),
        ({"columns": "v long, at long, _sequence long"}, "that of the sequence"),
        ({"sequence": "source.lsn"}, "a path is kafka.timestamp"),
        ({"value": "string", "columns": ""}, "values have no fields here"),
        ({"retention": "false"}, "siltstone.table.retention=true"),
    ],
)
def test_sq8_words_that_contradict_each_other(changes: dict[str, str], reason: str) -> None:
    given = {"mode": "upsert", "value": "json", "columns": "v long, at long", "sequence": "at"}
    table = {"format": "iceberg", "retention": "true", **given, **changes}
    named = {f"siltstone.table.{key}": text for key, text in table.items()} | {"cleanup.policy": "compact"}
    with pytest.raises(InvalidTopicConfig, match=reason):
        parse_topic_configs(named, {})


def test_sq8_a_topic_that_is_not_compacted_has_such_a_table(world: TableWorld) -> None:
    table = {"mode": "upsert", "value": "json", "columns": "at long", "sequence": "at", "format": "delta"}
    assert parse_topic_configs({f"siltstone.table.{key}": text for key, text in table.items()}, {})
