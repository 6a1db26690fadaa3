"""The bytes of the objects of an upload plan, and what their commit says (pure)."""

from collections.abc import Mapping, Sequence

from siltstone.metadata.commands import NewObject
from siltstone.object_formats.object_layout import EncodedObject, ObjectBuilder
from siltstone.object_formats.object_ranges import ranges_of_entries
from siltstone.stream_engine.tail.cached_batch import CachedBatch


def encode_object(
    streams: Mapping[int, Sequence[CachedBatch]], stream_ids: Sequence[int], block_size_bytes: int
) -> EncodedObject:
    builder = ObjectBuilder(block_size_bytes)
    for stream_id in stream_ids:
        for cached in streams[stream_id]:
            builder.append(cached.batch, cached.frame_header)
    return builder.finish()


def new_object(encoded: EncodedObject, object_id: int) -> NewObject:
    return NewObject(object_id, encoded.size_bytes, ranges_of_entries(encoded.entries, object_id))
