"""Plans an upload: which objects a sealed cache block becomes, and their bytes. Pure.

A stream whose bytes in the block reach the split size gets a stream object of its own; all other streams share one
stream set object. A block of a single stream never makes a stream set object (T14).
"""

from collections.abc import Mapping, Sequence

import msgspec

from siltstone.metadata.commands import NewObject
from siltstone.object_formats.object_layout import EncodedObject, ObjectBuilder, ranges_of_entries
from siltstone.stream_engine.tail.cache_block import CachedBatch


class UploadPlan(msgspec.Struct, frozen=True):
    """``set_streams`` are put into the stream set object, each of ``object_streams`` into a stream object of its own;
    both are sorted by id. The stream set object gets the first prepared id, the stream objects the following ones."""

    set_streams: tuple[int, ...]
    object_streams: tuple[int, ...]

    @property
    def objects(self) -> int:
        return bool(self.set_streams) + len(self.object_streams)


def plan_upload(streams: Mapping[int, Sequence[CachedBatch]], split_size_bytes: int) -> UploadPlan:
    own: list[int] = []
    shared: list[int] = []
    for stream_id in sorted(streams):
        is_large = stream_bytes(streams[stream_id]) >= split_size_bytes
        (own if is_large or len(streams) == 1 else shared).append(stream_id)
    return UploadPlan(tuple(shared), tuple(own))


def stream_bytes(batches: Sequence[CachedBatch]) -> int:
    return sum(len(cached.batch.payload) for cached in batches)


def encode_object(
    streams: Mapping[int, Sequence[CachedBatch]], stream_ids: Sequence[int], block_size_bytes: int
) -> EncodedObject:
    builder = ObjectBuilder(block_size_bytes)
    for stream_id in stream_ids:
        for cached in streams[stream_id]:
            builder.append(cached.batch, cached.frame_header)
    return builder.finish()


def new_object(encoded: EncodedObject, object_id: int, bucket_ids: tuple[int, ...] = ()) -> NewObject:
    ranges = ranges_of_entries(encoded.entries, object_id)
    return NewObject(object_id, encoded.size_bytes, ranges, bucket_ids)
