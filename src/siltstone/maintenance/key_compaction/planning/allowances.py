"""The *allowance* of a stream: the time in which one pass over it is made and committed. Pure: computed from how
earlier passes ended.

The time limits of tombstones begin at the end of the allowance (G20). So it is fixed before the pass, and a commit
after its end is refused. A pass is limited in two ways, so that a stream for which the allowance is too short is
compacted all the same (K33):

* Its *part*: of the new offsets only the first ones are mapped. The first scan of a task that runs late reports how far
  it came, and the next pass is given that much. The rest is left to further passes.
* Its *time*: when a smaller part does not help, because the whole prefix has to be read again and written by each pass,
  the next pass is given twice the allowance, up to ``LONGEST`` times the setting.

What was learned is kept in memory. A driver that restarts learns it again, at the cost of one pass that runs late.
"""

import msgspec

from siltstone.foundation.quantity_words import count_words
from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan

LONGEST = 16
"""16 h by default: tombstones stay for that much longer, and a driver that dies has lost no more than that."""

PASS_SHARE = 3 / 4
"""The share of the allowance that the task may take; the rest is for the time in which it waits for an executor, and
for the commit."""

LEAST_PART = 1 / 8
"""A first scan that maps less than this of the new offsets gets more time instead of so small a part."""

STREAMS_MAX = 10_000
"""Streams about which something is remembered. Of more than these the oldest are forgotten."""


class Allowance(msgspec.Struct, frozen=True):
    """``offsets_max`` is how many new offsets the pass may map; None means all."""

    allowance_ms: int
    offsets_max: int | None = None

    @property
    def pass_ms_max(self) -> int:
        return round(self.allowance_ms * PASS_SHARE)


class Allowances:
    """The allowances of all streams. A stream about which nothing is remembered has its whole plan and the setting's
    time. ``streams_max``: about so many streams something is remembered."""

    def __init__(self, allowance_ms: int, streams_max: int = STREAMS_MAX) -> None:
        self._streams_max = streams_max
        self._first = Allowance(allowance_ms)
        self._longest_ms = allowance_ms * LONGEST
        self._known: dict[int, Allowance] = {}

    def of(self, stream_id: int) -> Allowance:
        return self._known.get(stream_id, self._first)

    def ran_late(self, stream_id: int, part: StreamPlan, mapped_offset: int) -> bool:
        """Notes that a pass over ``part`` ran late, when its keys were mapped up to ``mapped_offset``. → Whether the
        next pass has a smaller part that is known to be mapped in time, or more time."""
        before = self.of(stream_id)
        offsets = part.bound - part.dirty_offset
        mapped = mapped_offset - part.dirty_offset
        if offsets * LEAST_PART <= mapped < offsets:
            self._remember(stream_id, Allowance(before.allowance_ms, mapped))
            return True
        allowance_ms = min(2 * before.allowance_ms, self._longest_ms)
        self._remember(stream_id, Allowance(allowance_ms, max(1, offsets // 2)))
        return allowance_ms > before.allowance_ms

    def was_in_time(self, stream_id: int, part: StreamPlan, whole: StreamPlan, took_ms: float) -> None:
        """Notes that a pass over ``part`` of the ``whole`` plan was committed after ``took_ms``."""
        before = self.of(stream_id)
        was_fast = took_ms < before.allowance_ms / 4
        if part.bound < whole.bound:
            offsets = part.bound - part.dirty_offset
            self._remember(stream_id, Allowance(before.allowance_ms, offsets * 2 if was_fast else offsets))
        elif was_fast:
            self._known.pop(stream_id, None)

    def _remember(self, stream_id: int, allowance: Allowance) -> None:
        self._known.pop(stream_id, None)
        self._known[stream_id] = allowance
        if len(self._known) > self._streams_max:
            del self._known[next(iter(self._known))]


def part_of(plan: StreamPlan, start_offset: int, offsets_max: int | None) -> StreamPlan:
    """Returns the part of a plan that maps at most ``offsets_max`` of its new offsets. Objects beyond them are not
    read. ``start_offset`` is the stream's present start offset."""
    dirty_offset = max(plan.dirty_offset, min(start_offset, plan.bound))
    bound = plan.bound if offsets_max is None else min(plan.bound, dirty_offset + offsets_max)
    if bound == plan.bound:
        return msgspec.structs.replace(plan, dirty_offset=dirty_offset)
    return msgspec.structs.replace(
        plan,
        dirty_offset=dirty_offset,
        bound=bound,
        sources=tuple(source for source in plan.sources if source.held.start_offset < bound),
        limit=f"an earlier pass ran late after offset {count_words(bound)}",
    )
