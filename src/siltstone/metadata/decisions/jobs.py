"""Maintenance jobs: at most one job of a kind runs, under a lease; a driver that takes over fences the one before.

The end of a lease is written by the clock of the job's driver and judged by the clocks of the drivers that wait for it.
So clocks that differ may do two kinds of harm:

* The driver dies with its clock ahead. Its lease would end when the other clocks come there, perhaps days later. So a
  driver that waits shortens it (``ShortenLease``) to ``LEASES_AHEAD_MAX`` leases from now, by its own clock. No other
  state is needed, and the wait continues across restarts and in other processes.
* A living driver loses its job. It renews its lease every third of its length, and a renewal is never shorter than the
  end that it finds, so a lease that was shortened is whole again after a third of it. In between it ends
  ``LEASES_AHEAD_MAX`` leases after the clock that shortened it: a third driver takes the job over only if its clock is
  ahead of that one by more than ``LEASES_AHEAD_MAX`` - 1/3 leases (9 minutes by default). A lease that was not
  shortened is lost when the driver's clock is behind another one by more than two thirds of it (80 seconds).

Beyond these differences work is done twice and one of its commits is refused: the lease protects no data.
"""

from siltstone.foundation.quantity_words import seconds_words
from siltstone.metadata.commands import CancelJob, FinishJob, RenewJob, ShortenLease, StartJob
from siltstone.metadata.decisions.fences import Decision, running_job
from siltstone.metadata.entities import JobMetadata, JobState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import JobFinished, JobForgotten, JobRenewed, JobStarted, Record
from siltstone.metadata.refusals import CommandMalformed, JobNotRunning, JobRunning

LEASES_AHEAD_MAX = 5
"""A lease that ends later than this many leases from now was written by a clock that is ahead, or is much longer than
that of the driver that waits. Of a living driver with a lease up to 15 times as long it is renewed in time."""

FINISHED_JOBS_MAX = 100
"""Finished jobs kept for operators to look at: a day and a half of compactions every 20 minutes."""


def decide_start_job(view: ImageView, command: StartJob, now_ms: int) -> Decision[int]:
    _check_lease(command.lease_ms)
    records: list[Record] = []
    for job in view.jobs.values():
        if job.kind == command.kind and job.state is JobState.RUNNING:
            _check_lease_passed(job, now_ms)
            report = f"taken over by {command.driver}"
            records += _finish(view, job, JobState.FAILED, now_ms, report)
    job_id = view.next_job_id
    started = JobStarted(
        job_id=job_id,
        kind=command.kind,
        driver=command.driver,
        description=command.description,
        started_ms=now_ms,
        lease_until_ms=now_ms + command.lease_ms,
    )
    return Decision((*records, started), job_id)


def decide_renew_job(view: ImageView, command: RenewJob, now_ms: int) -> Decision[None]:
    _check_lease(command.lease_ms)
    job = running_job(view, command.job_id)
    lease_until_ms = max(job.lease_until_ms, now_ms + command.lease_ms)
    if lease_until_ms == job.lease_until_ms:
        return Decision((), None)
    return Decision((JobRenewed(command.job_id, lease_until_ms),), None)


def decide_shorten_lease(view: ImageView, command: ShortenLease, now_ms: int) -> Decision[None]:
    """Decides to shorten a lease. A job that has finished is left as it is."""
    _check_lease(command.lease_ms)
    job = view.jobs.get(command.job_id)
    latest_ms = latest_lease_end(now_ms, command.lease_ms)
    if job is None or job.state is not JobState.RUNNING or job.lease_until_ms <= latest_ms:
        return Decision((), None)
    return Decision((JobRenewed(command.job_id, latest_ms),), None)


def latest_lease_end(now_ms: int, lease_ms: int) -> int:
    return now_ms + LEASES_AHEAD_MAX * lease_ms


def decide_finish_job(view: ImageView, command: FinishJob, now_ms: int) -> Decision[None]:
    """Repeating the command succeeds; a job that ended with the other outcome, because another driver took it over, is
    refused with JobNotRunning."""
    outcome = JobState.SUCCEEDED if command.succeeded else JobState.FAILED
    standing = view.jobs.get(command.job_id)
    if standing is not None and standing.state is outcome:
        return Decision((), None)
    job = running_job(view, command.job_id)
    return Decision(_finish(view, job, outcome, now_ms, command.report), None)


def decide_cancel_job(view: ImageView, command: CancelJob, now_ms: int) -> Decision[None]:
    """Decides to cancel a job. Units that the job has committed stay committed. A job that has finished keeps its
    outcome."""
    job = view.jobs.get(command.job_id)
    if job is None:
        raise JobNotRunning(f"there is no job {command.job_id}; see siltstone maintain status")
    if job.state is not JobState.RUNNING:
        return Decision((), None)
    return Decision(_finish(view, job, JobState.FAILED, now_ms, command.report), None)


def _check_lease(lease_ms: int) -> None:
    if lease_ms < 1:
        raise CommandMalformed(f"a job's lease cannot be {lease_ms} ms; give at least one millisecond")


def _check_lease_passed(job: JobMetadata, now_ms: int) -> None:
    if job.lease_until_ms > now_ms:
        raise JobRunning(
            f"{job.kind} job {job.job_id} is run by {job.driver}; "
            f"wait for it, at most {seconds_words((job.lease_until_ms - now_ms) / 1000)} if it died, "
            f"or end it with siltstone maintain cancel {job.job_id}"
        )


def _finish(
    view: ImageView, job: JobMetadata, outcome: JobState, now_ms: int, report: str
) -> tuple[Record, ...]:
    finished = sorted(other.job_id for other in view.jobs.values() if other.state is not JobState.RUNNING)
    surplus = finished[: max(0, len(finished) + 1 - FINISHED_JOBS_MAX)]
    return (
        JobFinished(job.job_id, outcome, now_ms, report),
        *(JobForgotten(job_id) for job_id in surplus),
    )
