"""``siltstone maintain cancel JOB``."""

import platform

import click

from siltstone.cli.output import results
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.metadata.commands import CancelJob
from siltstone.metadata.entities import JobState
from siltstone.model.errors import InvalidRequest


class JobNotThere(InvalidRequest):
    """No job has that number, or it is so old that it was forgotten."""


@click.command()
@click.argument("job", type=int, metavar="JOB")
@store_options
def cancel(choice: StoreChoice, job: int) -> None:
    """End a running job, whoever drives it.

    JOB is a number that siltstone maintain status shows. What it has committed stays, what it would commit from now
    on is refused. Its driver notices within seconds and stops. When the driver has died, the kind is free again at
    once, without waiting for the end of the lease.
    """
    with choice.open() as store:
        standing = store.metadata.image.jobs.get(job)
        if standing is None:
            raise JobNotThere(f"there is no job {job}; siltstone maintain status shows those there are")
        if standing.state is JobState.RUNNING:
            store.metadata.execute(CancelJob(job, f"cancelled by hand from {platform.node()}"))
        ended = store.metadata.refresh().jobs[job]
    if standing.state is not JobState.RUNNING:
        text = f"Job {job}, {standing.kind}, had ended already: {ended.report}"
    else:
        text = f"Job {job}, {ended.kind}, was cancelled; its driver, {ended.driver}, stops within seconds."
    results().print(text, markup=False, soft_wrap=True)
