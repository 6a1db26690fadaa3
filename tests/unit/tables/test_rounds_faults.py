"""Rounds that are killed, overtaken or not answered: no record is lost, and none is in the table twice."""

import os
from typing import Any

import pytest

from siltstone.carrying.pipeline.kind import Budget, Outcome, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.set_aside import set_aside
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.model.limits import HOUR_MS
from siltstone.offline.tasks.runner import InProcessRunner, Runner, RunnerNotStarted
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.tables import rounds
from siltstone.tables.failures import TableCommitUnknown
from siltstone.tables.kind import TableExport
from siltstone.tables.orphans import ORPHAN_AGE_MS, delete_orphans
from siltstone.tables.task import run_export
from support.maintenance.maintained_store import MaintainedStore
from support.maintenance.table_faults import (
    Append,
    another_driver,
    appending,
    commit_and_kill,
    export_is_killed,
    kill,
)
from support.maintenance.table_world import TableWorld


def filled(world: TableWorld, **table: str) -> list[int]:
    streams = world.kept(partitions=2, **table)
    for stream_id in streams:
        world.append_pairs(stream_id, [("a", "1"), ("b", None)], [("c", "3")])
    return streams


@pytest.mark.parametrize("when", ["before the commit", "after the commit", "before the mirror"])
def test_tb2_a_driver_that_is_killed_leaves_every_offset_once(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    streams = filled(world)
    if when == "before the mirror":
        with monkeypatch.context() as patched:
            patched.setattr(rounds.Round, "_note", lambda *_: kill(*[None] * 4))  # type: ignore[arg-type, list-item]
            export_is_killed(world)
    else:
        with appending(world, monkeypatch, kill if when == "before the commit" else commit_and_kill):
            export_is_killed(world)
    world.append_pairs(streams[0], [("d", "4")])
    world.export_now()
    assert world.rows() == world.expected(streams)
    world.append_pairs(streams[1], [("e", "5")])
    world.export_now()
    assert world.rows() == world.expected(streams)


def test_tb2_a_commit_that_the_mirror_never_heard_of_is_found_to_be_done(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = filled(world)
    with appending(world, monkeypatch, commit_and_kill):
        export_is_killed(world)
    (unit,) = world.export().units
    assert (unit.outcome, unit.text) == (Outcome.NOT_NEEDED, "all of it is in table kafka.t")
    assert world.progress().offsets == {0: 3, 1: 3}
    assert world.rows() == world.expected(streams)


def test_tb2_files_of_a_round_that_was_killed_are_deleted_a_day_later(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = filled(world)
    with appending(world, monkeypatch, kill):
        export_is_killed(world)
    world.export_now()
    folder = world.folder / "tables/kafka/t/data"
    assert len(list(folder.iterdir())) == 2
    (folder / "mine.parquet").write_bytes(b"by somebody else")
    with world.table_of() as table:
        store, jobs, created_ms = store_at(world.settings.location), world.image.jobs, table.ledger.created_ms
        listed = {each.path.removeprefix("data/") for each in table.files()}
        written_ms = created_ms // 1_000 * 1_000 + 1_000
        (orphan,) = [path for path in folder.iterdir() if path.name not in {*listed, "mine.parquet"}]
        for path in folder.iterdir():
            os.utime(path, (written_ms // 1_000, written_ms // 1_000))
        assert delete_orphans(store, table, jobs, written_ms + ORPHAN_AGE_MS - 1) == 0, "too young"
        os.utime(orphan, (created_ms // 1_000 - 2, created_ms // 1_000 - 2))
        assert delete_orphans(store, table, jobs, written_ms + ORPHAN_AGE_MS) == 0, (
            "of a table that was there before"
        )
        os.utime(orphan, (written_ms // 1_000, written_ms // 1_000))
        assert delete_orphans(store, table, jobs, written_ms + ORPHAN_AGE_MS) == 1
    assert len(list(folder.iterdir())) == 2
    assert world.rows() == world.expected(streams)


def test_tb2_a_day_after_its_last_look_an_export_looks_for_such_files(
    plain: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = plain.kept()
    looked: list[tuple[str, int]] = []
    monkeypatch.setattr(
        rounds, "delete_orphans", lambda store, table, jobs, now_ms: looked.append((table.name, now_ms))
    )
    began_ms = plain.clock.now_ms()
    for _ in range(4):
        plain.append_pairs(stream, [("a", "1")])
        plain.export_now()
        plain.clock.advance_ms(12 * HOUR_MS)
    assert looked == [("kafka.t", began_ms + 24 * HOUR_MS)]


def test_tb3_of_two_drivers_with_the_same_ledger_one_commits(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = filled(world)
    for _ in range(2):  # the first snapshot of a table, too
        with appending(world, monkeypatch, another_driver(world)):
            (unit,) = world.export().units
        assert unit.outcome is Outcome.NOT_NEEDED
        assert unit.text == "another driver has exported to table kafka.t meanwhile"
        assert world.rows() == world.expected(streams)
        world.append_pairs(streams[0], [("d", "4")])


def test_tb3_a_driver_that_is_overtaken_at_the_dead_letters_leaves_the_table_to_the_other(
    plain: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = plain.kept(value="json")
    plain.append_values(stream, "{}", "garbage")
    with appending(plain, monkeypatch, another_driver(plain)):
        (unit,) = plain.export().units
    assert unit.outcome is Outcome.NOT_NEEDED
    assert (plain.places(), plain.places("kafka.t__errors")) == ([(0, 0)], [(0, 1)])


def test_tb3_with_pyicebergs_own_retries_every_row_would_be_there_twice(
    iceberg: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from siltstone.tables.formats import iceberg as module

    streams = filled(iceberg)
    iceberg.export_now()
    iceberg.append_pairs(streams[0], [("d", "4")])
    monkeypatch.setattr(module, "_ONE_TRY", "4")
    with appending(iceberg, monkeypatch, another_driver(iceberg)):
        iceberg.export()
    assert len(iceberg.rows()) == len(iceberg.expected(streams)) + 1


def test_tb3_the_retries_that_are_stored_with_a_table_stay(iceberg: TableWorld) -> None:
    streams = filled(iceberg)
    iceberg.export_now()
    with iceberg.table_of() as table, table._table.transaction() as transaction:  # type: ignore[attr-defined]
        transaction.set_properties({"commit.retry.num-retries": "7"})
    iceberg.append_pairs(streams[0], [("d", "4")])
    iceberg.export_now()
    with iceberg.table_of() as table:
        assert table._table.properties["commit.retry.num-retries"] == "7"  # type: ignore[attr-defined]


def test_tb3_somebody_elses_commit_meanwhile_only_repeats_ours(
    iceberg: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = filled(iceberg)
    iceberg.export_now()

    def instead(real: Append, table: Any, files: Any, ledger: Any) -> None:
        with iceberg.table_of() as other:
            transaction = other._table.transaction()  # type: ignore[attr-defined]
            with transaction.update_snapshot().fast_append():
                pass
            transaction.commit_transaction()
        real(table, files, ledger)

    iceberg.append_pairs(streams[0], [("d", "4")])
    with appending(iceberg, monkeypatch, instead):
        iceberg.export_now()
    assert iceberg.rows() == iceberg.expected(streams)


@pytest.mark.parametrize("is_done", [True, False])
def test_tb4_a_commit_whose_answer_is_lost_is_looked_up(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    streams = filled(world)

    def instead(real: Append, table: Any, files: Any, ledger: Any) -> None:
        if is_done:
            real(table, files, ledger)
        raise TableCommitUnknown("no answer")

    with appending(world, monkeypatch, instead):
        world.export_now()
    assert world.rows() == world.expected(streams)
    assert world.progress().offsets == {0: 3, 1: 3}


def test_tb4_any_trouble_of_the_catalogs_client_is_an_unknown_outcome(
    iceberg: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    streams = filled(iceberg)
    iceberg.export_now()
    iceberg.append_pairs(streams[0], [("d", "4")])
    real, calls = SqlCatalog.commit_table, [0]

    def commit_table(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        answer = real(*given, **named)
        if calls[0] == 1:
            raise ConnectionResetError("the answer was lost")
        return answer

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    iceberg.export_now()
    assert calls == [1]
    assert iceberg.rows() == iceberg.expected(streams)


def test_tb7_a_task_that_runs_twice_writes_the_same_files(world: TableWorld) -> None:
    streams = filled(world)
    seen: dict[str, bytes] = {}

    def twice(given: bytes) -> bytes:
        first = run_export(given)
        seen.update({str(path): path.read_bytes() for path in world.folder.rglob("data/*.parquet")})
        assert len(seen) == 1
        again = run_export(given)
        assert all(path.read_bytes() == seen[str(path)] for path in world.folder.rglob("data/*.parquet"))
        assert len(list(world.folder.rglob("data/*.parquet"))) == 1
        assert first[:20] == again[:20]
        return again

    world.export_now(task=twice)
    assert world.rows() == world.expected(streams)


def test_tb7_a_task_that_fails_leaves_the_table_as_it_was(world: TableWorld) -> None:
    streams = filled(world)

    def breaking(given: bytes) -> bytes:
        run_export(given)
        raise OSError("the executor is gone")

    assert "RunFailed: OSError: the executor is gone" in world.why_failed(task=breaking)
    assert world.rows() == []
    world.export_now()
    assert world.rows() == world.expected(streams)


@pytest.mark.parametrize("is_committed", [True, False])
def test_tb11_a_kill_between_the_dead_letters_and_the_table_doubles_nothing(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    (stream,) = world.kept(value="json")
    world.append_values(stream, "{}", "garbage", "[]", "more garbage")
    with appending(
        world, monkeypatch, commit_and_kill if is_committed else kill, nth=1 if is_committed else 2
    ):
        export_is_killed(world)
    assert (world.places(), world.places("kafka.t__errors")) == ([], [(0, 1), (0, 3)])
    world.append_values(stream, "garbage", "{}")
    assert "4 records" not in world.export_now().text
    assert (world.places(), world.places("kafka.t__errors")) == ([(0, 0), (0, 2)], [(0, 1), (0, 3)])
    world.export_now()
    assert world.places() == [(0, 0), (0, 2), (0, 5)]
    assert world.places("kafka.t__errors") == [(0, 1), (0, 3), (0, 4)]


def test_tb24_a_record_that_only_the_killed_round_could_decode_is_not_lost_in_silence(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = world.kept(value="json", columns="a string")
    world.append_values(stream, '{"a": "x"}', "garbage")
    with appending(world, monkeypatch, commit_and_kill):
        export_is_killed(world)
    world.set_table(columns="a int")
    if world.table_format == "parquet":
        assert "column a is string, and int32 is wanted" in world.why_failed()
    world.set_table(columns="", value="json", name="kafka.t")
    world.set_table(columns="a string")
    world.export_now()
    assert world.places() == [(0, 0)] and world.places("kafka.t__errors") == [(0, 1)]


def test_tb24_a_verdict_that_does_not_hold_any_more_pauses_the_export(
    plain: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = plain.kept(value="json")
    plain.append_values(stream, '{"a": "x"}', "garbage")
    with appending(plain, monkeypatch, commit_and_kill):
        export_is_killed(plain)

    def stricter(given: bytes) -> bytes:
        from msgspec.structs import replace

        from siltstone.tables.task_input import CODEC

        exported = CODEC.decode_result(run_export(given))
        return CODEC.encode_result(replace(exported, unexpected=(0, 0)))

    assert "VerdictLost: partition 0 offset 0 for table kafka.t cannot be decoded" in plain.why_failed(
        task=stricter
    )
    assert plain.places() == []


def test_tb14_compaction_and_a_sweep_without_grace_leave_the_planned_objects(world: TableWorld) -> None:
    (stream,) = world.kept()
    old = world.append_pairs(stream, [("a", "1")], [("b", "2")], in_set=True)

    def meanwhile(given: bytes) -> bytes:
        MaintainedStore.compact(world, [old], world.batches(stream))
        world.clock.advance_ms(1)
        swept = sweep(world.context, 0)
        assert world.image.objects[old] is not None, swept
        return run_export(given)

    world.export_now(task=meanwhile)
    assert world.rows() == world.expected([stream])


def test_tb21_a_stale_round_without_rows_does_not_set_the_ledger_back(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = world.kept(value="json", errors="drop")
    world.append_values(stream, "{}")
    world.export_now()
    world.append_values(stream, "garbage")

    def instead(real: Append, table: Any, files: Any, ledger: Any) -> None:
        world.clock.advance_ms(HOUR_MS)
        world.append_values(stream, "{}", "{}")
        other = world.another_context()
        world.export(context=other)
        real(table, files, ledger)

    with appending(world, monkeypatch, instead):
        (unit,) = world.export().units
    assert unit.outcome is Outcome.NOT_NEEDED
    assert world.places() == [(0, 0), (0, 2), (0, 3)]
    with world.table_of() as table:
        assert table.ledger.offsets == {0: 4}


def test_a_runner_that_does_not_start_is_no_topics_fault(plain: TableWorld) -> None:
    filled(plain)

    def start() -> Runner:
        raise RunnerNotStarted("there is no Java")

    kind, watch = TableExport(plain.settings), Watch("table-export", plain.clock)
    report = run(plain.context, kind, start, Scope(), Budget(), watch)
    assert (report.trouble, report.units) == ("there is no Java", ())
    assert [key for key in plain.image.keys if key.startswith("set-aside/")] == []


def test_a_run_that_is_cancelled_commits_nothing_further(plain: TableWorld) -> None:
    streams = filled(plain)
    watch = Watch("table-export", plain.clock)

    def cancelling(given: bytes) -> bytes:
        watch.cancel("Ctrl-C")
        return run_export(given)

    kind = TableExport(plain.settings, cancelling)
    report = run(plain.context, kind, InProcessRunner, Scope(), Budget(), watch)
    assert report.is_cancelled and report.units == ()
    assert plain.rows() == []
    plain.export_now()
    assert plain.rows() == plain.expected(streams)


@pytest.mark.parametrize("fault", [OverflowError("date value out of range"), TypeError("no len()")])
def test_rule_14_a_program_error_before_the_commit_is_named_and_set_aside(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    streams = filled(world)

    def instead(real: Append, table: Any, files: Any, ledger: Any) -> None:
        raise fault

    with appending(world, monkeypatch, instead):
        text = world.why_failed()
    assert text.startswith("CommitFailed: nothing was committed to table kafka.t")
    assert "partition 0 offsets 0 to 2, 1 offsets 0 to 2" in text and str(fault) in text
    assert "nothing is lost, the next run continues" not in text
    assert set_aside(world.image, "table-export", "t") is not None
    world.export_now()
    assert world.rows() == world.expected(streams)


def test_rule_14_a_program_error_elsewhere_in_a_round_fails_that_topic_alone(
    plain: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(plain)

    def broken(*_: Any) -> Any:
        raise KeyError("a fault")

    monkeypatch.setattr(rounds.Round, "_replacement", broken)
    assert "ExportBroken: the export of topic t to table kafka.t stopped at a fault" in plain.why_failed()


@pytest.mark.parametrize("place", ["a file's entry", "the catalog's client", "the answer"])
def test_rule_14_a_fault_in_icebergs_path_is_tried_once(
    iceberg: TableWorld, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    from siltstone.tables.formats.iceberg import IcebergTable

    streams, calls = filled(iceberg), [0]
    iceberg.export_now()
    iceberg.append_pairs(streams[0], [("d", "4")])
    real = SqlCatalog.commit_table

    def faulty(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if place == "the answer":
            real(*given, **named)
        raise TypeError("a fault")

    with monkeypatch.context() as patched:
        if place == "a file's entry":
            patched.setattr(IcebergTable, "_registered", faulty)
        else:
            patched.setattr(SqlCatalog, "commit_table", faulty)
        if place == "the answer":
            iceberg.export_now()
        else:
            assert "CommitFailed: nothing was committed to table kafka.t" in iceberg.why_failed()
    assert calls == [1]
    iceberg.export()
    assert iceberg.rows() == iceberg.expected(streams)
