"""Runs maintenance as a service, in lanes. A lane is a thread with a metadata client of its own, in which some kinds
take turns. The kinds that only free space have a lane of their own, so that no long copy delays them (GC14). Kinds that
spread their copies over their interval have another lane, together with kinds that rewrite the same objects.

No failure of a kind ends a lane: it is logged and counted, and the kind is tried again.
"""

import logging
from collections.abc import Mapping, Sequence
from threading import Event, Thread

from siltstone.carrying.pipeline.driver import nothing_done
from siltstone.carrying.pipeline.kind import Budget, Kind, Scope, StartRunner
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.schedule import Schedule
from siltstone.carrying.pipeline.set_aside import all_set_aside, last_runs
from siltstone.carrying.pipeline.watch import RunningWatch, Watch
from siltstone.foundation.quantity_words import seconds_words
from siltstone.maintenance.service.statistics import Counters, MaintenanceStatistics
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import METADATA_BACKOFF_MS_MAX, SECOND_MS
from siltstone.offline.context import MaintenanceContext

log = logging.getLogger(__name__)

TROUBLE_MS = 60 * SECOND_MS
"""If the run of a kind ended early because of a failure, or another driver has its job, the kind is tried again after
this time, or after its interval if that is shorter."""


class Lane:
    """Kinds that take turns in one thread. After ``seconds_max`` a run begins no further unit, and the other kinds have
    their turn first."""

    def __init__(
        self,
        name: str,
        context: MaintenanceContext,
        kinds: Sequence[Kind],
        intervals_ms: Mapping[str, int],
        start_runner: StartRunner,
        counters: Counters,
        *,
        seconds_max: float,
        spread_ms: Mapping[str, int] | None = None,
    ) -> None:
        """``spread_ms``: kind → the time over which a scheduled run spreads the bytes that it copies."""
        self.name = name
        self._spread_ms = dict(spread_ms or {})
        self._context = context
        self._kinds = {kind.name: kind for kind in kinds}
        self._start_runner = start_runner
        self._counters = counters
        self._seconds_max = seconds_max
        self._schedule = Schedule({kind.name: intervals_ms[kind.name] for kind in kinds})
        self._metadata_failures = 0
        self._current = RunningWatch()

    def cancel(self, reason: str) -> None:
        """Cancels the current run, and ends the turn. Any thread may call it."""
        self._current.cancel(reason)

    def turn(self, *, is_everything_due: bool = False) -> float:
        """Runs the kinds that are due, each at most once. With ``is_everything_due`` the caller waits for the end, so
        no kind is spread. → Milliseconds until a kind is due again."""
        if (wait_ms := self._find_metadata()) is not None:
            return wait_ms
        done: list[str] = []
        while not self._current.is_cancelled and (kind := self._next(done, is_everything_due)) is not None:
            done.append(kind)
            budget = Budget()
            if not is_everything_due:
                every_ms = self._schedule.intervals_ms[kind]
                budget = Budget(spread_ms=self._spread_ms.get(kind), every_ms=every_ms)
            if self._run(self._kinds[kind], budget).has_no_runner:
                break
        now_ms = self._context.clock.now_ms()
        return max(0, self._schedule.next_due_ms(now_ms) - now_ms)

    def _next(self, done: Sequence[str], is_everything_due: bool) -> str | None:
        if is_everything_due:
            return next((kind for kind in self._kinds if kind not in done), None)
        return self._schedule.due(self._context.clock.now_ms(), done)

    def _find_metadata(self) -> float | None:
        """Reads the newest image, and notes in the schedule which kinds other processes have run. → None; or, when the
        metadata cannot be reached, the milliseconds after which to try again."""
        try:
            image = self._context.metadata.refresh()
        except SiltstoneError as trouble:
            self._counters.metadata_lost(self.name)
            wait_ms: int = min(METADATA_BACKOFF_MS_MAX, SECOND_MS << min(self._metadata_failures, 20))
            self._metadata_failures += 1
            log.warning(
                "the metadata cannot be reached, maintenance waits (%s) and tries again in %s: %s",
                self.name,
                seconds_words(wait_ms / 1000),
                trouble,
            )
            return wait_ms
        if self._metadata_failures:
            log.warning("the metadata can be reached again (%s)", self.name)
        self._metadata_failures = 0
        self._counters.metadata_found(self.name)
        ended_ms = {kind: ran.ended_ms for kind, ran in last_runs(image).items() if kind in self._kinds}
        self._schedule = self._schedule.seen(ended_ms, self._context.clock.now_ms())
        return None

    def _run(self, kind: Kind, budget: Budget) -> RunReport:
        watch = self._current.replace(Watch(kind.name, self._context.clock, seconds_max=self._seconds_max))
        self._counters.began(kind.name, watch)
        report = self._reported(kind, watch, budget)
        is_cut_short = watch.is_over and bool(report.postponed)
        self._say(report)
        self._counters.ended(report, self._count_set_aside(kind))
        now_ms, chance = self._context.clock.now_ms(), self._context.rng.random()
        if (
            report.has_no_runner
        ):  # the other kinds have no runner, either: one line says so, not one for each kind
            for name in self._kinds:
                self._schedule = self._schedule.postponed(name, now_ms, TROUBLE_MS)
        elif report.trouble:
            self._schedule = self._schedule.postponed(kind.name, now_ms, TROUBLE_MS)
        else:
            has_remaining = bool(report.done) and (report.has_remaining or is_cut_short)
            self._schedule = self._schedule.ended(kind.name, now_ms, chance, has_remaining=has_remaining)
        return report

    def _reported(self, kind: Kind, watch: Watch, budget: Budget) -> RunReport:
        clock = self._context.clock
        started_ms = clock.monotonic_ms()
        try:
            return run(self._context, kind, self._start_runner, Scope(), budget, watch)
        except SiltstoneError as failure:
            trouble: Exception = failure
        except Exception as failure:  # a bug in one kind must not stop the others
            log.exception("%s failed", kind.name)
            trouble = failure
        return nothing_done(kind.name, trouble, (clock.monotonic_ms() - started_ms) / 1000)

    def _say(self, report: RunReport) -> None:
        is_bad = not (report.is_well or report.is_busy)
        level = logging.WARNING if is_bad else logging.INFO if report.units else logging.DEBUG
        log.log(level, "%s: %s", report.kind, report.in_one_line)

    def _count_set_aside(self, kind: Kind) -> int:
        return sum(aside.kind == kind.name for aside in all_set_aside(self._context.metadata.image))


STATISTICS_LOGGED_SECONDS = 600.0
BROKEN_MS = 60_000
STOP_SECONDS_MAX = 20.0
"""A healthy Spark ends its jobs within a second after they were cancelled; a Spark that died never does."""


class MaintenanceService:
    """Runs lanes side by side. ``lanes`` are in the order that frees space first."""

    def __init__(self, lanes: Sequence[Lane], counters: Counters) -> None:
        self._lanes = lanes
        self._counters = counters
        self._stopping = Event()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def statistics(self) -> MaintenanceStatistics:
        return self._counters.statistics()

    def run_once(self) -> None:
        """Runs every kind once, due or not, one lane after another."""
        for lane in self._lanes:
            if not self._stopping.is_set():
                lane.turn(is_everything_due=True)

    def run(self) -> None:
        """Runs kinds as they become due. Returns when ``stop`` was called and the current runs have ended, or after
        STOP_SECONDS_MAX for each lane."""
        threads = [
            Thread(target=self._take_turns, args=(lane,), name=lane.name, daemon=True) for lane in self._lanes
        ]
        for thread in threads:
            thread.start()
        while not self._stopping.wait(STATISTICS_LOGGED_SECONDS):
            self.log_statistics()
        for thread in threads:
            thread.join(STOP_SECONDS_MAX)
            if thread.is_alive():
                log.warning(
                    "%s did not stop in time; objects that it has not committed are deleted by a later sweep",
                    thread.name,
                )

    def stop(self, reason: str) -> None:
        """Stops the service. Any thread may call it, also a signal handler."""
        self._stopping.set()
        for lane in self._lanes:
            lane.cancel(reason)

    def log_statistics(self) -> None:
        for line in self.statistics().lines:
            log.info("%s", line)

    def _take_turns(self, lane: Lane) -> None:
        wait_ms = 0.0
        while not self._stopping.wait(wait_ms / 1000):
            try:
                wait_ms = lane.turn()
            except Exception:
                wait_ms = BROKEN_MS
                log.exception("this is a bug; %s continues in a minute", lane.name)
