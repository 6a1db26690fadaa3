"""``siltstone maintain cancel JOB``: ends a running job."""

import platform

import click

from siltstone.cli.output import results
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.metadata.commands import CancelJob
from siltstone.metadata.entities import JobState
from siltstone.model.errors import InvalidRequest
from siltstone.offline.context import check_metadata_is_newest


class JobNotThere(InvalidRequest):
    """The metadata holds no job of that number: it never existed, or is old enough to have been removed."""


@click.command()
@click.argument("job", type=int, metavar="JOB")
@store_options
def cancel(choice: StoreChoice, job: int) -> None:
    """Cancel a running job, also one of another process or machine.

    JOB is a number that siltstone maintain status shows. Units that the job has committed stay committed; all later
    commits of it are refused, and its driver stops within seconds. If the driver has died, another job of the kind can
    start at once, without waiting for the lease to expire.
    """
    with choice.open() as store:
        found = store.metadata.image.jobs.get(job)
        if found is None:
            raise JobNotThere(f"there is no job {job}; siltstone maintain status lists all jobs")
        if found.state is JobState.RUNNING:
            check_metadata_is_newest(store.context)
            store.metadata.execute(CancelJob(job, f"cancelled by hand from {platform.node()}"))
        ended = store.metadata.refresh().jobs[job]
    if found.state is not JobState.RUNNING:
        text = f"Job {job}, {found.kind}, had already ended: {ended.report}"
    else:
        text = f"Job {job}, {ended.kind}, was cancelled; its driver, {ended.driver}, stops within seconds."
    results().print(text, markup=False, soft_wrap=True)
