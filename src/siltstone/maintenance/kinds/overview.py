"""What maintenance would do now: the plans of all kinds, as a value and as a table that one can read.

``siltstone.maintenance.plan(store)`` makes it; ``siltstone maintain plan`` and ``explain`` show it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.kinds.plan_text import HEADER, cells, html_of, table_of
from siltstone.maintenance.pipeline.kind import Kind, PlannedUnit, Unplanned
from siltstone.maintenance.pipeline.running import waiting
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.watch import OnTold, Watch
from siltstone.model.errors import SiltstoneError, Unavailable

WHOLE = "all"
"""Stands where a unit's name would: what is said is said of the kind."""


class Waiting(msgspec.Struct, frozen=True):
    """A unit that failed and is not tried again before ``retry_at_ms``."""

    name: str
    reason: str
    failures: int
    retry_at_ms: int


class KindOverview(msgspec.Struct, frozen=True):
    """``units`` would be done, in this order; ``waiting`` are set aside; ``unplanned`` stays as it is, with the reason.
    ``trouble``: why no plan could be made."""

    kind: str
    units: tuple[PlannedUnit, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    unplanned: tuple[Unplanned, ...] = ()
    has_remaining: bool = False
    trouble: str = ""


class Overview(msgspec.Struct, frozen=True):
    kinds: tuple[KindOverview, ...]

    @property
    def unit_count(self) -> int:
        return sum(len(each.units) for each in self.kinds)

    def __repr__(self) -> str:
        return table_of(HEADER, cells((each.kind, unit) for each in self.kinds for unit in each.units))

    def _repr_html_(self) -> str:
        return html_of(HEADER, cells((each.kind, unit) for each in self.kinds for unit in each.units))


def overview(
    context: MaintenanceContext, kinds: Iterable[Kind], scope: Scope, on_told: OnTold | None = None
) -> Overview:
    """Reads the metadata and objects' indexes; writes nothing. Raises Unavailable when the metadata cannot be
    reached."""
    context.metadata.refresh()
    return Overview(tuple(_of_kind(context, kind, scope, on_told) for kind in kinds))


def _of_kind(context: MaintenanceContext, kind: Kind, scope: Scope, on_told: OnTold | None) -> KindOverview:
    try:
        plan = kind.plan(context, scope, Watch(kind.name, context.clock, on_told=on_told))
    except Unavailable as trouble:
        return KindOverview(kind.name, trouble=str(trouble))
    except SiltstoneError as trouble:
        return KindOverview(kind.name, trouble=f"{type(trouble).__name__}: {trouble}")
    waits = () if scope.is_forced else _waiting(context, kind.name, plan.units)
    held_up = {each.name for each in waits}
    return KindOverview(
        kind.name,
        units=tuple(unit for unit in plan.units if unit.name not in held_up),
        waiting=waits,
        unplanned=tuple(plan.unplanned),
        has_remaining=plan.has_remaining,
    )


def _waiting(context: MaintenanceContext, kind: str, units: Sequence[PlannedUnit]) -> tuple[Waiting, ...]:
    found = ((unit, waiting(context, kind, unit)) for unit in units)
    return tuple(
        Waiting(unit.name, aside.reason, aside.failures, aside.retry_at_ms)
        for unit, aside in found
        if aside is not None
    )
