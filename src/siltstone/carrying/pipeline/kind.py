"""Defines what the pipeline knows of a kind of maintenance, in the words that all kinds share.

*Scope*: which topics a run is about, and whether it is forced. *Budget*: how many bytes a run may read and write, and
for how long. *Unit*: what is committed by itself, such as a stream, a batch of streams or a round of stream set
objects. A unit that fails does not affect the others. *Plan*: the units that a kind would carry out now, each with a
reason; making a plan writes nothing. *Job*: a durable decision to carry a plan out, with an id and a lease. *Attempt*:
a plan being carried out now. *Task input*: what one task is given; a unit has any number of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Protocol

import msgspec

from siltstone.carrying.pipeline.watch import Watch
from siltstone.metadata.image import ImageView
from siltstone.model.errors import InvalidRequest, did_you_mean
from siltstone.model.limits import SET_ASIDE_MS_MAX
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks.runner import Runner


class ScopeTopicUnknown(InvalidRequest):
    """The store has no topic of that name."""


def topics_named(image: ImageView, names: Iterable[str]) -> frozenset[str]:
    """Returns the names as a set, each checked against the image. A single string is one name. Raises
    ScopeTopicUnknown."""
    wanted = frozenset([names] if isinstance(names, str) else names)
    for name in sorted(wanted):
        if name not in image.topic_ids:
            hint = did_you_mean(name, sorted(image.topic_ids), "siltstone maintain explain lists the topics")
            raise ScopeTopicUnknown(f"there is no topic {name} in this store: {hint}")
    return wanted


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """``topics`` are names; None means all streams, also those of no topic. A run that ``is_forced`` ignores intervals,
    thresholds and set-aside units, but never the rules that protect data. ``up_to`` is for key compaction of one topic:
    it compacts up to this offset, whatever the lags and ratios are."""

    topics: frozenset[str] | None = None
    is_forced: bool = False
    up_to: int | None = None

    def includes(self, topic: str | None) -> bool:
        return self.topics is None or topic in self.topics


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A run begins units as long as some of its budget is left. The first unit is always started, because otherwise a
    unit larger than the budget would never be done. ``spread_ms``: the bytes that are copied are spread over this
    time. ``every_ms``: the caller is a service, which repeats the kind after this time."""

    bytes_max: int | None = None
    seconds_max: float | None = None
    spread_ms: int | None = None
    every_ms: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidRequest(f"{name} is {value}; it must be more than 0")


StartRunner = Callable[[], Runner]
"""Returns the runner, and starts it at the first call, so that a run without tasks starts no Spark."""

NO_JOB = 0

WHOLE = "all"
"""The name of an Unplanned, and of a table row, that is about the kind as a whole."""

OUTPUTS_MAX = 1_000
"""A planned unit lists at most this many outputs. A plan may have ten thousand, and people read the first few."""


def object_name(object_id: int) -> str:
    """Returns the name of a unit, or of a part of a unit, that is one object."""
    return f"object {object_id}"


class PlannedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """One object that a unit would write. ``makes`` says which sort of object it is. ``stream_id`` and the offsets are
    None for a stream set object. ``sources`` are object ids. The tasks ``first_task`` to ``last_task``, counted from 1,
    write the object."""

    makes: str
    stream_id: int | None
    start_offset: int | None
    end_offset: int | None
    streams: int
    blocks: int
    size_bytes: int
    sources: tuple[int, ...]
    first_task: int
    last_task: int
    reason: str


class PlannedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of a plan. ``name`` is the same in every plan, such as ``flights-0`` or ``objects``, so that a failed
    unit is found again. ``reason`` says in a sentence why the unit is worth doing. Bytes and objects are estimates.
    ``detail`` holds further facts by name; ``outputs`` the first objects the unit would write, where the kind knows
    them. ``set_aside_ms_max`` is the longest time the unit waits after failures."""

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
    outputs: tuple[PlannedOutput, ...] = ()
    set_aside_ms_max: int = SET_ASIDE_MS_MAX


class Unplanned(msgspec.Struct, frozen=True):
    """A topic, stream or object that the plan does not change, and why not. ``siltstone maintain explain`` shows it.
    ``is_failure`` says that the kind would have to read an object and cannot, because the object is lost, damaged, or
    out of reach."""

    name: str
    reason: str
    is_failure: bool = False


class Outcome(Enum):
    """How a unit ended."""

    DONE = "done"
    NOT_NEEDED = "not needed"
    """Another driver has done the unit meanwhile, or its topic, stream or objects are gone."""
    FAILED = "failed"
    CANCELLED = "cancelled"


class UnitReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a unit ended. ``text`` says in one line what was done, or why it was not."""

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
    has_remaining: bool = False
    """The unit reached a limit, and the next run has more work for it."""
    detail: dict[str, str] = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The work that one run of a kind would do. ``units`` are in the order in which they are worth doing. ``work`` is
    what the kind needs to carry the units out; nothing but the kind reads it."""

    kind: str
    units: Sequence[PlannedUnit] = ()
    unplanned: Sequence[Unplanned] = ()
    has_remaining: bool = False
    """A limit was reached, and another run would find work at once."""
    bytes_per_second: int = 0
    """The highest rate at which the kind itself lets its tasks copy; 0: none."""
    urgency: str = ""
    """Why the run must not be spread over time, and has priority over other maintenance; empty when it may wait."""
    work: Any = None


class Attempt(msgspec.Struct, frozen=True):
    """A plan being carried out now. ``job_id`` is NO_JOB for a kind without a lease."""

    context: MaintenanceContext
    start_runner: StartRunner
    job_id: int
    watch: Watch

    def label(self, names: Sequence[str]) -> str:
        """Returns the text that Spark's pages show for a Spark job on these units: kind, units, and the number of our
        job."""
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"{self.watch.kind} {names[0] if names else ''}{more}, job {self.job_id}"


class Kind(Protocol):
    """A kind of maintenance: it makes plans, and carries them out."""

    @property
    def name(self) -> str:
        """The kind's name, which is also the name of its jobs."""
        ...

    @property
    def lease_ms(self) -> int | None:
        """For how long a job of this kind runs on when its driver does not renew the lease. None means that the kind
        takes no job, because two drivers at once do no harm."""
        ...

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        """Makes the plan and writes nothing. A unit that cannot be planned becomes an Unplanned. Raises Unavailable."""
        ...

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        """Yields a report for each named unit as soon as it is committed or has failed. A report may also name a part
        of a unit that only the work has shown to be at fault, such as a damaged object. Raises Cancelled (units
        without a report are not done), JobNotRunning, and Unavailable when the metadata cannot be reached."""
        ...
