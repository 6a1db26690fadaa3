"""One run: the plan of one kind is made, its units are carried out in order under one job, units that fail are set
aside, and one report is returned.

``rate_of`` decides the rate and the grade of the run. A kind that copies keeps to the lowest of three rates: its own,
that of all kinds, and the one that spreads its bytes over the time of a scheduled run, if the run is to be spread. A
run that is *urgent* is not spread, and has priority over other maintenance.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from siltstone.carrying.jobs import RunningJob, running_job
from siltstone.carrying.pipeline.kind import (
    NO_JOB,
    WHOLE,
    Attempt,
    Budget,
    Kind,
    Outcome,
    Plan,
    PlannedUnit,
    Scope,
    StartRunner,
    UnitReport,
    Unplanned,
)
from siltstone.carrying.pipeline.set_aside import (
    SetAside,
    forget_gone,
    note_run,
    put_aside,
    set_aside,
    take_back,
)
from siltstone.carrying.pipeline.store_time import check_clock
from siltstone.carrying.pipeline.watch import Cancelled, Watch
from siltstone.foundation.quantity_words import seconds_words, size_words
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.refusals import JobNotRunning
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.limits import MINUTE_MS, SPREAD_BYTES_PER_SECOND_MIN
from siltstone.object_store.port import StoreDenied
from siltstone.offline.context import (
    MaintenanceContext,
    check_metadata_is_newest,
    refuse_bucket_of_another_store,
)
from siltstone.offline.kind_rows import COPYING
from siltstone.offline.pressure import Measured, Pressure
from siltstone.offline.settings import CopyRates, lowest_rate
from siltstone.offline.tasks.pacing import PacedRunner, RunRate
from siltstone.offline.tasks.runner import RunnerUnusable


def spread_ms(interval_ms: int) -> int:
    """Returns the time over which a kind that runs at this interval spreads its bytes: all but the last minute of the
    interval, so that one run has ended when the next is due [AutoMQ]."""
    return max(interval_ms - MINUTE_MS, MINUTE_MS)


def rate_of(plan: Plan, size_bytes: int, rates: CopyRates, spread_over_ms: int, space: Measured) -> RunRate:
    """Decides the rate of a run of the plan, which reads so many bytes. ``spread_over_ms`` 0: the run is not spread.

    A spread run has at least SPREAD_BYTES_PER_SECOND_MIN, so that a small run ends soon."""
    urgency = _urgency(plan, space)
    set_rate = lowest_rate(rates.of(plan.kind), plan.bytes_per_second)
    if urgency or not spread_over_ms:
        return RunRate(bytes_per_second=set_rate, urgency=urgency)
    spread = max(SPREAD_BYTES_PER_SECOND_MIN, -(-size_bytes * 1000 // spread_over_ms))
    lowest = lowest_rate(set_rate, spread)
    is_spread = lowest == spread and spread > SPREAD_BYTES_PER_SECOND_MIN
    return RunRate(bytes_per_second=lowest, spread_ms=spread_over_ms if is_spread else 0)


def _urgency(plan: Plan, space: Measured) -> str:
    """Says why the run must not wait; empty when it may."""
    fullest = space.fullest
    if fullest is not None and space.pressure is not Pressure.NONE:
        return f"{fullest.name} is {fullest.use:.0%} full"
    return plan.urgency


log = logging.getLogger(__name__)


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one run. ``job_id`` is None when there was nothing to do, or when the kind takes no job.
    ``postponed`` names units that were left for a later run: because of the budget, because they are set aside, or
    because the run ended before them.

    The run ended early when ``is_cancelled``, or when it has a ``trouble``, a failure that no unit has caused; the
    units that ``units`` reports as done are committed all the same. ``is_busy`` says that another driver has the job.
    """

    kind: str
    job_id: int | None
    units: tuple[UnitReport, ...]
    postponed: tuple[str, ...]
    has_remaining: bool
    is_cancelled: bool
    seconds: float
    trouble: str = ""
    is_busy: bool = False
    has_no_runner: bool = False
    """No task of any kind can be run: the workers cannot run tasks, or no runner could be started."""
    set_aside: tuple[str, ...] = ()
    """Those of ``postponed`` that failed before and wait for a retry."""
    unusable: tuple[Unplanned, ...] = ()
    """The objects that the plan had to leave out because they are lost, damaged or out of reach."""
    bytes_left: int | None = None
    """The bytes that units of the plan would have read which were not done; None if no plan could be made."""
    held_seconds: float = 0.0
    """How long the tasks waited for the rate of the run, all together."""

    @property
    def done(self) -> tuple[UnitReport, ...]:
        return tuple(each for each in self.units if each.outcome is Outcome.DONE)

    @property
    def failed(self) -> tuple[UnitReport, ...]:
        return tuple(each for each in self.units if each.outcome is Outcome.FAILED)

    @property
    def is_well(self) -> bool:
        return not (self.failed or self.trouble or self.is_cancelled or self.unusable)

    @property
    def in_one_line(self) -> str:
        held_up = [
            f"{len(self.postponed)} postponed" if self.postponed else "",
            f"{len(self.set_aside)} of them set aside after failures" if self.set_aside else "",
            f"{len(self.unusable)} cannot be read" if self.unusable else "",
        ]
        if not self.units and not self.trouble and not self.is_cancelled:
            return (
                "; ".join(filter(None, ("nothing was done", *held_up))) if any(held_up) else "nothing to do"
            )
        read, written, freed = (
            sum(getattr(each, name) for each in self.done)
            for name in ("bytes_read", "bytes_written", "bytes_freed")
        )
        facts = [
            f"{len(self.done)} of {len(self.units)} done",
            f"{len(self.failed)} failed" if self.failed else "",
            *held_up,
            f"{size_words(read)} read, {size_words(written)} written" if read or written else "",
            f"{size_words(freed)} freed" if freed else "",
            f"{seconds_words(self.held_seconds)} held by its rate" if self.held_seconds >= 1 else "",
            "cancelled" if self.is_cancelled else "",
            self.trouble,
            seconds_words(self.seconds),
        ]
        return "; ".join(filter(None, facts))


def run(
    context: MaintenanceContext,
    kind: Kind,
    start_runner: StartRunner,
    scope: Scope,
    budget: Budget,
    watch: Watch,
) -> RunReport:
    """Plans a kind and carries the plan out. Raises JobRunning, and Unavailable when the metadata cannot be reached."""
    return carry_out(context, kind, plan_of(context, kind, scope, watch), start_runner, budget, watch, scope)


def plan_of(context: MaintenanceContext, kind: Kind, scope: Scope, watch: Watch) -> Plan:
    """Makes the plan of a kind. A kind that copies plans nothing while there is no room for copies (GC17). For other
    kinds the disks are not measured, because a disk that hangs would keep them from freeing space. Raises as
    ``Kind.plan``."""
    if kind.name in COPYING:
        context.metadata.refresh()
        if reason := context.space().why_waits(kind.name, is_forced=scope.is_forced):
            return Plan(kind=kind.name, unplanned=(Unplanned(WHOLE, reason),))
    return kind.plan(context, scope, watch)


def carry_out(
    context: MaintenanceContext,
    kind: Kind,
    plan: Plan,
    start_runner: StartRunner,
    budget: Budget,
    watch: Watch,
    scope: Scope,
) -> RunReport:
    """Carries out a plan, which may have been made earlier. Raises JobRunning, what StartJob raises, and what
    ``check_metadata_is_newest`` and ``check_clock`` raise; a failure after the job was started is in the report."""
    carrying = _CarryingOut(context, kind, plan, watch)
    names, postponed, aside = _chosen(context, plan, budget, scope)
    carrying.set_rate(names, budget)
    if names or not context.is_admitted:
        check_metadata_is_newest(context)  # before the run's first entry in the metadata, too
    check_clock(context)
    if names:
        carrying.carry_out(names, start_runner)
    report = carrying.report(names, postponed, aside)
    is_whole = scope.topics is None and budget.bytes_max is None and len(report.units) == len(names)
    if is_whole and not report.trouble:
        with suppress(SiltstoneError):  # without this note the kind would only run again too early
            forget_gone(context, kind.name, _names(plan))
            note_run(
                context,
                kind.name,
                report.in_one_line,
                was_idle=not report.units,
                every_ms=budget.every_ms or 0,
            )
    return report


def waiting(context: MaintenanceContext, kind: str, unit: PlannedUnit) -> SetAside | None:
    """Says why and until when the unit is set aside; None when it may be tried now."""
    aside = set_aside(context.metadata.image, kind, unit.name)
    is_waiting = aside is not None and aside.waits(context.metadata.image, context.now_ms())
    return aside if is_waiting else None


class _CarryingOut:
    def __init__(self, context: MaintenanceContext, kind: Kind, plan: Plan, watch: Watch) -> None:
        self._context = context
        self._kind = kind
        self._plan = plan
        self._watch = watch
        self._units = {unit.name: unit for unit in plan.units}
        self._started_ms = context.clock.monotonic_ms()
        self._job_id: int | None = None
        self._reports: list[UnitReport] = []
        self._is_cancelled = False
        self._has_no_runner = False
        self._trouble = ""

    def set_rate(self, names: Sequence[str], budget: Budget) -> None:
        if self._kind.name in COPYING and names:
            size_bytes = sum(self._units[name].bytes_read for name in names)
            rates, space = self._context.rates, self._context.space()
            is_draining = bool(bucket_list_of(self._context.metadata.image).draining)
            # While a bucket is drained its objects are replaced soon, and a long compaction of them would be refused.
            spread_ms = 0 if is_draining else budget.spread_ms or 0
            self._watch.rate = rate_of(self._plan, size_bytes, rates, spread_ms, space)

    def _paced(self, start_runner: StartRunner, units: int) -> StartRunner:
        """Returns the runner at the rate of this run."""
        pace = self._watch.rate.pace(self._kind.name, self._context.bandwidth)
        if self._kind.name not in COPYING or not pace.is_limited:
            return start_runner
        clock, watch = self._context.clock, self._watch
        return lambda: PacedRunner(
            start_runner(),
            pace,
            units=units,
            clock=clock,
            check=watch.check,
            on_held=watch.held,
            run=f"{self._kind.name} {self._job_id}",
        )

    def carry_out(self, names: Sequence[str], start_runner: StartRunner) -> None:
        with self._job(names) as job:
            try:
                paced = self._paced(start_runner, len(names))
                attempt = Attempt(self._context, paced, job.job_id, self._watch)
                for report in self._kind.carry_out(self._plan, names, attempt):
                    if report.outcome is Outcome.FAILED:
                        self._check_buckets()
                    self._reports.append(report)
                    self._remember(report)
            except Cancelled as stopped:
                self._end(stopped)
            except JobNotRunning as lost:
                self._end(self._watch.why_cancelled or lost)
            except SiltstoneError as trouble:
                self._trouble = str(trouble)
                self._has_no_runner = isinstance(trouble, RunnerUnusable)
            so_far = self.report(names, ())
            all_failed = bool(so_far.failed) and not so_far.done
            job.has_succeeded = not (self._is_cancelled or self._trouble or all_failed)
            job.report = so_far.in_one_line

    def _check_buckets(self) -> None:
        """Checks the buckets after a unit has failed. If a bucket refuses or does not answer, the unit is not set
        aside, and the run ends with the error of the bucket. A bucket may be readable and refuse writes, so the check
        writes a mark of the metadata's state. Raises Unavailable, StoreDenied."""
        for bucket_id in self._context.buckets.urls:
            try:
                refuse_bucket_of_another_store(self._context, bucket_id)
                if (guard := self._context.guard(bucket_id)) is not None:
                    guard.note(self._context.metadata.refresh())
            except (Unavailable, StoreDenied):
                raise
            except SiltstoneError as other:
                log.debug("bucket %d answers, and is refused: %s", bucket_id, other)

    def report(self, names: Sequence[str], postponed: Sequence[str], aside: Sequence[str] = ()) -> RunReport:
        reported = {each.name for each in self._reports}
        return RunReport(
            kind=self._kind.name,
            job_id=self._job_id,
            units=tuple(self._reports),
            postponed=(*postponed, *(name for name in names if name not in reported)),
            has_remaining=self._plan.has_remaining or any(each.has_remaining for each in self._reports),
            is_cancelled=self._is_cancelled,
            seconds=(self._context.clock.monotonic_ms() - self._started_ms) / 1000,
            trouble=self._trouble,
            has_no_runner=self._has_no_runner,
            set_aside=tuple(aside),
            unusable=tuple(each for each in self._plan.unplanned if each.is_failure),
            bytes_left=self._bytes_left(),
            held_seconds=self._watch.held_ms / 1000,
        )

    def _bytes_left(self) -> int | None:
        if any(each.name == WHOLE for each in self._plan.unplanned):
            return None  # the kind waits for room and has made no plan
        ended = {each.name for each in self._reports if each.outcome in (Outcome.DONE, Outcome.NOT_NEEDED)}
        return sum(unit.bytes_read for unit in self._plan.units if unit.name not in ended)

    def _end(self, reason: object) -> None:
        self._is_cancelled = True
        self._trouble = str(reason)
        log.warning("%s was cancelled: %s", self._kind.name, reason)

    @contextmanager
    def _job(self, names: Sequence[str]) -> Iterator[RunningJob]:
        lease_ms = self._kind.lease_ms
        if lease_ms is None:
            yield RunningJob(NO_JOB)
            return
        description = _description([self._units[name] for name in names], self._watch.rate)
        with running_job(self._context, self._kind.name, lease_ms, description, self._watch.cancel) as job:
            self._job_id = job.job_id
            yield job

    def _remember(self, report: UnitReport) -> None:
        kind = self._kind.name
        if report.outcome is Outcome.FAILED:
            unit = self._units.get(report.name) or PlannedUnit(name=report.name, reason="")
            aside = put_aside(self._context, kind, unit, report.text)
            log.warning("%s of %s failed (%d): %s", kind, report.name, aside.failures, report.text)
        elif report.outcome in (Outcome.DONE, Outcome.NOT_NEEDED):
            log.info("%s of %s: %s", kind, report.name, report.text)
            take_back(self._context, kind, report.name)


def _chosen(
    context: MaintenanceContext, plan: Plan, budget: Budget, scope: Scope
) -> tuple[list[str], list[str], list[str]]:
    """Returns the names of the units to do, of the units that are postponed, and of the postponed units that are set
    aside."""
    names: list[str] = []
    postponed: list[str] = []
    aside: list[str] = []
    spent = 0
    bytes_max = budget.bytes_max
    for unit in plan.units:
        is_beyond = bool(names) and bytes_max is not None and spent + _cost(unit) > bytes_max
        is_aside = not scope.is_forced and waiting(context, plan.kind, unit) is not None
        if is_aside:
            aside.append(unit.name)
        if is_beyond or is_aside:
            postponed.append(unit.name)
        else:
            names.append(unit.name)
            spent += _cost(unit)
    return names, postponed, aside


def _names(plan: Plan) -> frozenset[str]:
    return frozenset([*(each.name for each in plan.units), *(each.name for each in plan.unplanned)])


def _cost(unit: PlannedUnit) -> int:
    return unit.bytes_read + unit.bytes_written


def _description(units: Sequence[PlannedUnit], rate: RunRate) -> str:
    only = f"{units[0].name}, " if len(units) == 1 else f"{len(units)} units, "
    size = size_words(sum(unit.bytes_read for unit in units))
    return ", ".join(filter(None, (f"{only}{size} to read", rate.words)))
