"""Maintenance jobs: a job lets at most one driver work on a kind, under a lease that the driver renews while it works.

The lease only saves drivers from doing the same work twice. Harm is prevented by the commit, which is refused when its
job does not run any more. Between renewals the driver also reads the job's state, so it ends soon after the job was
cancelled or taken over.
"""

import logging
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from siltstone.foundation.credentials import without_credentials
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import FinishJob, RenewJob, ShortenLease, StartJob
from siltstone.metadata.decisions.jobs import latest_lease_end
from siltstone.metadata.entities import JobState
from siltstone.metadata.refusals import Refusal
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import JOB_LOOKED_AT_MS
from siltstone.offline.context import MaintenanceContext

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 3
"""When one renewal fails, the next one still comes in time."""

OnLost = Callable[[str], None]


class RunningJob:
    """``report`` is shown in the list of jobs. ``has_succeeded`` is False when the job ended before its work did,
    though nothing was raised."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        self.report = ""
        self.has_succeeded = True


@contextmanager
def running_job(
    context: MaintenanceContext,
    kind: str,
    lease_ms: int,
    description: str,
    on_lost: OnLost | None = None,
    *,
    looked_at_ms: float = JOB_LOOKED_AT_MS,
) -> Iterator[RunningJob]:
    """Starts the job, renews its lease, and finishes it at the end: as failed when the body raises. ``on_lost`` is
    called from the thread that renews the lease, with the reason, when the job was cancelled or taken over. Raises
    JobRunning."""
    _shorten_lease(context, kind, lease_ms)
    driver = f"{platform.node()} process {os.getpid()}"
    job = RunningJob(context.metadata.execute(StartJob(kind, driver, lease_ms, description)))
    ended = Event()
    keeper = Thread(
        target=_keep,
        args=(context.metadata, job.job_id, lease_ms, ended, on_lost or _ignored, looked_at_ms),
        name=f"lease-{job.job_id}",
        daemon=True,
    )
    keeper.start()
    try:
        yield job
    except BaseException as failure:
        ended.set()
        _finish(
            context.metadata,
            FinishJob(job.job_id, False, without_credentials(f"{type(failure).__name__}: {failure}")),
        )
        raise
    finally:
        ended.set()
        keeper.join()
    _finish(context.metadata, FinishJob(job.job_id, job.has_succeeded, job.report))


def _shorten_lease(context: MaintenanceContext, kind: str, lease_ms: int) -> None:
    """Shortens the lease of another driver's job, because that driver may have died with its clock ahead: then its
    lease is shortened, so that it ends a few leases from now."""
    latest_ms = latest_lease_end(context.now_ms(), lease_ms)
    for job in context.metadata.image.jobs.values():
        if job.kind == kind and job.state is JobState.RUNNING and job.lease_until_ms > latest_ms:
            log.warning("the lease of %s job %d ends too far ahead, it is shortened", kind, job.job_id)
            context.metadata.execute(ShortenLease(job.job_id, lease_ms))


def _ignored(_reason: str) -> None:
    return None


def _keep(
    metadata: MetadataClient,
    job_id: int,
    lease_ms: int,
    ended: Event,
    on_lost: OnLost,
    looked_at_ms: float,
) -> None:
    renewal_ms = lease_ms / RENEWALS_PER_LEASE
    looks = max(1, round(renewal_ms / looked_at_ms))
    while True:
        for _ in range(looks):
            if ended.wait(renewal_ms / looks / 1000):
                return
            if (reason := _why_lost(metadata, job_id)) is not None:
                log.warning("job %d is lost, its run is cancelled: %s", job_id, reason)
                on_lost(reason)
                return
        _renew(metadata, job_id, lease_ms)


def _why_lost(metadata: MetadataClient, job_id: int) -> str | None:
    """Returns the reason why the job does not run any more. None when it runs, and when the metadata cannot be reached:
    the next renewal logs that."""
    with suppress(SiltstoneError):
        job = metadata.refresh().jobs.get(job_id)
        if job is None or job.state is not JobState.RUNNING:
            return f"job {job_id} {job.report if job and job.report else 'was ended by another process'}"
    return None


def _renew(metadata: MetadataClient, job_id: int, lease_ms: int) -> None:
    try:
        metadata.execute(RenewJob(job_id, lease_ms))
    except Refusal as lost:
        log.info("the lease of job %d was not renewed: %s", job_id, lost)
    except SiltstoneError as trouble:
        log.warning("the lease of job %d could not be renewed: %s", job_id, trouble)


def _finish(metadata: MetadataClient, command: FinishJob) -> None:
    """Records the end of the job. When this fails nothing is lost: what the job committed remains, and the job is taken
    over when its lease has passed."""
    with suppress(SiltstoneError):
        metadata.execute(command)
