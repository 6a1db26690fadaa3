"""The progress of a share group in a partition: where it begins, and in which state the records behind that are.

    start offset          end offset
    │ Acquired │ Available │ Acknowledged │ Acquired │ never delivered …

Records before the start offset are done with; none at or behind the end offset was ever delivered. In between, spans
follow one another without a hole, and the first of them is not done with. A million records that were acquired together
are one span. Offsets without a record (key compaction has removed it, or it is a marker of a transaction) are done with
as soon as a member passes them.
"""

from bisect import bisect_right
from collections.abc import Callable
from enum import IntEnum
from operator import attrgetter

import msgspec
from msgspec.structs import replace


class DeliveryState(IntEnum):
    """The numbers are Kafka's, in the records of its share coordinator."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self >= DeliveryState.ACKNOWLEDGED


class DeliverySpan(msgspec.Struct, frozen=True, gc=False):
    """The offsets from ``first`` up to, but without, ``end``. ``count``: how often their records were delivered.
    ``member_id`` and ``until_ms``: who has acquired them, and until when by the monotonic clock."""

    first: int
    end: int
    state: DeliveryState
    count: int = 0
    member_id: str = ""
    until_ms: float = 0.0

    def is_like(self, other: "DeliverySpan") -> bool:
        """Whether the two, if one follows the other, are one span."""
        return (
            self.state is other.state
            and self.count == other.count
            and self.member_id == other.member_id
            and self.until_ms == other.until_ms
        )


_FIRST = attrgetter("first")


class ShareProgress(msgspec.Struct, frozen=True):
    start_offset: int
    spans: tuple[DeliverySpan, ...] = ()

    @property
    def end_offset(self) -> int:
        return self.spans[-1].end if self.spans else self.start_offset

    @property
    def next_offset(self) -> int:
        """The first offset that may be delivered."""
        for span in self.spans:
            if span.state is DeliveryState.AVAILABLE:
                return span.first
        return self.end_offset

    @property
    def next_lock_end_ms(self) -> float:
        """When the first lock ends; infinity if nothing is locked."""
        return min(
            (span.until_ms for span in self.spans if span.state is DeliveryState.ACQUIRED),
            default=float("inf"),
        )

    def count_of(self, *states: DeliveryState) -> int:
        """Returns how many offsets are in one of the states."""
        return sum(span.end - span.first for span in self.spans if span.state in states)

    @property
    def in_flight(self) -> int:
        return self.count_of(DeliveryState.AVAILABLE, DeliveryState.ACQUIRED)

    @property
    def deliveries_max(self) -> int:
        """The most deliveries that a record has had which is not done with; 0 if none is in flight."""
        return max((span.count for span in self.spans if not span.state.is_final), default=0)

    @property
    def completed(self) -> int:
        """How many offsets behind the start offset are done with."""
        return self.count_of(DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


class ProgressDraft:
    """A progress that steps are still changing."""

    def __init__(self, progress: ShareProgress) -> None:
        self.before = progress
        self.start_offset = progress.start_offset
        self.spans = list(progress.spans)

    @property
    def end_offset(self) -> int:
        return self.spans[-1].end if self.spans else self.start_offset

    def between(self, first: int, end: int) -> list[DeliverySpan]:
        """Returns the spans of these offsets, as far as there are, cut to them."""
        low, high = self._places(first, end)
        return [
            replace(span, first=max(span.first, first), end=min(span.end, end))
            if span.first < first or span.end > end
            else span
            for span in self.spans[low:high]
        ]

    def change(self, first: int, end: int, make: Callable[[DeliverySpan], DeliverySpan]) -> None:
        """Puts what ``make`` returns for each span of these offsets in its place. Offsets that no span has are left
        out."""
        low, high = self._places(first, end)
        if low >= high:
            return
        pieces: list[DeliverySpan] = []
        if (head := self.spans[low]).first < first:
            pieces.append(replace(head, end=first))
        pieces += [make(span) for span in self.between(first, end)]
        if (tail := self.spans[high - 1]).end > end:
            pieces.append(replace(tail, first=end))
        before, behind = max(low - 1, 0), min(high + 1, len(self.spans))
        joined: list[DeliverySpan] = []
        for piece in (*self.spans[before:low], *pieces, *self.spans[high:behind]):
            _join(joined, piece)
        self.spans[before:behind] = joined

    def extend(self, span: DeliverySpan) -> None:
        assert span.first == self.end_offset and span.first < span.end
        _join(self.spans, span)

    def start_at(self, offset: int) -> None:
        """Forgets all that is before ``offset``."""
        if offset <= self.start_offset:
            return
        self.spans = self.between(offset, max(self.end_offset, offset))
        self.start_offset = offset

    def progress(self) -> ShareProgress:
        """The start moves past what is done with."""
        done = 0
        for span in self.spans:
            if not span.state.is_final:
                break
            done, self.start_offset = done + 1, span.end
        spans = tuple(self.spans[done:])
        if self.start_offset == self.before.start_offset and spans == self.before.spans:
            return self.before
        return ShareProgress(self.start_offset, spans)

    def _places(self, first: int, end: int) -> tuple[int, int]:
        low = max(bisect_right(self.spans, first, key=_FIRST) - 1, 0)
        if low < len(self.spans) and self.spans[low].end <= first:
            low += 1
        high = bisect_right(self.spans, end - 1, key=_FIRST)
        return low, high


def _join(spans: list[DeliverySpan], span: DeliverySpan) -> None:
    if spans and spans[-1].end == span.first and spans[-1].is_like(span):
        spans[-1] = replace(spans[-1], end=span.end)
    else:
        spans.append(span)
