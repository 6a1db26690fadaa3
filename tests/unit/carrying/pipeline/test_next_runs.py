"""When a kind runs next: what a service has noted, and what nobody knows."""

import pytest

from siltstone.carrying.pipeline.next_runs import LATE_MS, NextRun, next_runs, next_runs_note
from siltstone.carrying.pipeline.set_aside import note_run
from siltstone.foundation.quantity_words import time_words
from siltstone.metadata.commands import FinishJob, StartJob
from siltstone.model.limits import HOUR_MS, LAST_RUN_NOTED_MS, MINUTE_MS
from support.maintenance.compaction_world import CompactionWorld

MANY_MS = 20 * MINUTE_MS


def row(world: CompactionWorld, kind: str = "tidy") -> NextRun:
    (found,) = next_runs(world.metadata.refresh(), (kind,), world.clock.now_ms())
    return found


def test_nothing_is_known_of_a_kind_that_nothing_has_run(world: CompactionWorld) -> None:
    found = row(world)
    assert found == NextRun("tidy", 0, "", None, "not known")
    said = next_runs_note([found])
    assert (
        said.startswith("The next run of each kind is not known: no service repeats it")
        and "maintain serve" in said
    )


def test_a_command_leaves_no_word_of_when_it_comes_again(world: CompactionWorld) -> None:
    note_run(world.context, "tidy", "1 done", was_idle=False)
    found = row(world)
    assert (found.ended_ms, found.report, found.due_ms) == (world.clock.now_ms(), "1 done", None)
    known = NextRun("mend", 1, "", 7, "about")
    assert "The next run of tidy is not known" in next_runs_note([found, known])
    assert next_runs_note([known]) == ""


def test_a_service_repeats_it_after_its_interval(world: CompactionWorld) -> None:
    note_run(world.context, "tidy", "1 done", was_idle=False, every_ms=MANY_MS)
    due_ms = world.clock.now_ms() + MANY_MS
    assert (row(world).due_ms, row(world).words) == (due_ms, f"about {time_words(due_ms)} UTC")
    world.clock.advance_ms(MANY_MS)
    assert row(world).words == "due now"
    world.clock.advance_ms(MANY_MS // 10 + LATE_MS)
    assert row(world).words == "due now" and not row(world).is_overdue
    world.clock.advance_ms(1)
    found = row(world)
    assert (found.due_ms, found.words) == (
        None,
        f"overdue since {time_words(due_ms)} UTC",
    ) and found.is_overdue
    assert "A service repeated tidy, and has not run what was due since" in next_runs_note([found])


def test_idle_runs_of_a_kind_of_each_minute_are_not_all_noted(world: CompactionWorld) -> None:
    note_run(world.context, "tidy", "nothing to do", was_idle=True, every_ms=MINUTE_MS)
    world.clock.advance_ms(LAST_RUN_NOTED_MS - 1)
    assert row(world).words == "within 1 minute" and row(world).due_ms == world.clock.now_ms() + MINUTE_MS


def test_a_command_between_two_runs_of_a_service_hides_it_not_and_keeps_it_not_alive(
    world: CompactionWorld,
) -> None:
    note_run(world.context, "tidy", "1 done", was_idle=False, every_ms=MANY_MS)
    due_ms = world.clock.now_ms() + MANY_MS
    world.clock.advance_ms(MINUTE_MS)
    note_run(world.context, "tidy", "by hand", was_idle=False)
    assert (row(world).report, row(world).due_ms) == ("by hand", due_ms)
    world.clock.advance_ms(24 * HOUR_MS)
    note_run(world.context, "tidy", "by hand again", was_idle=False)
    assert row(world).is_overdue


def test_a_service_that_begins_is_known_after_its_first_idle_run(world: CompactionWorld) -> None:
    note_run(world.context, "tidy", "nothing to do", was_idle=True)
    world.clock.advance_ms(1)
    note_run(world.context, "tidy", "nothing to do", was_idle=True, every_ms=MANY_MS)
    assert row(world).due_ms == world.clock.now_ms() + MANY_MS


def test_a_major_collection_counts_as_a_minor_one(world: CompactionWorld) -> None:
    note_run(world.context, "minor-gc", "1 done", was_idle=False, every_ms=HOUR_MS)
    world.clock.advance_ms(30 * MINUTE_MS)
    note_run(world.context, "major-gc", "1 done", was_idle=False, every_ms=24 * HOUR_MS)
    assert row(world, "minor-gc").due_ms == world.clock.now_ms() + HOUR_MS


@pytest.mark.parametrize(("lease_ms", "words"), [(60_000, "runs now"), (1, "not known")])
def test_a_job_whose_lease_is_held_runs_now(world: CompactionWorld, lease_ms: int, words: str) -> None:
    job_id = world.metadata.execute(StartJob("tidy", "here", lease_ms))
    world.clock.advance_ms(10)
    assert row(world).words == words
    world.metadata.execute(FinishJob(job_id, True, "3 done"))
    assert (row(world).report, row(world).words) == ("3 done", "not known"), "its driver has noted no run"


def test_the_last_run_is_what_ended_last_a_noted_run_or_a_job(world: CompactionWorld) -> None:
    def job(report: str | None) -> None:
        job_id = world.metadata.execute(StartJob("tidy", "here", 60_000))
        if report is not None:
            world.metadata.execute(FinishJob(job_id, True, report))

    job("a job")
    assert row(world).report == "a job"
    world.clock.advance_ms(1)
    note_run(world.context, "tidy", "noted", was_idle=False)
    assert row(world).report == "noted"
    job("a job that ended as the run was noted")
    assert row(world).report == "noted"
    world.clock.advance_ms(1)
    job("a later job")
    assert row(world).report == "a later job"
    world.clock.advance_ms(1)
    job(None)
    assert row(world).report == "a later job", "what runs has not ended"
