"""Segments: the roll-over units of a partition. Retention deletes whole segments; key compaction skips the newest one.

A segment is a range of offsets, recorded with the stream. It is independent of objects, which may hold parts of many
segments. The *active* segment begins at the end of the last closed one and grows with every append.
``topic_configs.rolling`` decides when it is closed.
"""

import msgspec

from siltstone.model.record_batch import NO_TIMESTAMP


class ClosedSegment(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The offsets [start_offset, end_offset) of a stream, which no longer grow.

    ``size_bytes`` and ``batch_count`` count the batches as they were appended, before any compaction.
    ``largest_timestamp_ms`` is -1 when no record carries a timestamp. ``opened_ms`` is when the first batch was
    appended."""

    start_offset: int
    end_offset: int
    size_bytes: int
    batch_count: int
    largest_timestamp_ms: int
    opened_ms: int
    closed_ms: int

    def joined(self, later: "ClosedSegment") -> "ClosedSegment":
        """One segment that replaces this one and ``later``, which follows it."""
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
        """Returns the segment after the records before ``offset``, an offset inside it, were deleted. Bytes and batches
        are reduced in proportion to the offsets."""
        size_bytes, batch_count = _left(self, offset)
        return msgspec.structs.replace(
            self, start_offset=offset, size_bytes=size_bytes, batch_count=batch_count
        )


class ActiveSegment(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The segment that grows: the fields mean the same as in ClosedSegment, and each batch makes a new value.
    ``opened_ms`` of an empty segment is 0."""

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
        """Returns the segment after one more batch was appended, which ends at ``end_offset``."""
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
        """Returns the segment without the records before ``offset``, which belong to another segment or were deleted.
        Bytes and batches are reduced in proportion, because they are not counted per offset. ``offset`` must not be
        before the segment's start."""
        if offset >= self.end_offset:
            return ActiveSegment(offset, offset)
        size_bytes, batch_count = _left(self, offset)
        return msgspec.structs.replace(
            self, start_offset=offset, size_bytes=size_bytes, batch_count=batch_count
        )


def _left(segment: ClosedSegment | ActiveSegment, offset: int) -> tuple[int, int]:
    """Returns the estimated number of bytes and batches from ``offset`` on."""
    left, all_of_it = segment.end_offset - offset, segment.end_offset - segment.start_offset
    return segment.size_bytes * left // all_of_it, max(1, segment.batch_count * left // all_of_it)
