"""Makes an overview of what maintenance would do now: the plans of all kinds, as a value and as a table.

``overview`` plans every kind and writes nothing. ``siltstone.maintenance.plan(store)`` returns an overview, and
``siltstone maintain plan`` and ``explain`` print one.
"""

from collections.abc import Iterable, Sequence
from html import escape

import msgspec

from siltstone.carrying.pipeline.kind import Kind, PlannedUnit, Scope, Unplanned
from siltstone.carrying.pipeline.running import plan_of, waiting
from siltstone.carrying.pipeline.watch import OnStepProgress, Watch
from siltstone.foundation.quantity_words import counted, size_words, time_words
from siltstone.foundation.text_tables import Row, html_of, table_of
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.offline.context import MaintenanceContext, check_metadata_is_newest

HEADER = ("kind", "unit", "reads", "writes", "objects", "because")


def cells(units: Iterable[tuple[str, PlannedUnit]]) -> list[Row]:
    return [row_of(kind, unit) for kind, unit in units]


def row_of(kind: str, unit: PlannedUnit) -> Row:
    return (
        kind,
        unit.name,
        _size(unit.bytes_read),
        _size(unit.bytes_written),
        objects_words(unit),
        unit.reason,
    )


def objects_words(unit: PlannedUnit) -> str:
    """Says how many objects there are before and after the unit, such as ``12 → 1``."""
    if not unit.objects_before and not unit.objects_after:
        return ""
    return f"{unit.objects_before:,} → {unit.objects_after:,}"


def _size(size_bytes: int) -> str:
    return size_words(size_bytes) if size_bytes else ""


class Waiting(msgspec.Struct, frozen=True):
    """A unit that failed and is not tried again before ``retry_at_ms``."""

    name: str
    reason: str
    failures: int
    retry_at_ms: int


class KindOverview(msgspec.Struct, frozen=True):
    """The work that one kind would do: ``units`` in this order. ``waiting`` are units that are set aside; ``unplanned``
    names what the kind would not change, each with the reason. ``trouble`` says why no plan could be made."""

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

    @property
    def set_aside_words(self) -> str:
        """Says how many units are set aside, and when the first of them is tried again; empty when none is."""
        waits = [each for kind in self.kinds for each in kind.waiting]
        if not waits:
            return ""
        verb = "is" if len(waits) == 1 else "are"
        next_ms = min(each.retry_at_ms for each in waits)
        return (
            f"{counted(len(waits), 'unit')} {verb} set aside after failures; next try at {time_words(next_ms)} UTC:"
            " siltstone maintain status"
        )

    @property
    def unusable_words(self) -> str:
        """Says how many objects the plans had to leave out because they cannot be read; empty when there is none."""
        return unusable_words(each for kind in self.kinds for each in kind.unplanned)

    def __repr__(self) -> str:
        rows = self._rows()
        shown = [table_of(HEADER, rows)] if rows or not self._notes else []
        return "\n".join([*shown, *self._notes])

    def _repr_html_(self) -> str:
        rows = self._rows()
        shown = [html_of(HEADER, rows)] if rows or not self._notes else []
        return "".join([*shown, *(f"<p>{escape(note)}</p>" for note in self._notes)])

    def _rows(self) -> list[Row]:
        return cells((each.kind, unit) for each in self.kinds for unit in each.units)

    @property
    def _notes(self) -> list[str]:
        troubles = [
            f"{each.kind}: no plan could be made: {each.trouble}" for each in self.kinds if each.trouble
        ]
        return [*troubles, *filter(None, [self.set_aside_words, self.unusable_words])]


def unusable_words(unplanned: Iterable[Unplanned]) -> str:
    """Says how many of these objects cannot be read, with the reason of the first one and what to do; empty when all
    can be read. An object that several kinds could not read is counted once."""
    failed = {each.name: each.reason for each in unplanned if each.is_failure}
    if not failed:
        return ""
    name, reason = next(iter(failed.items()))
    more = f" and {counted(len(failed) - 1, 'more object')}" if len(failed) > 1 else ""
    return f"{name}{more} cannot be read ({name}: {reason}): siltstone check names what is lost or damaged"


def overview(
    context: MaintenanceContext,
    kinds: Iterable[Kind],
    scope: Scope,
    on_step_progress: OnStepProgress | None = None,
) -> Overview:
    """Plans the kinds one by one: reads the metadata and objects' indexes, writes nothing. Raises Unavailable when the
    metadata cannot be reached, and what ``check_metadata_is_newest`` raises: a plan of an older copy would be wrong."""
    context.metadata.refresh()
    check_metadata_is_newest(context)
    return Overview(tuple(_of_kind(context, kind, scope, on_step_progress) for kind in kinds))


def _of_kind(
    context: MaintenanceContext, kind: Kind, scope: Scope, on_step_progress: OnStepProgress | None
) -> KindOverview:
    try:
        plan = plan_of(
            context, kind, scope, Watch(kind.name, context.clock, on_step_progress=on_step_progress)
        )
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
