"""Segments: the units by which retention drops what is old, and the newest of which key compaction leaves alone.

A segment is offsets between two roll points, recorded with the stream; it says nothing of objects. The one that grows
is *active*: from the end of the last closed one on.
"""

import msgspec

from siltstone.model.record_batch import NO_TIMESTAMP


class ClosedSegment(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """[start_offset, end_offset) of a stream. ``size_bytes`` and ``batch_count`` are those of its batches as they were
    appended; ``largest_timestamp_ms`` is -1 without any. ``opened_ms`` is when its first batch came."""

    start_offset: int
    end_offset: int
    size_bytes: int
    batch_count: int
    largest_timestamp_ms: int
    opened_ms: int
    closed_ms: int

    def joined(self, later: "ClosedSegment") -> "ClosedSegment":
        """One in the place of this and the one that follows it."""
        return ClosedSegment(
            self.start_offset,
            later.end_offset,
            self.size_bytes + later.size_bytes,
            self.batch_count + later.batch_count,
            max(self.largest_timestamp_ms, later.largest_timestamp_ms),
            self.opened_ms,
            later.closed_ms,
        )

    def beginning_at(self, offset: int) -> "ClosedSegment":
        """What is left of it when what lies before ``offset``, within it, is gone: in proportion."""
        size_bytes, batch_count = _left(self, offset)
        return msgspec.structs.replace(
            self, start_offset=offset, size_bytes=size_bytes, batch_count=batch_count
        )


class ActiveSegment(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """As ClosedSegment, growing; each batch makes the next value of it. Empty, it has no ``opened_ms``."""

    start_offset: int
    end_offset: int
    size_bytes: int = 0
    batch_count: int = 0
    largest_timestamp_ms: int = NO_TIMESTAMP
    opened_ms: int = 0

    @property
    def is_empty(self) -> bool:
        return self.end_offset == self.start_offset

    def appended(
        self, end_offset: int, size_bytes: int, largest_timestamp_ms: int, now_ms: int
    ) -> "ActiveSegment":
        """With one more batch."""
        return ActiveSegment(
            self.start_offset,
            end_offset,
            self.size_bytes + size_bytes,
            self.batch_count + 1,
            max(self.largest_timestamp_ms, largest_timestamp_ms),
            self.opened_ms if self.batch_count else now_ms,
        )

    def closed(self, closed_ms: int) -> ClosedSegment:
        assert not self.is_empty, f"segment at {self.start_offset} is empty"
        return ClosedSegment(
            self.start_offset,
            self.end_offset,
            self.size_bytes,
            self.batch_count,
            self.largest_timestamp_ms,
            self.opened_ms,
            closed_ms,
        )

    def beginning_at(self, offset: int) -> "ActiveSegment":
        """What is left of it when what lies before ``offset`` is another's, or gone: in proportion, as nobody counts by
        the offset. ``offset`` is not before its start."""
        if offset >= self.end_offset:
            return ActiveSegment(offset, offset)
        size_bytes, batch_count = _left(self, offset)
        return msgspec.structs.replace(
            self, start_offset=offset, size_bytes=size_bytes, batch_count=batch_count
        )


def _left(segment: ClosedSegment | ActiveSegment, offset: int) -> tuple[int, int]:
    """Bytes and batches from ``offset`` on."""
    left, all_of_it = segment.end_offset - offset, segment.end_offset - segment.start_offset
    return segment.size_bytes * left // all_of_it, max(1, segment.batch_count * left // all_of_it)
