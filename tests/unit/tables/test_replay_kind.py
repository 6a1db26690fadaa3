"""Dead letters that are tried again: each record is in exactly one of the two tables, whatever is killed."""

from typing import Any

import pytest

from siltstone.carrying.pipeline.kind import Budget, Outcome, Scope, UnitReport
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.tables import rounds
from siltstone.tables.progress import replay_of
from siltstone.tables.replay_kind import TableReplay
from siltstone.tables.task_input import Mending
from support.maintenance.table_faults import Killed, commit_and_kill, export_is_killed, kill
from support.maintenance.table_world import TableWorld

GOOD = '{"id": 1}'
TEXT = '{"id": "2"}'
BROKEN = '{"id": 3'
LATE = '{"id": 4.5}'


def replay(world: TableWorld, mend: str = "", **given: Any) -> UnitReport:
    mending = Mending(mend, "mend", "fixed") if mend else None
    kind = TableReplay(world.settings, "t", mending, **given)
    watch = Watch(kind.name, world.clock)
    scope = Scope(topics=frozenset(["t"]), is_forced=True)
    (unit,) = run(world.context, kind, InProcessRunner, scope, Budget(), watch).units
    return unit


def ids(world: TableWorld) -> dict[int, Any]:
    return {row["kafka"]["offset"]: row["id"] for row in world.frame().to_dicts()}


def dead(world: TableWorld) -> dict[int, Any]:
    return {row["offset"]: row["value"].decode() for row in world.frame("kafka.t__errors").to_dicts()}


def with_dead_letters(world: TableWorld, columns: str = "id long") -> int:
    (stream,) = world.kept(value="json", columns=columns)
    world.append_values(stream, *[GOOD] * 12, TEXT, BROKEN, LATE)
    world.export_now()
    assert dead(world) == {12: TEXT, 13: BROKEN, 14: LATE}
    return stream


MEND = """
import json
def fixed(letter):
    assert letter.topic == "t" and letter.reason
    if letter.offset == 12:
        return json.dumps({"id": int(json.loads(letter.value)["id"])})
    if letter.offset == 13:
        raise ValueError("beyond repair")
    return None
"""


def test_dl1_what_can_be_decoded_now_moves_and_the_rest_stays_with_a_new_reason(world: TableWorld) -> None:
    with_dead_letters(world)
    unit = replay(world, MEND)
    assert unit.outcome is Outcome.DONE and unit.text.startswith(
        "1 dead letter moved to table kafka.t, 2 dead"
    ), unit
    assert ids(world) == {**dict.fromkeys(range(12), 1), 12: 2}
    assert dead(world) == {13: BROKEN, 14: LATE}, "with their own values"
    reasons = {row["offset"]: row["reason"] for row in world.frame("kafka.t__errors").to_dicts()}
    assert "beyond repair" in reasons[13] and "returned NoneType" in reasons[14]
    assert (world.progress().rows, world.progress().dead_letters) == (13, 2)


def test_dl2_a_dry_run_shows_what_would_move_and_changes_nothing(world: TableWorld) -> None:
    with_dead_letters(world)
    unit = replay(world, MEND, is_dry=True)
    assert unit.text == "1 dead letter fit table kafka.t, 2 dead letters stay"
    assert sorted(each.split(":")[0] for each in unit.detail.values()) == [
        "0 dead letters can be decoded now, 1 dead letter not",
        "0 dead letters can be decoded now, 1 dead letter not",
        "1 dead letter can be decoded now",
    ]
    assert len(ids(world)) == 12 and len(dead(world)) == 3


def test_dl3_a_column_that_was_mended_lets_its_dead_letters_in(world: TableWorld) -> None:
    with_dead_letters(world)
    world.set_table(columns="infer, id long")
    assert replay(world).text.startswith("2 dead letters moved")
    rows = {row["kafka"]["offset"]: row for row in world.frame().to_dicts()}
    assert rows[12]["_rescued_data"] == '{"id":"2"}' and rows[14]["_rescued_data"] == '{"id":4.5}'
    assert dead(world) == {13: BROKEN}
    assert replay(world).text.startswith("0 dead letters moved")


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("instead", [kill, commit_and_kill])
def test_dl4_a_replay_that_is_killed_at_any_step_is_ended_by_the_next_export(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, at: int, instead: Any
) -> None:
    stream = with_dead_letters(world)
    real, calls = rounds.commit_round, []

    def commit(*given: Any) -> Any:
        calls.append(given[2].name)
        if len(calls) < at:
            return real(*given)
        if instead is commit_and_kill:
            real(*given)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("siltstone.tables.rounds.commit_round", commit)
        patched.setattr("siltstone.tables.replay_files.commit_round", commit)
        with pytest.raises(Killed):
            replay(world, MEND)
    world.finish_jobs()
    world.append_values(stream, GOOD)
    world.export()
    topic_id = world.topic_named("t").topic_id
    assert replay_of(world.metadata.refresh(), topic_id) is None
    has_moved = at == 2 or instead is commit_and_kill
    assert ids(world) == {**dict.fromkeys((*range(12), 15), 1), **({12: 2} if has_moved else {})}
    assert dead(world) == {**({} if has_moved else {12: TEXT}), 13: BROKEN, 14: LATE}
    replay(world, MEND)
    assert ids(world) == {**dict.fromkeys((*range(12), 15), 1), 12: 2}
    assert dead(world) == {13: BROKEN, 14: LATE}


def test_dl5_a_commit_that_is_still_under_way_is_refused_once_its_replay_was_given_up(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = with_dead_letters(world)
    real = rounds.commit_round

    def late(context: Any, tables: Any, table: Any, *given: Any) -> Any:
        world.finish_jobs()
        world.append_values(stream, GOOD)
        world.export(context=world.another_context())
        return real(context, tables, table, *given)

    with monkeypatch.context() as patched:
        patched.setattr("siltstone.tables.rounds.commit_round", _once(late, real))
        unit = replay(world, MEND)
    assert unit.outcome is Outcome.NOT_NEEDED, unit
    assert 12 not in ids(world) and dead(world) == {12: TEXT, 13: BROKEN, 14: LATE}


def _once(first: Any, then: Any) -> Any:
    calls: list[int] = []

    def either(*given: Any) -> Any:
        calls.append(1)
        return (first if len(calls) == 1 else then)(*given)

    return either


def test_dl6_an_interrupted_export_is_completed_first(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = with_dead_letters(world)
    world.append_values(stream, GOOD, TEXT)
    with monkeypatch.context() as patched:
        patched.setattr(rounds.Round, "_replacement", lambda *_: kill(*[None] * 4))  # type: ignore[arg-type]
        export_is_killed(world)
    unit = replay(world, MEND)
    assert unit.outcome is Outcome.FAILED and "siltstone maintain run first" in unit.text
    world.export()
    assert len(ids(world)) == 13 and len(dead(world)) == 4
    assert replay(world, MEND.replace("== 12", "in (12, 16)")).text.startswith("2 dead letters moved")


def test_dl7_a_topic_without_dead_letters_and_an_upsert_table(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="id long")
    world.append_values(stream, GOOD)
    world.export_now()
    unit = replay(world)
    assert unit.outcome is Outcome.NOT_NEEDED and unit.text == "table kafka.t has no dead letters"


def test_dl8_a_replay_takes_the_oldest_files_and_says_that_there_are_more(world: TableWorld) -> None:
    stream = with_dead_letters(world)
    world.append_values(stream, *[GOOD] * 12, TEXT)
    world.export_now()
    world.set_table(columns="infer, id long")
    unit = replay(world, bytes_max=1)
    assert (
        unit.text == "2 dead letters moved to table kafka.t, 1 dead letter stay; there are more: run it again"
    )
    assert dead(world) == {13: BROKEN, 27: TEXT}


def test_dl8_dead_letters_that_cannot_be_mended_do_not_hide_the_ones_behind_them(world: TableWorld) -> None:
    (stream,) = world.kept(value="json", columns="id long")
    for value in (BROKEN, TEXT, LATE):
        world.append_values(stream, *[GOOD] * 12, value)
        world.export_now()
    assert replay(world, MEND.replace("== 12", "== 25"), bytes_max=1).text == (
        "1 dead letter moved to table kafka.t, 1 dead letter stay; there are more: run it again"
    )
    assert dead(world) == {12: BROKEN, 38: LATE}
    assert replay(world, bytes_max=1).text == "0 dead letters moved to table kafka.t, 2 dead letters stay"


@pytest.mark.parametrize("errors", ["pause", "drop"])
def test_dl10_what_cannot_be_decoded_stays_whatever_exports_do_with_bad_records(
    world: TableWorld, errors: str
) -> None:
    with_dead_letters(world)
    world.set_table(errors=errors)
    replay(world, MEND)
    assert ids(world)[12] == 2 and dead(world) == {13: BROKEN, 14: LATE}


def test_dl11_a_function_that_ends_its_process_leaves_the_dead_letter(world: TableWorld) -> None:
    with_dead_letters(world)
    unit = replay(world, "import sys\ndef fixed(letter):\n    sys.exit(3)")
    assert unit.text.startswith("0 dead letters moved"), unit
    assert dead(world) == {12: TEXT, 13: BROKEN, 14: LATE}


def test_dl12_a_module_that_was_never_imported_where_the_task_runs_may_have_dataclasses(
    world: TableWorld,
) -> None:
    with_dead_letters(world)
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    assert replay(world, head + "@dataclass\nclass Fixed:\n    id: int\n" + MEND).text.startswith(
        "1 dead letter moved"
    )


def test_dl13_a_dry_run_adds_no_columns(world: TableWorld) -> None:
    with_dead_letters(world)
    world.set_table(columns="infer, id long")
    mend = 'def fixed(letter):\n    return \'{"id": 5, "late": 1}\''
    assert replay(world, mend, is_dry=True).text.startswith("3 dead letters fit")
    with world.table_of() as table:
        assert "late" not in table.schema.names
    assert replay(world, mend).text.startswith("3 dead letters moved")
    assert world.frame()["late"].to_list().count(1) == 3
