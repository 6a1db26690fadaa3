"""Dead letters of tables with the newest record of each key, and of tables with all versions: what moves is the newest
record of its key, whatever was killed."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from siltstone.carrying.pipeline.kind import Budget, Outcome, Scope, UnitReport
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.metadata.commands import AddPartitions
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.tables.replay_kind import TableReplay
from siltstone.tables.replay_order import LettersOfPartition
from siltstone.tables.task_input import Mending
from support.maintenance.table_faults import Killed, appending, commit_and_kill, kill
from support.maintenance.table_world import TableWorld, table_world

MEND = """
import json
def fixed(letter):
    return json.dumps({"n": int(json.loads(letter.value)["n"])})
"""


@pytest.fixture(params=["iceberg", "delta"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TableWorld]:
    with table_world(tmp_path, request.param) as made:
        yield made


def replay(world: TableWorld, mend: str = MEND, **given: Any) -> UnitReport:
    kind = TableReplay(world.settings, "t", Mending(mend, "mend", "fixed") if mend else None, **given)
    scope = Scope(topics=frozenset(["t"]), is_forced=True)
    (unit,) = run(world.context, kind, InProcessRunner, scope, Budget(), Watch(kind.name, world.clock)).units
    return unit


def kept(world: TableWorld, **table: str) -> int:
    world_table = {"value": "json", "columns": "n long", "key": "string", "buckets": "2", **table}
    (stream,) = world.kept(mode="upsert", **world_table)
    return stream


def rows(world: TableWorld) -> dict[str, int]:
    return {row["kafka"]["key"]: row["n"] for row in world.frame().to_dicts()}


def letters(world: TableWorld) -> dict[int, str]:
    frame = world.frame("kafka.t__errors")
    return {row["offset"]: row["value"].decode() for row in frame.to_dicts()}


def good(n: int) -> str:
    return json.dumps({"n": n})


def bad(n: int) -> str:
    return json.dumps({"n": str(n)})


def test_dl14_a_dead_letter_moves_only_if_its_record_is_the_newest_of_its_key(world: TableWorld) -> None:
    stream = kept(world)
    world.append_pairs(
        stream,
        [("a", good(1)), ("a", bad(2)), ("b", bad(3)), ("b", good(4)), ("c", bad(5)), ("c", None), ("d", bad(6)),
         ("d", bad(7)), (None, bad(8)), *((f"k{number}", good(number)) for number in range(20))],
    )  # fmt: skip
    world.export_now()
    assert set(letters(world)) == {1, 2, 4, 6, 7, 8}
    before = rows(world)
    dry = replay(world, is_dry=True)
    assert dry.text == "2 dead letters fit table kafka.t, 4 dead letters stay" and rows(world) == before
    unit = replay(world)
    assert unit.outcome is Outcome.DONE and unit.text.startswith("2 dead letters moved"), unit
    assert rows(world) == {**before, "a": 2, "d": 7} and "c" not in rows(world) and rows(world)["b"] == 4
    assert set(letters(world)) == {2, 4, 6, 8}
    said = " ".join(unit.detail.values())
    assert "a newer record of its key is in the topic" in said or "its record has no key" in said
    assert replay(world).text.startswith("0 dead letters moved")


def test_dl15_later_records_replace_what_was_moved(world: TableWorld) -> None:
    stream = kept(world)
    world.append_pairs(stream, [("a", bad(1)), *((f"k{number}", good(number)) for number in range(9))])
    world.export_now()
    world.append_pairs(stream, [("a", good(2))])
    assert replay(world).text.startswith("1 dead letter moved"), "the newer one is not in the table yet"
    assert rows(world)["a"] == 1
    world.export_now()
    assert rows(world)["a"] == 2


def test_dl16_a_record_that_is_not_in_the_topic_any_more_stays_a_dead_letter(world: TableWorld) -> None:
    """A tombstone that has gone with it may have removed its row."""
    stream = kept(world)
    world.append_pairs(stream, [("a", bad(1)), *((f"k{number}", good(number)) for number in range(9))])
    world.export_now()
    world.trim(stream, 1)
    unit = replay(world)
    assert unit.text.startswith("0 dead letters moved") and "not in the topic any more" in str(unit.detail)
    assert letters(world) == {0: bad(1)} and "a" not in rows(world)


@pytest.mark.parametrize("instead", [kill, commit_and_kill])
@pytest.mark.parametrize("nth", [1, 2])
def test_dl17_a_kill_at_either_commit_leaves_each_record_in_one_table(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, instead: Any, nth: int
) -> None:
    stream = kept(world)
    world.append_pairs(stream, [("a", bad(1)), *((f"k{number}", good(number)) for number in range(9))])
    world.export_now()
    with appending(world, monkeypatch, instead, nth), pytest.raises(Killed):
        replay(world)
    world.finish_jobs()
    replay(world)
    assert rows(world)["a"] == 1 and letters(world) == {}
    world.append_pairs(stream, [("a", None)])
    world.export_now()
    assert "a" not in rows(world)


def test_dl18_a_table_of_versions_gets_the_newest_version_and_ends_the_one_before(world: TableWorld) -> None:
    stream = kept(world, history="scd2")
    world.append_pairs(
        stream, [("a", good(1)), ("a", bad(2)), *((f"k{number}", good(number)) for number in range(9))]
    )
    world.export_now()
    assert replay(world).text.startswith("1 dead letter moved")
    found = {row["n"]: row for row in world.frame().to_dicts() if row["kafka"]["key"] == "a"}
    assert not found[1]["_is_current"] and found[1]["_valid_to"] == found[2]["_valid_from"]
    assert found[2]["_is_current"] and found[2]["_valid_to"] is None and letters(world) == {}


def test_dl19_keys_of_fields_are_one_key_however_they_are_written(world: TableWorld) -> None:
    stream = kept(world, **{"key": "json", "key.columns": "id long"})
    world.append_pairs(
        stream,
        [('{"id": 1}', bad(1)), ('{"id":1,"x":2}', good(2)), ('{"id": 3}', bad(3)), ("broken", bad(4)),
         *((f'{{"id":{number}}}', good(number)) for number in range(10, 20))],
    )  # fmt: skip
    world.export_now()
    assert replay(world).text.startswith("1 dead letter moved")
    found = {row["kafka"]["key"]["id"]: row["n"] for row in world.frame().to_dicts()}
    assert found[1] == 2 and found[3] == 3


def test_dl19_keys_with_schemas_are_refused(world: TableWorld) -> None:
    from msgspec.structs import replace

    stream = kept(world)
    world.append_pairs(stream, [("a", bad(1)), *((f"k{number}", good(number)) for number in range(9))])
    world.export_now()
    world.settings = replace(world.settings, registry="http://127.0.0.1:1")
    world.set_table(**{"key": "avro", "key.columns": "id long"})
    unit = replay(world)
    assert unit.outcome is Outcome.FAILED


@pytest.mark.parametrize("seed", range(4))
def test_dl20_drawn_records_replays_and_exports_end_with_the_newest_good_record_of_each_key(
    world: TableWorld, seed: int
) -> None:
    """The plain rule: after a last replay, a key has the row of its newest record, if that is no tombstone."""
    stream, rng = kept(world), Random(seed)
    log: list[tuple[str, str | None]] = []
    for _ in range(5):
        pairs: list[tuple[str, str | None]] = []
        for _ in range(12):
            kind = rng.random()
            text = None if kind < 0.2 else bad(rng.randrange(99)) if kind < 0.4 else good(rng.randrange(99))
            pairs.append((rng.choice("abcdef"), text))
        pairs += [(f"k{number}", good(number)) for number in range(12)]
        world.append_pairs(stream, pairs)
        log += pairs
        if rng.random() < 0.7:
            world.export()
        if rng.random() < 0.5:
            replay(world)
    world.export()
    replay(world)
    newest = dict(log)
    assert rows(world) == {
        key: int(json.loads(text)["n"]) for key, text in newest.items() if text is not None
    }


MEND_EVENT = """
import json
def fixed(letter):
    event = json.loads(letter.value)
    return json.dumps({**event, "after": {"n": 1}})
"""
MISFIT, TRUNCATE = json.dumps({"op": "c", "after": {"n": "x"}, "source": {}}), '{"op": "t", "source": {}}'


@pytest.mark.parametrize("partitions", [1, 2])
def test_ch14_a_dead_letter_from_before_a_truncate_stays(world: TableWorld, partitions: int) -> None:
    """Also if the topic has got a partition since."""
    stream = kept(world, change="debezium")
    world.append_pairs(stream, [("a", MISFIT), (None, TRUNCATE), ("b", MISFIT)])
    world.export_now()
    assert set(letters(world)) == {0, 2}
    if partitions > 1:
        world.metadata.execute(AddPartitions(0, 1, world.topic_named("t").topic_id, partitions))
    report = replay(world, MEND_EVENT)
    assert rows(world) == {"b": 1} and set(letters(world)) == {0}
    assert "a record without a key came later" in str(report.detail)


def test_ch14_a_truncate_with_a_key_is_a_dead_letter(world: TableWorld) -> None:
    """A replay, which looks at keys, would not see that it removed the rows."""
    stream = kept(world, change="debezium")
    world.append_pairs(stream, [("a", MISFIT), ("z", TRUNCATE)])
    world.export_now()
    assert letters(world) == {0: MISFIT, 1: TRUNCATE}
    assert "it truncates the table, and has a key" in world.frame("kafka.t__errors")["reason"].to_list()


def test_ch14_a_dead_letter_from_before_a_key_that_cannot_be_decoded_moves(world: TableWorld) -> None:
    stream = kept(world, change="debezium", key="json", **{"key.columns": "id long"})
    world.append_pairs(stream, [('{"id": 1}', MISFIT), ('{"other": 1}', MISFIT)])
    world.export_now()
    replay(world, MEND_EVENT)
    assert [row["kafka"]["offset"] for row in world.frame().to_dicts()] == [0] and set(letters(world)) == {1}


def test_the_newest_offset_of_each_key_decides_and_records_of_others_are_passed_over() -> None:
    of = LettersOfPartition()
    for offset, key in ((3, b"a"), (5, b"b"), (6, None), (7, b"c")):
        of.add(offset, key)
    for offsets, keys in (([3, 4, 5], [b"a", b"z", b"b"]), ([8, 9], [b"b", None])):
        found = pa.array(keys, pa.binary())
        of.see(pa.array(offsets), found, found.is_null())
    assert of.first_offset == 3 and set(of.stay()) == {5, 6, 7}
    assert "newer" in of.stay()[5] and "no key" in of.stay()[6] and "not in the topic" in of.stay()[7]
