"""What is to happen to a partition whose slowest group stays too far behind. Pure.

====================== =====================================================================
policy                 beyond the quota
====================== =====================================================================
producer_request_hold  produce requests wait, and are told to come again (``Verdict.HOLD``)
producer_exception     produce requests are refused (``Verdict.REFUSE``)
consumer_backlog_      every group with more than 90 % of the quota is moved forward to that;
eviction               those with less stay where they are
====================== =====================================================================

Source: Pulsar's backlog quotas (``BacklogQuota.RetentionPolicy``); R12, R13.

How many bytes of a partition lie behind an offset. Pure, and from what is in memory already: nothing is read.

What the tail cache holds is counted to the batch. Before that, a closed segment and a range of an object say how many
bytes they have; within one, bytes are taken to be spread evenly over its offsets. Where key compaction has been, a
segment still says what was appended, so there the objects count.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from enum import Enum

import msgspec

from siltstone.metadata.entities import StreamMetadata

Piece = tuple[int, int, int]
"""Start offset, end offset, bytes."""


class BacklogMeasure:
    """``cached_bytes(offset)``: bytes from there to ``end_offset``, or None when some of them lie in objects only."""

    def __init__(
        self, stream: StreamMetadata, end_offset: int, cached_bytes: Callable[[int], int | None]
    ) -> None:
        self._end_offset = end_offset
        self._cached_bytes = cached_bytes
        self._pieces = list(_committed_pieces(stream))
        tail_start = self._pieces[-1][1] if self._pieces else stream.start_offset
        if tail_start < end_offset:
            self._pieces.append((tail_start, end_offset, cached_bytes(tail_start) or 0))
        self._ends = [end for _, end, _ in self._pieces]
        self._bytes_after = self._suffix_sums()

    def bytes_from(self, offset: int) -> int:
        if offset >= self._end_offset:
            return 0
        exact = self._cached_bytes(offset)
        return self._from_pieces(offset) if exact is None else exact

    def first_offset_within(self, size_bytes: int, start_offset: int) -> int:
        """The first from ``start_offset`` on behind which there are no more than so many bytes."""
        offsets = range(start_offset, self._end_offset + 1)
        return start_offset + bisect_left(offsets, -size_bytes, key=lambda offset: -self.bytes_from(offset))

    def _from_pieces(self, offset: int) -> int:
        at = bisect_right(self._ends, offset)
        if at == len(self._pieces):
            return 0
        start, end, size_bytes = self._pieces[at]
        return size_bytes * (end - max(start, offset)) // (end - start) + self._bytes_after[at]

    def _suffix_sums(self) -> list[int]:
        after, total = [], 0
        for _, _, size_bytes in reversed(self._pieces):
            after.append(total)
            total += size_bytes
        return after[::-1]


def _committed_pieces(stream: StreamMetadata) -> Iterator[Piece]:
    """In order, without overlap: objects where key compaction has been, then closed segments, then objects again."""
    at = stream.start_offset
    clean_end = min(max(stream.cleaned_offset, at), stream.active_offset)
    ranges = [(held.start_offset, held.end_offset, held.size_bytes) for held in stream.ranges]
    segments = [(each.start_offset, each.end_offset, each.size_bytes) for each in stream.segments]
    spans = (
        (ranges, at, clean_end),
        (segments, clean_end, max(stream.active_offset, clean_end)),
        (ranges, max(stream.active_offset, clean_end), max(stream.end_offset, at)),
    )
    for pieces, start, end in spans:
        yield from _within(pieces, start, end)


def _within(pieces: list[Piece], start: int, end: int) -> Iterator[Piece]:
    for first, last, size_bytes in pieces:
        cut_first, cut_last = max(first, start), min(last, end)
        if cut_first < cut_last:
            yield cut_first, cut_last, size_bytes * (cut_last - cut_first) // (last - first)


EVICT_TO_PERCENT = 90
"""Of the quota; less than all of it, or the next batch would be one too many."""

_HOLD, _REFUSE, _EVICT = "producer_request_hold", "producer_exception", "consumer_backlog_eviction"


class Verdict(Enum):
    HOLD = "hold"
    REFUSE = "refuse"


class Backlog(msgspec.Struct, frozen=True):
    """Of the slowest group of a partition."""

    group: str
    size_bytes: int
    quota_bytes: int

    @property
    def is_beyond(self) -> bool:
        return self.size_bytes > self.quota_bytes


def backlog_of(measure: BacklogMeasure, offsets: Mapping[str, int], quota_bytes: int) -> Backlog:
    """``offsets`` of the groups that are waited for: at least one."""
    group = min(offsets, key=lambda name: (offsets[name], name))
    return Backlog(group, measure.bytes_from(offsets[group]), quota_bytes)


def verdict_on(backlog: Backlog, policy: str) -> Verdict | None:
    if not backlog.is_beyond:
        return None
    return {_HOLD: Verdict.HOLD, _REFUSE: Verdict.REFUSE}.get(policy)


def evictions(
    measure: BacklogMeasure, offsets: Mapping[str, int], backlog: Backlog, policy: str
) -> dict[str, int]:
    """Where groups are to be moved."""
    if policy != _EVICT or not backlog.is_beyond:
        return {}
    target_bytes = backlog.quota_bytes * EVICT_TO_PERCENT // 100
    target = measure.first_offset_within(target_bytes, offsets[backlog.group])
    return {group: target for group, offset in offsets.items() if offset < target}
