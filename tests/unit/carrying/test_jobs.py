from threading import Event
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from siltstone.carrying import jobs
from siltstone.carrying.jobs import _keep, running_job
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import CancelJob, FinishJob, RenewJob, StartJob
from siltstone.metadata.entities import JobState
from siltstone.metadata.refusals import JobRunning
from siltstone.model.limits import DAY_MS
from support.maintenance.compaction_world import CompactionWorld


def test_a_job_runs_and_succeeds_with_its_report(world: CompactionWorld) -> None:
    with running_job(world.context, "tidy", 60_000, "by hand") as job:
        running = world.metadata.image.jobs[job.job_id]
        assert (running.state, running.kind, running.description) == (JobState.RUNNING, "tidy", "by hand")
        job.report = "all well"
    finished = world.metadata.image.jobs[job.job_id]
    assert (finished.state, finished.report) == (JobState.SUCCEEDED, "all well")


def test_only_one_at_a_time(world: CompactionWorld) -> None:
    first = running_job(world.context, "tidy", 60_000, "")
    second = running_job(world.another_context(), "tidy", 60_000, "")
    with first, pytest.raises(JobRunning), second:
        pytest.fail("two drivers")


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_what_the_body_raises_fails_the_job(world: CompactionWorld, failure: type[BaseException]) -> None:
    with pytest.raises(failure, match="why"), running_job(world.context, "tidy", 60_000, "") as job:
        raise failure("why")
    failed = world.metadata.image.jobs[job.job_id]
    assert (failed.state, failed.report) == (JobState.FAILED, f"{failure.__name__}: why")


def test_the_lease_is_renewed_while_the_body_runs(world: CompactionWorld) -> None:
    """The renewal's waits are real; the clock it writes down is the test's."""
    with running_job(world.context, "tidy", 30, "") as job:
        first = world.metadata.image.jobs[job.job_id].lease_until_ms
        world.clock.advance_ms(20)
        assert _becomes(lambda: world.metadata.image.jobs[job.job_id].lease_until_ms == first + 20)


def test_a_failed_renewal_is_tried_again(world: CompactionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = world.metadata.execute
    renewals: list[RenewJob] = []
    enough = Event()

    def failing_once(command: Any) -> Any:
        if isinstance(command, RenewJob):
            renewals.append(command)
            if len(renewals) == 1:
                raise CommitUnknown("connection lost")
            enough.set()
        return execute(command)

    monkeypatch.setattr(world.metadata, "execute", failing_once)
    with running_job(world.context, "tidy", 30, ""):
        assert enough.wait(60)


def test_a_job_that_was_taken_over_is_renewed_no_more(world: CompactionWorld) -> None:
    """The keeper returns by itself; were it to continue, this test would never end."""
    mine = world.metadata.execute(StartJob("tidy", "me", 1))
    world.clock.advance_ms(2)
    world.metadata.execute(StartJob("tidy", "somebody else", 60_000))
    lost: list[str] = []
    _keep(world.metadata, mine, 1, Event(), lost.append, 2_000)
    assert lost == [f"job {mine} taken over by somebody else"]
    assert world.metadata.image.jobs[mine].state is JobState.FAILED


def test_a_cancelled_job_is_told_to_its_driver_before_the_lease_ends(world: CompactionWorld) -> None:
    lost: list[str] = []
    told = Event()

    def hear(reason: str) -> None:
        lost.append(reason)
        told.set()

    with running_job(world.context, "tidy", 120_000, "", hear, looked_at_ms=5) as job:
        world.another_context().metadata.execute(CancelJob(job.job_id, "cancelled by somebody"))
        assert told.wait(60)
    assert lost == [f"job {job.job_id} cancelled by somebody"]
    cancelled = world.metadata.refresh().jobs[job.job_id]
    assert (cancelled.state, cancelled.report) == (JobState.FAILED, "cancelled by somebody")


def test_a_job_that_ended_before_its_work_is_no_success(world: CompactionWorld) -> None:
    with running_job(world.context, "tidy", 60_000, "") as job:
        job.has_succeeded, job.report = False, "1 of 2 done; cancelled"
    ended = world.metadata.image.jobs[job.job_id]
    assert (ended.state, ended.report) == (JobState.FAILED, "1 of 2 done; cancelled")


def test_a_job_that_cannot_be_finished_has_still_done_its_work(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = world.metadata.execute

    def lossy(command: Any) -> Any:
        if isinstance(command, FinishJob):
            raise CommitUnknown("connection lost")
        return execute(command)

    monkeypatch.setattr(world.metadata, "execute", lossy)
    with running_job(world.context, "tidy", 60_000, "") as job:
        pass
    assert world.metadata.image.jobs[job.job_id].state is JobState.RUNNING


def _becomes(condition: Any) -> bool:
    never = Event()
    return any(condition() or never.wait(0.01) for _ in range(6_000))


def test_the_job_of_a_driver_that_died_with_its_clock_ahead_is_taken_over_after_a_few_leases(
    world: CompactionWorld,
) -> None:
    world.clock.advance_ms(30 * DAY_MS)
    dead = world.metadata.execute(StartJob("tidy", "a clock ahead", 60_000))
    world.clock.advance_ms(-30 * DAY_MS)
    with (
        pytest.raises(JobRunning, match="at most 5 min 00 s if it died"),
        running_job(world.context, "tidy", 60_000, ""),
    ):
        pytest.fail("the other driver may live")
    world.clock.advance_ms(5 * 60_000)
    with running_job(world.context, "tidy", 60_000, "") as job:
        assert job.job_id == dead + 1
    assert world.metadata.image.jobs[dead].state is JobState.FAILED


def test_the_lease_is_kept_by_a_thread_that_holds_no_process_open(world: CompactionWorld) -> None:
    with running_job(world.context, "tidy", 60_000, "") as job:
        (keeper,) = [each for each in enumerate_threads() if each.name == f"lease-{job.job_id}"]
        assert keeper.daemon
    assert not keeper.is_alive()


@pytest.mark.parametrize("failure", [None, ValueError])
def test_when_a_job_is_finished_its_lease_is_renewed_no_more(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch, failure: type[Exception] | None
) -> None:
    """A renewal of a finished job would be refused, and logged as if something were wrong."""
    ended: list[Event] = []
    real_keep, real_finish = jobs._keep, jobs._finish
    finished: list[bool] = []

    def keep(metadata: Any, job_id: int, lease_ms: int, event: Event, *others: Any) -> None:
        ended.append(event)
        real_keep(metadata, job_id, lease_ms, event, *others)

    def finish(metadata: Any, command: FinishJob) -> None:
        finished.append(ended[0].is_set())
        real_finish(metadata, command)

    monkeypatch.setattr(jobs, "_keep", keep)
    monkeypatch.setattr(jobs, "_finish", finish)
    try:
        with running_job(world.context, "tidy", 60_000, ""):
            assert _becomes(lambda: ended)
            if failure is not None:
                raise failure
    except ValueError:
        pass
    assert finished == [True]


@pytest.mark.parametrize(
    ("report", "reason"), [("cancelled by me", "cancelled by me"), ("", "was ended by another process")]
)
def test_why_a_job_does_not_run_any_more(world: CompactionWorld, report: str, reason: str) -> None:
    mine = world.metadata.execute(StartJob("tidy", "me", 60_000))
    assert jobs._why_lost(world.metadata, mine) is None
    world.another_context().metadata.execute(FinishJob(mine, False, report))
    assert jobs._why_lost(world.metadata, mine) == f"job {mine} {reason}"
    assert jobs._why_lost(world.metadata, 99) == "job 99 was ended by another process"
