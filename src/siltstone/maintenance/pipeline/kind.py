"""What a kind of maintenance is to the pipeline.

A *plan* is made from the image and the objects' indexes, writes nothing, and has a reason for each of its *units*. A
unit is what is committed by itself: a stream, a batch of streams, a round of stream set objects. One that fails costs
the others nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.runner import Runner
from siltstone.model.limits import SET_ASIDE_MS_MAX

StartRunner = Callable[[], Runner]
"""Gives the runner, and starts it at the first call: a run without tasks starts no Spark."""

NO_JOB = 0


class PlannedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is the same in every plan, so that what failed is found again: ``flights-0``, ``objects``. ``reason``:
    in a sentence, why it is to be done. Bytes and objects are expected ones; ``detail`` is what else a person may
    want to know, by name. ``set_aside_ms_max``: the longest it waits after failures."""

    name: str
    reason: str
    topic: str | None = None
    partition: int | None = None
    stream_id: int | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    objects_before: int = 0
    objects_after: int = 0
    detail: dict[str, str] = {}
    set_aside_ms_max: int = SET_ASIDE_MS_MAX


class Unplanned(msgspec.Struct, frozen=True):
    """What stays as it is, and why: ``explain`` tells it."""

    name: str
    reason: str


class Outcome(Enum):
    DONE = "done"
    NOT_NEEDED = "not needed"
    """Others did it meanwhile, or what it was about is gone."""
    FAILED = "failed"
    CANCELLED = "cancelled"


class UnitReport(msgspec.Struct, frozen=True, kw_only=True):
    """``text``: what was done, or why not, in one line."""

    name: str
    outcome: Outcome
    text: str
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0
    objects_before: int = 0
    objects_after: int = 0
    offsets_trimmed: int = 0
    records_removed: int = 0
    peak_memory_bytes: int = 0


class KindPlan(Protocol):
    """``units`` in the order in which they are worth doing. ``has_remaining``: another run has work at once."""

    @property
    def kind(self) -> str: ...
    @property
    def units(self) -> Sequence[PlannedUnit]: ...
    @property
    def unplanned(self) -> Sequence[Unplanned]: ...
    @property
    def has_remaining(self) -> bool: ...

    def carry_out(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        names: Sequence[str],
        watch: Watch,
    ) -> Iterator[UnitReport]:
        """The units named, each reported when it is committed, or has failed; what failed may be a part that only the
        work has shown, such as a damaged object. Raises Cancelled (what is not reported is
        not done), JobNotRunning, and Unavailable when the metadata cannot be reached: no unit's fault."""
        ...


class Kind(Protocol):
    @property
    def name(self) -> str:
        """Also that of its jobs: one driver at a time."""
        ...

    @property
    def lease_ms(self) -> int:
        """NO_JOB: two drivers at once do no harm, and none has to wait for the other."""
        ...

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> KindPlan:
        """Raises Unavailable; what is wrong with one unit is an Unplanned."""
        ...
