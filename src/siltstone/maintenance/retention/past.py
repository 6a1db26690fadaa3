"""Segments of the offsets after a stream's last closed segment, with sizes and times taken from the objects that hold
them. Pure.

Ordinarily these offsets are the active segment. When they have far more bytes than a segment, the data is from before
there were segments, or the broker could not record where it closed them: the offsets are then cut into segments at the
borders of objects.
"""

from collections.abc import Iterator, Mapping

import msgspec

from siltstone.metadata.entities import ObjectMetadata, StreamMetadata
from siltstone.metadata.streams import first_holding
from siltstone.model.segments import ActiveSegment, ClosedSegment

ACTIVE_SEGMENTS_MAX = 2
"""The offsets are cut when they have the bytes of this many full segments. One would be too few, because objects hold a
little more bytes than were appended."""


class Past(msgspec.Struct, frozen=True):
    """The segments after the last closed one. ``committed_ms`` is the time at which the newest object of ``active`` was
    committed."""

    closed: tuple[ClosedSegment, ...]
    active: ActiveSegment
    committed_ms: int


def past_of(
    stream: StreamMetadata, objects: Mapping[int, ObjectMetadata], segment_bytes: int, end_offset: int
) -> Past:
    """Returns the segments of the committed offsets [active_offset, end_offset) of a stream."""
    start = stream.active_offset
    pieces = list(_pieces(stream, objects, start, end_offset))
    closed: list[ClosedSegment] = []
    if sum(piece.size_bytes for piece in pieces) >= ACTIVE_SEGMENTS_MAX * segment_bytes:
        pieces = _cut(pieces, segment_bytes, closed)
    if not pieces:
        end = closed[-1].end_offset if closed else max(start, end_offset)
        return Past(tuple(closed), ActiveSegment(end, end), 0)
    return Past(tuple(closed), _active(_joined(pieces)), max(piece.closed_ms for piece in pieces))


def bytes_within(stream: StreamMetadata, start: int, end: int) -> int:
    """Returns the bytes that objects hold of offsets [start, end). Of an object that holds more, a share in proportion
    to the offsets."""
    total = 0
    for at in range(first_holding(stream.ranges, start), len(stream.ranges)):
        held = stream.ranges[at]
        if held.start_offset >= end:
            break
        inside = min(held.end_offset, end) - max(held.start_offset, start)
        total += held.size_bytes * inside // (held.end_offset - held.start_offset)
    return total


def _pieces(
    stream: StreamMetadata, objects: Mapping[int, ObjectMetadata], start: int, end: int
) -> Iterator[ClosedSegment]:
    """Yields a segment for what each object holds of [start, end)."""
    for at in range(first_holding(stream.ranges, start), len(stream.ranges)):
        held = stream.ranges[at]
        if held.start_offset >= end:
            return
        first, last = max(held.start_offset, start), min(held.end_offset, end)
        size_bytes = held.size_bytes * (last - first) // (held.end_offset - held.start_offset)
        metadata = objects[held.object_id]
        yield ClosedSegment(
            first,
            last,
            size_bytes,
            1,
            held.largest_timestamp_ms,
            metadata.data_time_ms,
            metadata.committed_ms,
        )


def _cut(pieces: list[ClosedSegment], segment_bytes: int, closed: list[ClosedSegment]) -> list[ClosedSegment]:
    """Appends full segments to ``closed``, and returns the pieces after the last cut."""
    left: list[ClosedSegment] = []
    size_bytes = 0
    for piece in pieces:
        left.append(piece)
        size_bytes += piece.size_bytes
        if size_bytes >= segment_bytes:
            closed.append(_joined(left))
            left, size_bytes = [], 0
    return left


def _joined(pieces: list[ClosedSegment]) -> ClosedSegment:
    joined = pieces[0]
    for piece in pieces[1:]:
        joined = joined.joined(piece)
    return joined


def _active(segment: ClosedSegment) -> ActiveSegment:
    return ActiveSegment(
        segment.start_offset,
        segment.end_offset,
        segment.size_bytes,
        segment.batch_count,
        segment.largest_timestamp_ms,
        segment.opened_ms,
    )
