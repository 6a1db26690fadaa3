"""Maintenance jobs: at most one job of a kind runs, under a lease; a driver that takes over fences the one before."""

from siltstone.foundation.quantity_words import seconds_words
from siltstone.metadata.commands import CancelJob, FinishJob, RenewJob, StartJob
from siltstone.metadata.decisions.fences import Decision, running_job
from siltstone.metadata.entities import JobMetadata, JobState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import JobFinished, JobForgotten, JobRenewed, JobStarted, Record
from siltstone.metadata.refusals import CommandMalformed, JobNotRunning, JobRunning

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
    """What the job has committed stays committed. A job that has finished keeps its outcome."""
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
