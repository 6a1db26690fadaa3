"""A driver carries out several kinds one after another, each in as many runs as it has work and the budget allows.

A *run* is one plan of one kind, carried out. A kind is planned only when the kinds before it are done, since they
change what there is to do. A kind that fails says so in its report and does not keep the others from running.
"""

import logging
from collections.abc import Callable, Iterable, Iterator

from siltstone.carrying.pipeline.kind import Budget, Kind, Scope, StartRunner
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.store_time import ClockAheadOfStore
from siltstone.carrying.pipeline.watch import Cancelled, OnStepProgress, RunningWatch, Watch
from siltstone.metadata.client import ClockTooFarOff
from siltstone.metadata.refusals import JobRunning
from siltstone.model.errors import SiltstoneError
from siltstone.object_store.bucket_identity import BucketMissing
from siltstone.object_store.metadata_mark import MetadataOlderThanBucket
from siltstone.offline.context import MaintenanceContext

log = logging.getLogger(__name__)

OnBegun = Callable[[str], None]

_OF_EVERY_KIND = (MetadataOlderThanBucket, BucketMissing, ClockTooFarOff, ClockAheadOfStore)
"""Refusals that the other kinds would meet, too."""


class Driver:
    """Does one run at a time. Any thread may call ``cancel``."""

    def __init__(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        scope: Scope,
        budget: Budget,
        *,
        on_step_progress: OnStepProgress | None = None,
        on_begun: OnBegun | None = None,
    ) -> None:
        self._context = context
        self._start_runner = start_runner
        self._scope = scope
        self._bytes_left = budget.bytes_max
        self._on_step_progress = on_step_progress
        self._on_begun = on_begun
        self._until_ms = (
            None if budget.seconds_max is None else context.clock.monotonic_ms() + budget.seconds_max * 1000
        )
        self._current = RunningWatch()
        self._is_refused = False

    def cancel(self, reason: str) -> None:
        """Cancels the current run, which commits nothing further; no other run is started."""
        self._current.cancel(reason)

    @property
    def is_cancelled(self) -> bool:
        return self._current.is_cancelled

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        is_late = self._until_ms is not None and self._context.clock.monotonic_ms() >= self._until_ms
        return is_late or (self._bytes_left is not None and self._bytes_left <= 0)

    def run(self, kinds: Iterable[Kind]) -> Iterator[RunReport]:
        """Yields a report for each run. A kind that the driver did not come to has no report: when the buckets refuse
        the metadata, the clock may be wrong, or no task can be run, that is so for every kind, and one report says
        it."""
        for kind in kinds:
            while not (self.is_cancelled or self.is_over or self._is_refused):
                report = self._run(kind)
                yield report
                if not (report.has_remaining and report.done) or report.trouble:
                    break

    def _run(self, kind: Kind) -> RunReport:
        started_ms = self._context.clock.monotonic_ms()
        if self._on_begun is not None:
            self._on_begun(kind.name)
        try:
            report = run(
                self._context,
                kind,
                self._start_runner,
                self._scope,
                Budget(bytes_max=self._bytes_left),
                self._watched(kind.name),
            )
        except SiltstoneError as trouble:
            self._is_refused = isinstance(trouble, _OF_EVERY_KIND)
            log.warning("%s: %s", kind.name, trouble)
            seconds = (self._context.clock.monotonic_ms() - started_ms) / 1000
            return nothing_done(kind.name, trouble, seconds)
        self._is_refused = report.has_no_runner
        if self._bytes_left is not None:
            self._bytes_left -= sum(each.bytes_read + each.bytes_written for each in report.units)
        return report

    def _watched(self, kind: str) -> Watch:
        clock = self._context.clock
        left = None if self._until_ms is None else (self._until_ms - clock.monotonic_ms()) / 1000
        return self._current.replace(
            Watch(kind, clock, seconds_max=left, on_step_progress=self._on_step_progress)
        )


def nothing_done(kind: str, trouble: Exception, seconds: float) -> RunReport:
    """Returns the report of a run that ended before its first unit."""
    return RunReport(
        kind=kind,
        job_id=None,
        units=(),
        postponed=(),
        has_remaining=False,
        is_cancelled=isinstance(trouble, Cancelled),
        seconds=seconds,
        trouble=(
            str(trouble)
            if isinstance(trouble, SiltstoneError)
            else f"this is a bug, {type(trouble).__name__}: {trouble}"
        ),
        is_busy=isinstance(trouble, JobRunning),
    )
