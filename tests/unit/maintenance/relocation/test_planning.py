"""The plan: which objects are relocated, and the parts of a copy."""

import msgspec
import pytest

from siltstone.maintenance.relocation import planning
from siltstone.maintenance.relocation.planning import WholeObject, objects_to_move, tail_position
from siltstone.metadata.buckets import AddBucket, RegisterBuckets, SetBucketState
from siltstone.metadata.commands import CommitUpload, PrepareObjects
from siltstone.model.buckets import BucketState
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.object_formats.object_layout import ObjectBuilder
from siltstone.object_store.buckets import read_index
from siltstone.object_store.memory import MemoryStore
from siltstone.offline.blocks.columns import Source, SourceUnusable
from siltstone.runtime.clock import ManualClock
from support.engine.batches import batch
from support.metadata.metadata_world import MetadataWorld, new_object


def world_with_two_buckets() -> tuple[MetadataWorld, int]:
    world = MetadataWorld()
    world.do(RegisterBuckets({0: "memory:a"}, 0))
    world.do(AddBucket("memory:b"))
    world.do(SetBucketState(1, BucketState.WRITABLE))
    world.register(0)
    return world, world.open_stream()


def test_the_committed_objects_of_buckets_that_are_drained() -> None:
    world, stream = world_with_two_buckets()
    for start, bucket_id in enumerate([1, 0, 1]):
        object_id = world.do(PrepareObjects(1, 60_000, bucket_id, 0, 1))
        world.do(CommitUpload(0, 1, None, (new_object(object_id, (stream, start, start + 1)),)))
    world.do(PrepareObjects(1, 60_000, 1, 0, 1))
    assert objects_to_move(world.image) == []
    world.do(SetBucketState(1, BucketState.DRAINING))
    moved = objects_to_move(world.image)
    assert [(each.name, each.bucket_id) for each in moved] == [("object 0", 1), ("object 2", 1)]


def written(streams: int, batches: int, block_bytes: int = 200) -> tuple[Source, bytes]:
    """Makes an object of several streams; returns the source and the bytes."""
    builder = ObjectBuilder(block_bytes)
    for stream_id in range(streams):
        for number in range(batches):
            made = batch(stream_id, number, 1, payload_bytes=100)
            builder.append(made, encode_frame_header(made))
    encoded = builder.finish()
    store = MemoryStore(ManualClock())
    store.put("key", encoded.buffers)
    data = store.get_range("key", 0, encoded.size_bytes)
    world, _ = world_with_two_buckets()
    for _ in range(streams - 1):
        world.open_stream()
    object_id = world.do(PrepareObjects(1, 60_000, 1, 0, 1))
    held = new_object(object_id, *((stream_id, 0, batches) for stream_id in range(streams)))
    held = msgspec.structs.replace(held, size_bytes=len(data))
    world.do(CommitUpload(0, 1, held))
    return Source(world.image.objects[object_id], read_index(store, "key", len(data))), data


@pytest.mark.parametrize("part_bytes", [1, 150, 1_000, 10**6])
def test_a_copy_has_every_byte_once_in_parts_of_whole_blocks(
    part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "READ_REQUEST_BYTES_MAX", part_bytes)
    source, data = written(3, 7)
    whole = WholeObject(source, data[tail_position(source) :])
    assert whole.size_bytes == len(data) and whole.is_put == (part_bytes == 10**6)
    copied = b""
    for number, part in enumerate(whole.parts, start=1):
        blocks = whole.blocks_of(part)
        assert (part.part_number, part.position) == (number, len(copied))
        copied += b"".join(data[row["position"] : row["position"] + row["size_bytes"]] for row in blocks)
        copied += part.trailer
        assert whole.part_bytes(part) == len(copied) - part.position
        assert number == len(whole.parts) or len(copied) - part.position >= part_bytes
    assert copied == data


def test_the_copy_has_the_ranges_of_its_object() -> None:
    source, data = written(2, 3)
    made = WholeObject(source, data[tail_position(source) :]).new_object(99)
    assert (made.object_id, made.size_bytes) == (99, len(data))
    assert [msgspec.structs.replace(each, object_id=source.metadata.object_id) for each in made.ranges] == [
        *source.metadata.ranges
    ]


def test_an_object_with_bytes_that_no_block_names_is_left_alone() -> None:
    source, data = written(2, 3)
    with pytest.raises(SourceUnusable, match="bytes that its index does not name"):
        WholeObject(source, data[tail_position(source) + 1 :])
