from typing import Any

import pytest

from siltstone.metadata.commands import CancelJob, FinishJob, RenewJob, ShortenLease, StartJob
from siltstone.metadata.decisions.jobs import FINISHED_JOBS_MAX, LEASES_AHEAD_MAX
from siltstone.metadata.entities import JobState
from siltstone.model.limits import DAY_MS, HOUR_MS
from support.metadata.metadata_world import MetadataWorld


@pytest.fixture
def world() -> MetadataWorld:
    return MetadataWorld()


def test_one_job_of_a_kind_runs(world) -> None:
    assert world.do(StartJob("compaction", "a", 1_000, "round 1")) == 0
    assert world.outcome(StartJob("compaction", "b", 1_000)) == ("JOB_RUNNING", 0)
    assert world.do(StartJob("retention", "b", 1_000)) == 1
    job = world.image.jobs[0]
    assert (job.driver, job.description, job.lease_until_ms) == ("a", "round 1", world.now_ms + 1_000)


def test_takeover_after_the_lease(world) -> None:
    world.do(StartJob("compaction", "a", 1_000))
    world.now_ms += 1_000
    assert world.do(StartJob("compaction", "b", 1_000)) == 1
    assert world.image.jobs[0].state is JobState.FAILED
    assert world.image.jobs[0].report == "taken over by b"
    assert world.outcome(RenewJob(0, 1_000)) == ("JOB_NOT_RUNNING", 0)
    assert world.outcome(FinishJob(0, True)) == ("JOB_NOT_RUNNING", 0)
    assert world.outcome(FinishJob(0, False)) == ("OK", 0)


def test_renewing_moves_the_lease_forward_only(world) -> None:
    world.do(StartJob("compaction", "a", 1_000))
    world.now_ms += 500
    assert world.outcome(RenewJob(0, 1_000)) == ("OK", 1)
    assert world.image.jobs[0].lease_until_ms == world.now_ms + 1_000
    assert world.outcome(RenewJob(0, 10)) == ("OK", 0)
    world.now_ms += 1_500
    assert world.outcome(RenewJob(0, 1_000)) == ("OK", 1), "late, but nobody took over"
    assert world.outcome(RenewJob(7, 1_000)) == ("JOB_NOT_RUNNING", 0)


def test_finishing(world) -> None:
    world.do(StartJob("compaction", "a", 1_000))
    assert world.outcome(FinishJob(0, True, "3 objects")) == ("OK", 1)
    assert world.outcome(FinishJob(0, True, "3 objects")) == ("OK", 0)
    job = world.image.jobs[0]
    assert (job.state, job.report, job.finished_ms) == (JobState.SUCCEEDED, "3 objects", world.now_ms)
    assert world.do(StartJob("compaction", "b", 1_000)) == 1


def test_only_the_last_finished_jobs_are_kept(world) -> None:
    for _ in range(FINISHED_JOBS_MAX + 5):
        world.do(FinishJob(world.do(StartJob("compaction", "a", 1_000)), True))
    assert sorted(world.image.jobs) == list(range(5, FINISHED_JOBS_MAX + 5))


@pytest.mark.parametrize("asked", [StartJob("compaction", "a", 0), RenewJob(0, -1)])
def test_a_lease_takes_time(world, asked) -> None:
    assert world.outcome(asked) == ("INVALID_REQUEST", 0)


def test_a_cancelled_job_has_failed_and_one_that_has_ended_keeps_its_outcome(world) -> None:
    cancelled, finished = (world.do(StartJob(kind, "a", 1_000)) for kind in ("compaction", "retention"))
    world.do(FinishJob(finished, True, "well"))
    assert world.outcome(CancelJob(cancelled, "enough")) == ("OK", 1)
    assert world.outcome(CancelJob(cancelled, "again")) == ("OK", 0)
    assert world.outcome(CancelJob(finished, "enough")) == ("OK", 0)
    assert world.outcome(CancelJob(7, "enough")) == ("JOB_NOT_RUNNING", 0)
    rows = [(job.state, job.report) for job in (world.image.jobs[cancelled], world.image.jobs[finished])]
    assert rows == [(JobState.FAILED, "enough"), (JobState.SUCCEEDED, "well")]


# -- clocks that differ ------------------------------------------------------------------------------------------

LEASE_MS = 120_000
WAITED_MS = LEASES_AHEAD_MAX * LEASE_MS


def at(world: MetadataWorld, now_ms: int, command: Any) -> tuple[str, int]:
    """The outcome of a command that a process whose clock shows ``now_ms`` decides."""
    before, world.now_ms = world.now_ms, now_ms
    try:
        return world.outcome(command)
    finally:
        world.now_ms = before


def waits(world: MetadataWorld, now_ms: int, driver: str = "b") -> tuple[str, int]:
    """A driver that would like to have the job, as ``maintenance.jobs`` does it."""
    at(world, now_ms, ShortenLease(0, LEASE_MS))
    return at(world, now_ms, StartJob("compaction", driver, LEASE_MS))


@pytest.mark.parametrize("ahead_ms", [WAITED_MS, HOUR_MS, 30 * DAY_MS])
def test_a_driver_that_died_with_its_clock_ahead_blocks_its_kind_for_a_few_leases(
    world, ahead_ms: int
) -> None:
    at(world, world.now_ms + ahead_ms, StartJob("compaction", "a", LEASE_MS))
    assert waits(world, world.now_ms) == ("JOB_RUNNING", 0)
    assert waits(world, world.now_ms + WAITED_MS - 1) == ("JOB_RUNNING", 0)
    assert waits(world, world.now_ms + WAITED_MS)[0] == "OK"


def test_waiting_again_and_again_does_not_make_it_longer(world) -> None:
    at(world, world.now_ms + 30 * DAY_MS, StartJob("compaction", "a", LEASE_MS))
    ends = []
    for passed_ms in range(0, WAITED_MS, LEASE_MS // 2):
        waits(world, world.now_ms + passed_ms)
        ends.append(world.image.jobs[0].lease_until_ms)
    assert set(ends) == {world.now_ms + WAITED_MS}


@pytest.mark.parametrize("ahead_ms", [0, LEASE_MS, HOUR_MS, 30 * DAY_MS])
@pytest.mark.parametrize("apart_ms", [0, LEASE_MS, WAITED_MS - LEASE_MS // 3])
def test_a_living_driver_whose_clock_is_ahead_keeps_its_job(world, ahead_ms: int, apart_ms: int) -> None:
    """Two drivers wait whose clocks are ``apart_ms`` apart, at the worst moment: just before each renewal."""
    start_ms = world.now_ms
    at(world, start_ms + apart_ms + ahead_ms, StartJob("compaction", "a", LEASE_MS))
    for passed_ms in range(0, 4 * WAITED_MS, LEASE_MS // 3):
        now_ms = start_ms + passed_ms
        at(world, now_ms + apart_ms + ahead_ms, RenewJob(0, LEASE_MS))
        assert waits(world, now_ms)[0] == "JOB_RUNNING"
        assert waits(world, now_ms + LEASE_MS // 3 - 1 + apart_ms, "c")[0] == "JOB_RUNNING"
    assert world.image.jobs[0].state is JobState.RUNNING


@pytest.mark.parametrize("behind_ms", [0, LEASE_MS * 2 // 3])
def test_a_living_driver_whose_clock_is_behind_keeps_its_job(world, behind_ms: int) -> None:
    start_ms = world.now_ms
    at(world, start_ms - behind_ms, StartJob("compaction", "a", LEASE_MS))
    for passed_ms in range(0, 4 * WAITED_MS, LEASE_MS // 3):
        at(world, start_ms + passed_ms - behind_ms, RenewJob(0, LEASE_MS))
        assert waits(world, start_ms + passed_ms + LEASE_MS // 3 - 1)[0] == "JOB_RUNNING"


def test_only_a_running_job_has_a_lease_to_shorten(world) -> None:
    at(world, world.now_ms + DAY_MS, StartJob("compaction", "a", LEASE_MS))
    assert world.outcome(ShortenLease(7, LEASE_MS)) == ("OK", 0)
    assert world.outcome(ShortenLease(0, 0)) == ("INVALID_REQUEST", 0)
    world.do(CancelJob(0, "enough"))
    assert world.outcome(ShortenLease(0, LEASE_MS)) == ("OK", 0)
