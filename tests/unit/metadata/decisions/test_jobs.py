import pytest

from siltstone.metadata.commands import CancelJob, FinishJob, RenewJob, StartJob
from siltstone.metadata.decisions.jobs import FINISHED_JOBS_MAX
from siltstone.metadata.entities import JobState
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
