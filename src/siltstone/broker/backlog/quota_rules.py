"""The rules for a partition whose slowest group has a backlog over the quota, and the size of a backlog. Pure.

====================== =====================================================================
policy                 when the backlog is larger than the quota
====================== =====================================================================
producer_request_hold  produce requests wait (``Verdict.HOLD``); after a while the broker answers
                       with an error on which producers retry
producer_exception     produce requests are refused (``Verdict.REFUSE``)
consumer_backlog_      every group with a backlog of more than 90 % of the quota is moved
eviction               forward to 90 %; the others are not moved
====================== =====================================================================

Source: Pulsar's backlog quotas (``BacklogQuota.RetentionPolicy``); R12, R13.

``BacklogMeasure`` estimates how many bytes of a partition come after an offset, from memory alone: it reads no object.
Batches in the tail cache are counted exactly. Before them, the bytes of closed segments and of ranges in objects are
counted, evenly spread over their offsets. A segment's size is that of its batches as they were appended, so where key
compaction has removed records the objects are counted instead.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from enum import Enum

import msgspec

from siltstone.metadata.entities import StreamMetadata

EVICT_TO_PERCENT = 90
"""Groups are moved forward to this share of the quota. If they were moved to the quota itself, the next batch would
exceed it again."""

_HOLD, _REFUSE, _EVICT = "producer_request_hold", "producer_exception", "consumer_backlog_eviction"

Piece = tuple[int, int, int]
"""Start offset, end offset, bytes."""


class BacklogMeasure:
    """``cached_bytes(offset)``: bytes from ``offset`` to ``end_offset``, or None when some of them are only in
    objects."""

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
        """Returns the first offset, not before ``start_offset``, that has no more than ``size_bytes`` behind it."""
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
    """Yields the committed part of the stream in order, without overlap: objects as far as key compaction has come,
    then closed segments, then objects again."""
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


class Verdict(Enum):
    HOLD = "hold"
    REFUSE = "refuse"


class Backlog(msgspec.Struct, frozen=True):
    """The backlog of the slowest group of a partition, and the quota for it."""

    group: str
    size_bytes: int
    quota_bytes: int

    @property
    def is_beyond(self) -> bool:
        return self.size_bytes > self.quota_bytes


def backlog_of(measure: BacklogMeasure, offsets: Mapping[str, int], quota_bytes: int) -> Backlog:
    """``offsets`` are those of all groups that retention waits for: at least one."""
    group = min(offsets, key=lambda name: (offsets[name], name))
    return Backlog(group, measure.bytes_from(offsets[group]), quota_bytes)


def verdict_on(backlog: Backlog, policy: str) -> Verdict | None:
    if not backlog.is_beyond:
        return None
    return {_HOLD: Verdict.HOLD, _REFUSE: Verdict.REFUSE}.get(policy)


def evictions(
    measure: BacklogMeasure, offsets: Mapping[str, int], backlog: Backlog, policy: str
) -> dict[str, int]:
    """Returns the groups that are to be moved forward, and to which offset."""
    if policy != _EVICT or not backlog.is_beyond:
        return {}
    target_bytes = backlog.quota_bytes * EVICT_TO_PERCENT // 100
    target = measure.first_offset_within(target_bytes, offsets[backlog.group])
    return {group: target for group, offset in offsets.items() if offset < target}
