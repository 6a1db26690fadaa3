"""Streams with closed segments and objects, made by hand: what retention looks at."""

from collections.abc import Iterable, Sequence

from siltstone.metadata.entities import NO_NODE, ObjectMetadata, StreamMetadata, StreamState
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState
from siltstone.model.segments import ClosedSegment

NOW_MS = 1_700_000_000_000
FIRST_OBJECT = 100


def closed_segments(
    *sizes_and_ages: tuple[int, int], offsets_each: int = 10, closed_later_ms: int = 0
) -> tuple[ClosedSegment, ...]:
    """Segments, each with its bytes and the age of its newest record. It was closed at that time, or so much later."""
    return tuple(
        ClosedSegment(
            number * offsets_each,
            (number + 1) * offsets_each,
            size_bytes,
            1,
            NOW_MS - age_ms,
            NOW_MS - age_ms,
            NOW_MS - age_ms + closed_later_ms,
        )
        for number, (size_bytes, age_ms) in enumerate(sizes_and_ages)
    )


def segmented(
    segments: Sequence[ClosedSegment] = (),
    active: Iterable[tuple[int, int]] = (),
    *,
    start: int = 0,
    end: int | None = None,
    stream_id: int = 0,
    state: StreamState = StreamState.CLOSED,
    cleaned: int = 0,
    committed_ms: int = 0,
) -> tuple[StreamMetadata, dict[int, ObjectMetadata]]:
    """A stream and the objects that hold it: one for each closed segment, then those of ``active``, ten offsets each,
    by (bytes, age of the newest record). ``end`` cuts off what is not committed yet."""
    ranges = [
        ObjectRange(stream_id, 0, one.start_offset, one.end_offset, one.size_bytes, one.largest_timestamp_ms)
        for one in segments
    ]
    at = segments[-1].end_offset if segments else start
    for size_bytes, age_ms in active:
        ranges.append(ObjectRange(stream_id, 0, at, at + 10, size_bytes, NOW_MS - age_ms))
        at += 10
    end = at if end is None else end
    held = tuple(
        ObjectRange(stream_id, FIRST_OBJECT * (stream_id + 1) + number, one.start_offset, min(end, one.end_offset),
                    one.size_bytes, one.largest_timestamp_ms)
        for number, one in enumerate(ranges)
        if one.start_offset < end
    )  # fmt: skip
    stream = StreamMetadata(
        stream_id=stream_id, state=state, epoch=0, owner=NO_NODE, start_offset=start, end_offset=end,
        owner_ranges=(), ranges=held, tags={}, segments=tuple(segments), cleaned_offset=cleaned,
    )  # fmt: skip
    return stream, {one.object_id: _object(one, committed_ms) for one in held}


def _object(held: ObjectRange, committed_ms: int) -> ObjectMetadata:
    written_ms = committed_ms or held.largest_timestamp_ms
    return ObjectMetadata(
        object_id=held.object_id, state=ObjectState.COMMITTED, bucket_id=0, kind=ObjectKind.STREAM_OBJECT,
        size_bytes=held.size_bytes, deadline_ms=0, committed_ms=written_ms, destroyed_ms=0, data_time_ms=written_ms,
        ranges=(held,),
    )  # fmt: skip
