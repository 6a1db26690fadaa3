"""``siltstone maintain run``: carries out all kinds of maintenance, or the chosen ones, once."""

from contextlib import closing

import click

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport
from siltstone.cli.failures import INTERRUPTED, Failure
from siltstone.cli.interruption import cancelled_by_signals
from siltstone.cli.maintain.options import (
    force_option,
    kind_option,
    scope_of,
    seconds_of,
    size_of,
    topic_option,
)
from siltstone.cli.maintain.plan import show_plan
from siltstone.cli.maintain.progress import Progress
from siltstone.cli.maintain.tables import report_lines
from siltstone.cli.output import print_json, remarks, results
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.maintenance.key_compaction.kind import KEY_COMPACTION
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.overview import unusable_words
from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.offline.opening.store import Store
from siltstone.offline.tasks.runner import LateRunner, Runner
from siltstone.scanning.failures import TailNotReadable
from siltstone.scanning.flushing import flush_tails
from siltstone.scanning.planning import wanted_partitions
from siltstone.scanning.request import ScanRequest


class FlushFailed(Unavailable):
    """A node could not be asked to upload the newest records, or has not done it in time."""


class UpToOffsetUnclear(InvalidRequest):
    """--up-to was given without --kind key-compaction and exactly one --topic."""


@click.command()
@kind_option
@topic_option
@click.option("--dry-run", is_flag=True, help="Only show the plan, like siltstone maintain plan.")
@click.option("--max-bytes", metavar="SIZE", help="Read and write at most about this much, e.g. 10GiB.")
@click.option(
    "--max-seconds", metavar="SECONDS", help="Start no further unit after this time, e.g. 600 or 10min."
)
@force_option
@click.option(
    "--flush",
    is_flag=True,
    help="First have the brokers upload their newest records, which are in no object yet.",
)
@click.option(
    "--up-to",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="Compact the keys of one topic up to this offset, whatever its dirty ratio and lag.",
)
@click.option(
    "--trust-clock",
    is_flag=True,
    help="The clock is right, although it is far ahead of the newest time that the store has seen.",
)
@runner_options
@json_option
@store_options
def run(
    choice: StoreChoice,
    kinds: tuple[str, ...],
    topics: tuple[str, ...],
    dry_run: bool,
    max_bytes: str | None,
    max_seconds: str | None,
    force: bool,
    flush: bool,
    up_to: int | None,
    trust_clock: bool,
    runner: RunnerChoice,
    as_json: bool,
) -> None:
    """Carry out maintenance now: all kinds that have work.

    Kinds run one after another; kinds that free space come first. Each unit is committed by itself; a unit that fails
    is set aside with its reason and retried later, and the others continue. Spark is started when the first unit needs
    it. If the workers of Spark cannot run tasks, the run ends with one line that says what to do, and nothing is set
    aside. Ctrl-C ends the run; committed units stay committed, and the report lists them. Exit status 1 if something
    failed or cannot be read, 130 after Ctrl-C."""
    _check_up_to(up_to, kinds, topics)
    if dry_run and flush:
        raise click.UsageError("--dry-run changes nothing, and --flush does: leave one of them out.")
    if dry_run:
        show_plan(choice, kinds, topics, force=force, as_json=as_json, up_to=up_to)
        return
    budget = Budget(
        bytes_max=size_of("--max-bytes", max_bytes), seconds_max=seconds_of("--max-seconds", max_seconds)
    )
    carry_out(
        choice, kinds, topics, runner, budget=budget, force=force, flush=flush, up_to=up_to,
        trust_clock=trust_clock, as_json=as_json,
    )  # fmt: skip


def carry_out(
    choice: StoreChoice,
    kinds: tuple[str, ...],
    topics: tuple[str, ...],
    runner: RunnerChoice,
    *,
    budget: Budget,
    as_json: bool,
    force: bool = False,
    flush: bool = False,
    up_to: int | None = None,
    trust_clock: bool = False,
) -> None:
    """Runs the kinds and prints a report of each. Raises FlushFailed, and Failure if a unit failed or the run was
    interrupted."""
    runner.check()
    with choice.open() as store, Progress(store) as shown:
        if trust_clock:
            store.trust_clock()
        scope = scope_of(store.metadata.image, topics, force=force, up_to=up_to)
        if flush:
            shown.say("the brokers upload their newest records …")
            _flush(store, scope)

        def open_runner() -> Runner:
            if runner.is_spark:
                shown.say(f"starting Spark ({runner.master}) …")
            opened = runner.start()
            install_handlers()  # Spark's driver has replaced our handler of Ctrl-C
            return opened

        with closing(LateRunner(open_runner)) as late:
            driver = Driver(store.context, late.start, scope, budget, on_step_progress=shown.show)
            with cancelled_by_signals(driver.cancel) as install_handlers:
                reports = _reports(driver, store, kinds, shown, as_json=as_json)
    if as_json:
        print_json([_as_document(report) for report in reports])
    elif words := unusable_words(each for report in reports for each in report.unusable):
        remarks().print(words, markup=False, soft_wrap=True)
    elif (kinds or topics) and not any(_has_content(report) for report in reports):
        remarks().print("siltstone maintain explain shows why", style="dim")
    if driver.is_cancelled:
        raise Failure(INTERRUPTED)
    if not all(report.is_well for report in reports):
        raise Failure


def _flush(store: Store, scope: Scope) -> None:
    """Waits until every acknowledged record of the topics in the scope is in an object. Raises FlushFailed."""
    image = store.metadata.image
    topics = tuple(name for name in image.topic_ids if scope.includes(name))
    try:
        flush_tails(store.context, wanted_partitions(image, ScanRequest(topics=topics)))
    except TailNotReadable as trouble:
        raise FlushFailed(
            f"the newest records of node {trouble.node_id} are not in objects: {trouble.reason}; start the node again "
            "if it has died, or leave --flush out"
        ) from trouble


def _check_up_to(up_to: int | None, kinds: tuple[str, ...], topics: tuple[str, ...]) -> None:
    if up_to is not None and (kinds != (KEY_COMPACTION,) or len(topics) != 1):
        raise UpToOffsetUnclear(
            f"--up-to is an offset of one topic: add --kind {KEY_COMPACTION} and one --topic"
        )


def _reports(
    driver: Driver, store: Store, kinds: tuple[str, ...], shown: Progress, *, as_json: bool
) -> list[RunReport]:
    reports = []
    for report in driver.run(chosen_kinds(store.kind_settings, kinds)):
        reports.append(report)
        if not as_json:
            with shown.erased():
                for line in report_lines(report):
                    results().print(line, markup=False, soft_wrap=True)
    return reports


def _has_content(report: RunReport) -> bool:
    return bool(report.units or report.postponed or report.trouble or report.unusable)


def _as_document(report: RunReport) -> dict[str, object]:
    return {
        "kind": report.kind,
        "job_id": report.job_id,
        "is_well": report.is_well,
        "is_cancelled": report.is_cancelled,
        "trouble": report.trouble,
        "seconds": report.seconds,
        "units": report.units,
        "postponed": report.postponed,
        "set_aside": report.set_aside,
        "unusable": report.unusable,
    }
