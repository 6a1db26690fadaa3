"""Carries an erasure out from the command line, with progress, until it is verified; or until nothing is left in a
bucket."""

from contextlib import closing

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Kind, Scope, StartRunner
from siltstone.carrying.pipeline.running import RunReport
from siltstone.cli.erase.showing import state_words, table_words
from siltstone.cli.failures import INTERRUPTED, Failure
from siltstone.cli.interruption import cancelled_by_signals
from siltstone.cli.maintain.progress import Progress
from siltstone.cli.maintain.tables import report_lines
from siltstone.cli.output import remarks, results
from siltstone.cli.runner_options import RunnerChoice
from siltstone.maintenance.erasing import erase_rows, erasure_named, follow
from siltstone.maintenance.erasure.noting import observe
from siltstone.maintenance.erasure.report import COMPLETE, ErasureReport, report_of
from siltstone.maintenance.sweep.kind import Sweep
from siltstone.model.limits import SECOND_MS
from siltstone.offline.erasures import is_open
from siltstone.offline.opening.store import Store
from siltstone.offline.tasks.runner import LateRunner

WAIT_LOOK_MS = 2 * SECOND_MS
WAITS_FOR = "siltstone maintain explain --kind sweep says what they wait for, such as open scans"


def carried_out(
    store: Store, erasure_id: str, runner: RunnerChoice, *, wait: bool, as_json: bool
) -> ErasureReport:
    """Returns the report. Raises Failure when the erasure could not be verified, or after Ctrl-C; what was done until
    then is kept."""
    with Progress(store) as shown, closing(LateRunner(runner.start)) as late:
        drivers = _Drivers(store, late.start, shown)
        with cancelled_by_signals(drivers.cancel):
            for report in follow(store.context, store.kind_settings, erasure_id, drivers.make):
                _print(report, shown, as_json=as_json)
            drivers.end_if_cancelled(erasure_id)
            erasure = erasure_named(store.context, erasure_id)
            if is_open(store.context.metadata.image, erasure):
                is_there = erasure.topic_id in store.context.metadata.image.topics
                remarks().print(
                    f"records of the keys may be left: siltstone erasures resume {erasure_id} tries again"
                    if is_there
                    else f"topic {erasure.topic} was deleted: its records leave the buckets with its objects, and"
                    f" nothing verifies it; siltstone erasures forget {erasure_id} removes the request",
                    markup=False, soft_wrap=True,
                )  # fmt: skip
                raise Failure
            if wait:
                _wait(store, erasure_id, drivers)
    return newest_report(store, erasure_id)


def newest_report(store: Store, erasure_id: str) -> ErasureReport:
    """Returns the report as the metadata and the buckets are now."""
    context = store.context
    if not context.metadata.read_only_note:
        observe(context, [erasure_id])
    return report_of(context.metadata.refresh(), erasure_named(context, erasure_id), context.now_ms())


class _Drivers:
    """Makes the drivers of one command, and cancels the one that runs."""

    def __init__(self, store: Store, start_runner: StartRunner, shown: Progress) -> None:
        self._store = store
        self._start_runner = start_runner
        self.shown = shown
        self._current: Driver | None = None
        self._reason = ""

    def make(self, scope: Scope) -> Driver:
        self._current = Driver(
            self._store.context, self._start_runner, scope, Budget(), on_step_progress=self.shown.show
        )
        if self._reason:
            self._current.cancel(self._reason)
        return self._current

    def cancel(self, reason: str) -> None:
        self._reason = reason
        if self._current is not None:
            self._current.cancel(reason)

    def end_if_cancelled(self, erasure_id: str) -> None:
        if self._reason:
            remarks().print(f"siltstone erasures resume {erasure_id} continues", style="dim")
            raise Failure(INTERRUPTED)


def _wait(store: Store, erasure_id: str, drivers: _Drivers) -> None:
    """Waits until the buckets lack the replaced objects. Sweeps meanwhile, in case nobody else does."""
    sweep: Kind = Sweep(store.kind_settings.grace_period_ms)
    is_said = False
    while newest_report(store, erasure_id).state != COMPLETE:
        for _ in drivers.make(Scope()).run([sweep]):
            pass
        erasure = erasure_named(store.context, erasure_id)
        for done in erase_rows(store.context, store.kind_settings, erasure, drivers.make):
            if not done.is_well:
                _print(done, drivers.shown, as_json=True)
                raise Failure
        drivers.end_if_cancelled(erasure_id)
        report = newest_report(store, erasure_id)
        if report.table is not None and report.table.held_by:
            remarks().print(f"table {table_words(report)}", markup=False, soft_wrap=True)
            raise Failure
        if report.state != COMPLETE:
            if not is_said:
                remarks().print(f"{state_words(report)}: {WAITS_FOR}", markup=False, soft_wrap=True)
                is_said = True
            store.context.clock.block_ms(WAIT_LOOK_MS)


def _print(report: RunReport, shown: Progress, *, as_json: bool) -> None:
    """With ``as_json`` stdout is left to the report of the erasure, and only what went wrong is said."""
    with shown.erased():
        for line in () if as_json and report.is_well else report_lines(report):
            (remarks() if as_json else results()).print(line, markup=False, soft_wrap=True)
