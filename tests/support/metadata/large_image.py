"""A large image built without deciding: streams with stream objects, and stream set objects over many streams."""

from collections import defaultdict

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import ObjectMetadata, OwnerRange, StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState

OFFSETS_EACH = 1_000
EPOCH_MS = 1_700_000_000_000


def large_image(stream_count: int, object_count: int, streams_per_set: int = 200) -> MetadataImage:
    """One object in a hundred is a stream set object."""
    ends: defaultdict[int, int] = defaultdict(int)
    held: defaultdict[int, list[ObjectRange]] = defaultdict(list)
    objects: list[ObjectMetadata] = []
    for object_id in range(object_count):
        is_set = object_id % 100 == 0
        first = object_id * 7919 % stream_count
        members = [(first + n) % stream_count for n in range(streams_per_set if is_set else 1)]
        ranges = []
        for stream_id in sorted(members):
            start = ends[stream_id]
            ends[stream_id] = start + OFFSETS_EACH
            made = ObjectRange(
                stream_id, object_id, start, ends[stream_id], 16_000_000 + stream_id, EPOCH_MS + start
            )
            held[stream_id].append(made)
            ranges.append(made)
        objects.append(_committed(object_id, is_set, tuple(ranges)))
    streams = (_stream(stream_id, ends[stream_id], held[stream_id]) for stream_id in range(stream_count))
    return MetadataImage(
        version=1,
        next_stream_id=stream_count,
        next_object_id=object_count,
        streams=ShardedMap((stream.stream_id, stream) for stream in streams),
        objects=ShardedMap((row.object_id, row) for row in objects),
    )


def _committed(object_id: int, is_set: bool, ranges: tuple[ObjectRange, ...]) -> ObjectMetadata:
    return ObjectMetadata(
        object_id=object_id,
        state=ObjectState.COMMITTED,
        bucket_id=0,
        kind=ObjectKind.STREAM_SET_OBJECT if is_set else ObjectKind.STREAM_OBJECT,
        size_bytes=sum(one.size_bytes for one in ranges),
        deadline_ms=0,
        committed_ms=EPOCH_MS + object_id,
        destroyed_ms=0,
        data_time_ms=EPOCH_MS + object_id,
        ranges=ranges,
    )


def _stream(stream_id: int, end: int, ranges: list[ObjectRange]) -> StreamMetadata:
    return StreamMetadata(
        stream_id=stream_id,
        state=StreamState.OPENED,
        epoch=0,
        owner=0,
        start_offset=0,
        end_offset=end,
        owner_ranges=(OwnerRange(0, 0, 0, end),),
        ranges=tuple(ranges),
        tags={"topic": f"topic-{stream_id // 10}", "partition": str(stream_id % 10)},
    )
