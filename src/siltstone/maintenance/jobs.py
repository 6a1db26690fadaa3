"""A maintenance job: at most one driver of a kind at work, under a lease that is renewed while it is.

The lease only keeps drivers from working for nothing. What keeps two of them from doing harm is the commit, which is
refused when its job does not run any more.
"""

import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from siltstone.maintenance.context import MaintenanceContext
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import FinishJob, RenewJob, StartJob
from siltstone.metadata.refusals import Refusal
from siltstone.model.errors import SiltstoneError

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 3
"""So that one renewal may fail and the next still comes in time."""


class RunningJob:
    """``report`` is what people will find in the list of jobs."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        self.report = ""


@contextmanager
def running_job(
    context: MaintenanceContext, kind: str, lease_ms: int, description: str
) -> Iterator[RunningJob]:
    """Starts the job, renews its lease, finishes it: failed when the body raises. Raises JobRunning."""
    driver = f"{platform.node()} process {os.getpid()}"
    job = RunningJob(context.metadata.execute(StartJob(kind, driver, lease_ms, description)))
    ended = Event()
    renewal = Thread(
        target=_renew,
        args=(context.metadata, job.job_id, lease_ms, ended),
        name=f"lease-{job.job_id}",
        daemon=True,
    )
    renewal.start()
    try:
        yield job
    except BaseException as failure:
        ended.set()
        _finish(context.metadata, FinishJob(job.job_id, False, f"{type(failure).__name__}: {failure}"))
        raise
    finally:
        ended.set()
        renewal.join()
    _finish(context.metadata, FinishJob(job.job_id, True, job.report))


def _renew(metadata: MetadataClient, job_id: int, lease_ms: int, ended: Event) -> None:
    while not ended.wait(lease_ms / RENEWALS_PER_LEASE / 1000):
        try:
            metadata.execute(RenewJob(job_id, lease_ms))
        except Refusal as taken_over:
            log.warning("job %d is not ours any more: %s", job_id, taken_over)
            return
        except SiltstoneError as trouble:
            log.warning("the lease of job %d could not be renewed: %s", job_id, trouble)


def _finish(metadata: MetadataClient, command: FinishJob) -> None:
    """What the job did stands without it; unfinished, it is taken over when its lease has passed."""
    with suppress(SiltstoneError):
        metadata.execute(command)
