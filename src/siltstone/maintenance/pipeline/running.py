"""Carrying out the plan of one kind: a job, its units in order, what failed set aside, one report."""

import logging
from collections.abc import Sequence

import msgspec

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.jobs import running_job
from siltstone.maintenance.pipeline.kind import Kind, KindPlan, Outcome, PlannedUnit, StartRunner, UnitReport
from siltstone.maintenance.pipeline.scope import Budget, Scope
from siltstone.maintenance.pipeline.set_aside import put_aside, set_aside, take_back
from siltstone.maintenance.pipeline.watch import Cancelled, Watch

log = logging.getLogger(__name__)


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """Of one kind. ``job_id`` None: there was nothing to do. ``postponed``: names that the budget, or their having been
    set aside, left for later. ``is_cancelled``: what ``units`` says is done stands."""

    kind: str
    job_id: int | None
    units: tuple[UnitReport, ...]
    postponed: tuple[str, ...]
    has_remaining: bool
    is_cancelled: bool
    seconds: float

    @property
    def failed(self) -> tuple[UnitReport, ...]:
        return tuple(each for each in self.units if each.outcome is Outcome.FAILED)

    @property
    def in_one_line(self) -> str:
        if self.job_id is None:
            return "nothing to do"
        done = [each for each in self.units if each.outcome is Outcome.DONE]
        facts = [
            f"{len(done)} of {len(self.units)} done",
            f"{len(self.failed)} failed" if self.failed else "",
            f"{sum(each.bytes_read for each in done)} bytes read, {sum(each.bytes_written for each in done)} written",
            "cancelled" if self.is_cancelled else "",
            f"{self.seconds:.1f} s",
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
    """Plans, and carries the plan out. Raises JobRunning, and Unavailable when the metadata cannot be reached."""
    return carry_out(context, kind, kind.plan(context, scope, watch), start_runner, budget, watch, scope)


def carry_out(
    context: MaintenanceContext,
    kind: Kind,
    plan: KindPlan,
    start_runner: StartRunner,
    budget: Budget,
    watch: Watch,
    scope: Scope,
) -> RunReport:
    """A plan that somebody may have looked at first. Raises as ``run``."""
    started_ms = context.clock.monotonic_ms()
    names, postponed = _chosen(context, plan, budget, scope)
    if not names:
        return _report(context, plan, None, [], postponed, started_ms, is_cancelled=False)
    reports: list[UnitReport] = []
    with running_job(context, kind.name, kind.lease_ms, _description(plan, names)) as job:
        is_cancelled = False
        try:
            for report in plan.carry_out(context, start_runner, job.job_id, names, watch):
                reports.append(report)
                _remember(context, kind.name, report)
        except Cancelled as stopped:
            is_cancelled = True
            log.info("%s was cancelled: %s", kind.name, stopped)
        reported = {each.name for each in reports}
        left = [name for name in names if name not in reported]
        done = _report(
            context, plan, job.job_id, reports, [*postponed, *left], started_ms, is_cancelled=is_cancelled
        )
        job.report = done.in_one_line
    return done


def _chosen(
    context: MaintenanceContext, plan: KindPlan, budget: Budget, scope: Scope
) -> tuple[list[str], list[str]]:
    names: list[str] = []
    postponed: list[str] = []
    spent = 0
    bytes_max = budget.bytes_max
    for unit in plan.units:
        is_beyond = bool(names) and bytes_max is not None and spent + _cost(unit) > bytes_max
        if is_beyond or (not scope.is_forced and _waits(context, plan.kind, unit)):
            postponed.append(unit.name)
        else:
            names.append(unit.name)
            spent += _cost(unit)
    return names, postponed


def _waits(context: MaintenanceContext, kind: str, unit: PlannedUnit) -> bool:
    aside = set_aside(context.metadata.image, kind, unit.name)
    return aside is not None and aside.retry_at_ms > context.clock.now_ms()


def _cost(unit: PlannedUnit) -> int:
    return unit.bytes_read + unit.bytes_written


def _remember(context: MaintenanceContext, kind: str, report: UnitReport) -> None:
    if report.outcome is Outcome.FAILED:
        aside = put_aside(context, kind, report.name, report.text)
        log.warning("%s of %s failed %d times: %s", kind, report.name, aside.failures, report.text)
    elif report.outcome in (Outcome.DONE, Outcome.NOT_NEEDED):
        take_back(context, kind, [report.name])


def _description(plan: KindPlan, names: Sequence[str]) -> str:
    chosen = frozenset(names)
    units = [unit for unit in plan.units if unit.name in chosen]
    return f"{len(units)} units, {sum(unit.bytes_read for unit in units)} bytes to read"


def _report(
    context: MaintenanceContext,
    plan: KindPlan,
    job_id: int | None,
    reports: Sequence[UnitReport],
    postponed: Sequence[str],
    started_ms: float,
    *,
    is_cancelled: bool,
) -> RunReport:
    return RunReport(
        kind=plan.kind,
        job_id=job_id,
        units=tuple(reports),
        postponed=tuple(postponed),
        has_remaining=plan.has_remaining,
        is_cancelled=is_cancelled,
        seconds=(context.clock.monotonic_ms() - started_ms) / 1000,
    )
