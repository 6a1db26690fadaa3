"""``siltstone maintain sweep``: deletes objects whose grace period is over."""

import click

from siltstone.cli.failures import Failure
from siltstone.cli.output import facts, print_json, remarks, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import counted, size_words
from siltstone.maintenance.sweep.sweeping import SweepReport
from siltstone.maintenance.sweep.sweeping import sweep as sweep_store


@click.command()
@click.option(
    "--grace-period",
    metavar="DURATION",
    help="Only delete objects that were replaced at least this long ago, e.g. 10min.",
)
@json_option
@store_options
def sweep(choice: StoreChoice, grace_period: str | None, as_json: bool) -> None:
    """Delete objects that are not needed any more.

    Objects that compaction has replaced are deleted from their bucket after a grace period, unless a scan pin holds
    them (siltstone maintain explain shows pins). The grace period is longer than any fetch that may still use them.
    Objects that were prepared for an upload and never committed are removed after their time limit.
    """
    settings = choice.settings(sweep__grace_period_ms=grace_period)
    with choice.open() as store:
        report = sweep_store(store.context, settings.sweep.grace_period_ms)
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    if report.passed_over:
        for reason in report.passed_over:
            remarks().print(f"skipped: {reason}", markup=False, soft_wrap=True)
        raise Failure


def _print_report(report: SweepReport) -> None:
    results().print(
        facts(
            deleted=f"{counted(report.objects_deleted, 'object')}, {size_words(report.bytes_deleted)}",
            delete_requests=report.delete_requests,
            given_up=f"{counted(report.objects_expired, 'prepared object')} past the time limit",
            uploads_aborted=report.uploads_aborted,
            waiting=f"{counted(report.objects_waiting, 'destroyed object')} in the grace period",
            held=f"{counted(report.objects_pinned, 'object')}, {size_words(report.bytes_pinned)}, by scans",
        )
    )
