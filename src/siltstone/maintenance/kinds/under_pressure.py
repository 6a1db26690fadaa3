"""Kinds that copy, waiting while there is no room (GC17): their plan is empty then, and says why."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.kind import (
    Kind,
    KindPlan,
    PlannedUnit,
    StartRunner,
    UnitReport,
    Unplanned,
)
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.pressure import Measured, measure
from siltstone.runtime.disks import Disks

Measure = Callable[[MaintenanceContext], Measured]


def measuring(disks: Disks, quota_bytes: int) -> Measure:
    return lambda context: measure(context.metadata.image, context.buckets.urls, disks, quota_bytes)


class UnderPressure:
    def __init__(self, kind: Kind, measured: Measure) -> None:
        self._kind = kind
        self._measured = measured

    @property
    def name(self) -> str:
        return self._kind.name

    @property
    def lease_ms(self) -> int:
        return self._kind.lease_ms

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> KindPlan:
        context.metadata.refresh()
        reason = self._measured(context).why_waits(self.name, is_forced=scope.is_forced)
        return (
            NothingNow(self.name, (Unplanned("all", reason),))
            if reason
            else self._kind.plan(context, scope, watch)
        )


class NothingNow(msgspec.Struct, frozen=True):
    """A plan without units."""

    kind: str
    unplanned: Sequence[Unplanned]

    @property
    def units(self) -> Sequence[PlannedUnit]:
        return ()

    @property
    def has_remaining(self) -> bool:
        return False

    def carry_out(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        names: Sequence[str],
        watch: Watch,
    ) -> Iterator[UnitReport]:
        assert not names
        return iter(())
