"""Has pure functions on the metadata of one stream: steps from one StreamMetadata to the next, and its ranges.

Invariants: start, end and cleaned offset never move back; the ranges of a stream are one tuple, sorted by offset,
without overlap. The decisions and ``applying`` use these functions.
"""

from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from operator import attrgetter

from msgspec.structs import replace

from siltstone.metadata.entities import (
    NO_EPOCH,
    NO_NODE,
    SINK_NODE,
    OwnerRange,
    StreamMetadata,
    StreamState,
)
from siltstone.model.objects import ObjectRange
from siltstone.model.segments import ClosedSegment

Ranges = tuple[ObjectRange, ...]

_start_offset = attrgetter("start_offset")


def created(stream_id: int, tags: dict[str, str]) -> StreamMetadata:
    return StreamMetadata(
        stream_id=stream_id,
        state=StreamState.CLOSED,
        epoch=NO_EPOCH,
        owner=NO_NODE,
        start_offset=0,
        end_offset=0,
        owner_ranges=(),
        ranges=(),
        tags=tags,
    )


def opened(stream: StreamMetadata, epoch: int, node_id: int) -> StreamMetadata:
    """Opens the stream. A new owner or epoch begins a new owner range at the stream's end; empty ones are removed."""
    owners = stream.owner_ranges
    if (epoch, node_id) != (stream.epoch, stream.owner):
        new = OwnerRange(node_id, epoch, stream.end_offset, stream.end_offset)
        owners = (*(held for held in owners if held.start_offset < held.end_offset), new)
    return replace(stream, state=StreamState.OPENED, epoch=epoch, owner=node_id, owner_ranges=owners)


def closed(stream: StreamMetadata) -> StreamMetadata:
    return replace(stream, state=StreamState.CLOSED)


def deleted(stream: StreamMetadata) -> StreamMetadata:
    return replace(stream, state=StreamState.DELETED)


def trimmed(stream: StreamMetadata, start_offset: int) -> StreamMetadata:
    start = max(stream.start_offset, start_offset)
    end = max(stream.end_offset, start)
    owners = _trimmed_owners(stream.owner_ranges, start)
    segments = tuple(each for each in stream.segments if each.end_offset > start)
    return replace(stream, start_offset=start, end_offset=end, owner_ranges=owners, segments=segments)


def _trimmed_owners(owners: tuple[OwnerRange, ...], start: int) -> tuple[OwnerRange, ...]:
    """Removes the owner ranges wholly below the start, but not the last: it names the owner of the next offsets."""
    kept = (held for held in owners if held.end_offset > start or held is owners[-1])
    return tuple(
        replace(held, start_offset=max(held.start_offset, start), end_offset=max(held.end_offset, start))
        for held in kept
    )


def rolled(stream: StreamMetadata, segment: ClosedSegment) -> StreamMetadata:
    assert segment.start_offset >= stream.active_offset, (
        f"{segment} overlaps the segments of {stream.stream_id}"
    )
    return replace(stream, segments=(*stream.segments, segment))


def cleaned(stream: StreamMetadata, cleaned_offset: int) -> StreamMetadata:
    return replace(stream, cleaned_offset=max(stream.cleaned_offset, cleaned_offset))


def advanced(stream: StreamMetadata, end_offset: int) -> StreamMetadata:
    if end_offset <= stream.end_offset:
        return stream
    last = replace(stream.owner_ranges[-1], end_offset=end_offset)
    return replace(stream, end_offset=end_offset, owner_ranges=(*stream.owner_ranges[:-1], last))


def loaded(stream: StreamMetadata, epoch: int, end_offset: int) -> StreamMetadata:
    """Returns the closed stream with the offsets that a sink has appended under ``epoch``."""
    assert stream.state is StreamState.CLOSED, f"stream {stream.stream_id} is not closed"
    return closed(advanced(opened(stream, epoch, SINK_NODE), end_offset))


def load_epoch(stream: StreamMetadata) -> int:
    """Returns the epoch under which a sink appends to the stream: the present one if a sink was the last to append, and
    otherwise the next, so that many batches make one owner range."""
    return stream.epoch if stream.owner == SINK_NODE else stream.epoch + 1


def inserted(ranges: Ranges, new: ObjectRange) -> Ranges:
    """Returns the ranges with one more, which nearly always belongs at the end."""
    if not ranges or ranges[-1].end_offset <= new.start_offset:
        return (*ranges, new)
    at = bisect_right(ranges, new.start_offset, key=_start_offset)
    assert at == 0 or ranges[at - 1].end_offset <= new.start_offset, f"{new} overlaps {ranges[at - 1]}"
    assert new.end_offset <= ranges[at].start_offset, f"{new} overlaps {ranges[at]}"
    return (*ranges[:at], new, *ranges[at:])


def without_objects(ranges: Ranges, object_ids: Container[int]) -> Ranges:
    return tuple(held for held in ranges if held.object_id not in object_ids)


def first_holding(ranges: Sequence[ObjectRange], offset: int) -> int:
    """Returns the index of the range that holds the offset, or the number of ranges when none does."""
    at = bisect_right(ranges, offset, key=_start_offset) - 1
    return at if at >= 0 and offset < ranges[at].end_offset else len(ranges)


def is_live(stream: StreamMetadata | None, held: ObjectRange) -> bool:
    """Returns whether a reader may still read an offset of the range. ``stream`` is None when it was deleted and
    forgotten."""
    return (
        stream is not None
        and stream.state is not StreamState.DELETED
        and held.end_offset > stream.start_offset
    )


def joined(ranges: Iterable[ObjectRange]) -> list[tuple[int, int]]:
    """Returns the extents [start, end) of sorted ranges of one stream: ranges that touch or overlap are joined."""
    extents: list[tuple[int, int]] = []
    for held in ranges:
        if extents and extents[-1][1] >= held.start_offset:
            extents[-1] = (extents[-1][0], max(extents[-1][1], held.end_offset))
        else:
            extents.append((held.start_offset, held.end_offset))
    return extents
