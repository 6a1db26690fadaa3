"""Retention as a kind of maintenance: plan, then one command for each topic. It runs no task and reads no object."""

from collections.abc import Callable, Iterator, Sequence

from siltstone.carrying.outcomes import settled
from siltstone.carrying.pipeline.kind import Attempt, Outcome, Plan, Scope, UnitReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.foundation.quantity_words import counted
from siltstone.maintenance.retention.planning import BoundOf, TopicRetention, plan_retention
from siltstone.metadata.commands import RollSegments, TrimStreams
from siltstone.metadata.image import ImageView
from siltstone.model.limits import JOB_LEASE_MS
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.topic_streams import TopicStream

RETENTION = "retention"


def _no_bound(stream: TopicStream) -> None:
    return None


def _no_bounds(image: ImageView) -> BoundOf:
    return _no_bound


class Retention:
    """The kind of maintenance. ``bounds`` takes an image and returns what limits retention besides time and size: the
    consumer groups that have not read yet."""

    name = RETENTION
    lease_ms = JOB_LEASE_MS

    def __init__(self, bounds: Callable[[ImageView], BoundOf] = _no_bounds) -> None:
        self._bounds = bounds

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        watch.check()
        image = context.metadata.refresh()
        planned = plan_retention(image, scope, context.now_ms(), self._bounds(image))
        return Plan(kind=RETENTION, units=planned.units, unplanned=planned.unplanned, work=planned.topics)

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        for done, name in enumerate(names):
            attempt.watch.report("trim", done, len(names))
            if not attempt.watch.may_begin():
                return
            yield _trimmed(attempt.context, attempt.job_id, name, plan.work[name])


def _trimmed(context: MaintenanceContext, job_id: int, name: str, retention: TopicRetention) -> UnitReport:
    """Closes segments of a topic and trims it. A segment that is closed and then not trimmed does no harm, and a second
    trim changes nothing. Raises JobNotRunning, Unavailable."""
    trimmed: tuple[int, ...] = ()

    def trim() -> None:
        nonlocal trimmed
        if retention.rolled:
            context.metadata.execute(RollSegments(retention.rolled, job_id=job_id))
        trimmed = context.metadata.execute(TrimStreams(job_id, (retention.trims,)))

    # Why trim and not delete: an object holds many streams, and its parts are dead at different times. The start
    # offset is one small record; collections rewrite objects when enough of them is dead.
    if report := settled(name, trim, overtaken_by=()):
        return report
    if not trimmed:
        text = "the topic was deleted, reconfigured or trimmed meanwhile"
        return UnitReport(name=name, outcome=Outcome.NOT_NEEDED, text=text)
    return UnitReport(
        name=name,
        outcome=Outcome.DONE,
        text=f"{counted(retention.offsets, 'offset')} trimmed in {counted(len(trimmed), 'partition')}",
        offsets_trimmed=retention.offsets,
    )
