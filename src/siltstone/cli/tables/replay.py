"""``siltstone tables replay TOPIC``: tries dead letters again, and moves into the table what can be decoded now."""

import sys
from contextlib import closing
from pathlib import Path

import click

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Outcome, Scope, UnitReport
from siltstone.carrying.pipeline.running import RunReport
from siltstone.cli.failures import INTERRUPTED, Failure
from siltstone.cli.interruption import cancelled_by_signals
from siltstone.cli.maintain.progress import Progress
from siltstone.cli.output import print_json, remarks, results, table
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell
from siltstone.offline.tasks.runner import LateRunner
from siltstone.tables.inspecting import export_of
from siltstone.tables.kind import TABLE_EXPORT


@click.command()
@click.argument("topic", metavar="TOPIC")
@click.option(
    "--dead-letters", is_flag=True, help="Try the dead letters again; there is nothing else to replay."
)
@click.option("--dry-run", is_flag=True, help="Only show which dead letters can be decoded now.")
@click.option(
    "--with",
    "function",
    metavar="MODULE:FUNCTION",
    help="Let this Python function mend each value first; it gets a DeadLetter and returns bytes or text.",
)
@runner_options
@json_option
@store_options
def replay(
    choice: StoreChoice,
    topic: str,
    dead_letters: bool,
    dry_run: bool,
    function: str | None,
    runner: RunnerChoice,
    as_json: bool,
) -> None:
    """Move dead letters into the table that can be decoded now.

    Use it after a schema, a list of columns or a registry was mended. Each record ends in exactly one of the two
    tables, also if the command is killed; what still cannot be decoded stays, with its new reason. Rows keep the
    partition, the offset and the time of their record."""
    if not dead_letters:
        raise click.UsageError("Say what to replay: --dead-letters.")
    from siltstone.tables.replay_kind import TableReplay  # noqa: PLC0415  loads pyarrow
    from siltstone.tables.replaying import mending_of  # noqa: PLC0415

    here = str(Path.cwd())
    if here not in sys.path:  # as with python -m: the module may be a file of this folder
        sys.path.insert(0, here)
    mending = None if function is None else mending_of(function)
    runner.check()
    with choice.open() as store, Progress(store) as shown:
        export_of(store.metadata.refresh(), topic)
        kind = TableReplay(store.kind_settings.tables, topic, mending, is_dry=dry_run)
        scope = Scope(topics=frozenset([topic]), is_forced=True)
        with closing(LateRunner(runner.start)) as late:
            driver = Driver(store.context, late.start, scope, Budget(), on_step_progress=shown.show)
            with cancelled_by_signals(driver.cancel):
                reports = list(driver.run([kind]))
    units = [unit for report in reports for unit in report.units]
    if as_json:
        print_json({"topic": topic, "dry_run": dry_run, "units": units})
    else:
        _print(reports, units)
    if driver.is_cancelled:
        raise Failure(INTERRUPTED)
    if any(report.trouble or report.is_busy for report in reports) or any(
        unit.outcome is Outcome.FAILED for unit in units
    ):
        raise Failure


def _print(reports: list[RunReport], units: list[UnitReport]) -> None:
    for report in reports:
        if report.trouble or report.is_busy:
            trouble = report.trouble or f"another {TABLE_EXPORT} is running: try again when it has ended"
            remarks().print(trouble, markup=False, soft_wrap=True)
    for unit in units:
        results().print(f"{unit.text}", markup=False, soft_wrap=True)
        reasons = table("reason", "now")
        for reason, now in unit.detail.items():
            reasons.add_row(cell(reason), cell(now))
        if unit.detail:
            results().print(reasons)
