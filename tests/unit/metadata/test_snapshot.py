import pytest
from msgspec.structs import replace

from siltstone.foundation.sharded_map import SHARD_COUNT, ShardedMap
from siltstone.metadata.commands import (
    SHARED_PIN,
    AddPartitions,
    AlterTopicConfigs,
    CloseStream,
    CreateTopic,
    DeleteStream,
    DeleteTopic,
    ExpireObjects,
    ForgetObjects,
    PinScan,
    PutKey,
    TakeNumbers,
    TrimStream,
    UnpinScan,
)
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import FrameDamaged, seal
from siltstone.metadata.snapshot import (
    CHUNK_MAGIC,
    CHUNK_WEIGHT,
    SnapshotIncomplete,
    SnapshotPartUnknown,
    decode_snapshot,
    encode_snapshot,
)
from siltstone.metadata.streams import created
from support.metadata.metadata_records import TOPIC_ID
from support.metadata.metadata_world import MetadataWorld, object_range


def round_trip(image: MetadataImage) -> MetadataImage:
    return decode_snapshot(image.version, encode_snapshot(image))


@pytest.fixture
def world() -> MetadataWorld:
    """A little of everything: end offset 300 with ranges up to 200, a deleted stream, objects in every state."""
    made = MetadataWorld()
    made.register(0)
    made.register(1)
    for _ in range(3):
        made.open_stream()
    made.do(made.upload((0, 0, 100), (1, 0, 7)))
    made.do(made.upload(alone=((0, 100, 200),)))
    made.do(TrimStream(0, 1, 0, 0, 300))
    made.do(made.upload((2, 0, 50)))
    made.do(CloseStream(0, 1, 1, 0))
    made.do(DeleteStream(0, 1, 1, 0))
    made.prepare(2)
    made.now_ms += 3_600_000
    made.do(ExpireObjects(1))
    made.do(PutKey("k", b"\x00v"))
    made.start_job()
    made.do(CreateTopic(0, 1, "gone", "0" * 32, 1))
    made.do(DeleteTopic(0, 1, "0" * 32))
    made.do(CreateTopic(0, 1, "flights", TOPIC_ID, 2, 3, {"a": "1"}, True))
    made.do(AddPartitions(0, 1, TOPIC_ID, 3))
    made.do(AlterTopicConfigs(TOPIC_ID, {"b": "2"}))
    made.do(TakeNumbers("s", 2**40))
    made.do(PinScan("query", 60_000, "a query"))
    made.do(PinScan(SHARED_PIN, 60_000))
    return made


def test_t30_round_trip(world) -> None:
    assert round_trip(world.image) == world.image
    assert world.ends(0) == (300,)
    assert dict(round_trip(world.image).topic_ids) == {"flights": TOPIC_ID}


def test_sr28_pins_and_versions_of_destruction_outlive_a_snapshot(world) -> None:
    loaded = round_trip(world.image)
    assert len(loaded.pins) == 2 and loaded.pins["query"].version == world.image.version - 1
    (destroyed,) = loaded.destroyed
    assert 0 < loaded.objects[destroyed].destroyed_version < loaded.pins["query"].version


def test_rule_7_ids_of_what_is_gone_are_not_given_out_again_after_a_snapshot(world) -> None:
    """The youngest stream, object and job are forgotten; a late writer of theirs must not meet their successors."""
    empty = world.open_stream()
    world.do(CloseStream(0, 1, empty, 0))
    world.do(DeleteStream(0, 1, empty, 0))
    youngest = world.prepare(3)
    world.now_ms += 3_600_000
    expired = world.do(ExpireObjects(100))
    for token in [*world.image.pins]:
        world.do(UnpinScan(token))
    world.do(ForgetObjects(expired, 0))
    assert empty not in world.image.streams and youngest + 2 not in world.image.objects
    world.image = round_trip(world.image)
    assert world.open_stream() == empty + 1
    assert world.prepare() == youngest + 3
    assert world.start_job("another kind") == 1


def test_t30_entries_absent_from_a_snapshot_are_gone(world) -> None:
    world.do(world.compaction(0, (0, 1)))
    assert 1 not in world.image.streams
    again = round_trip(world.image)
    assert again == world.image and 1 not in again.streams


def test_t30_more_than_one_chunk() -> None:
    """10,003 rows, as the original's responsibilities, in chunks of 10,000 and 3; ours are streams."""
    image = MetadataImage(
        version=7, streams=ShardedMap((n, created(n, {"n": str(n)})) for n in range(10_003))
    )
    chunks = list(encode_snapshot(image))
    assert CHUNK_WEIGHT == 10_000 and len(chunks) == 1 + 2
    assert decode_snapshot(7, chunks) == image


def test_no_chunk_is_giant() -> None:
    """Neither many ranges to an object nor large values make one; a single row may."""
    world = MetadataWorld()
    world.register(0)
    for _ in range(4_000):
        world.open_stream()
    for start in range(5):
        world.do(world.upload(*((n, start, start + 1) for n in range(4_000))))
    for number in range(10):
        world.do(PutKey(f"k{number}", bytes(100_000)))
    chunks = list(encode_snapshot(world.image))
    assert len(chunks) == 1 + 1 + 3 + 1 + 4
    assert max(map(len, chunks)) < 400_000
    assert round_trip(world.image) == world.image


def test_topics_with_many_partitions_share_no_chunk() -> None:
    world = MetadataWorld()
    world.register(0)
    for number in range(3):
        world.do(CreateTopic(0, 1, f"t{number}", f"{number:032x}", 4_000))
    world.do(AlterTopicConfigs(f"{2:032x}", {"k": "v" * 60_000}))
    chunks = list(encode_snapshot(world.image))
    assert len(chunks) == 1 + 3 + 1 + 2
    assert max(map(len, chunks)) < 600_000
    assert round_trip(world.image) == world.image


def test_the_empty_image() -> None:
    assert round_trip(MetadataImage()) == MetadataImage()


def test_ranges_are_shared_after_loading(world) -> None:
    image = round_trip(world.image)
    for stream in image.streams.values():
        for held in stream.ranges:
            assert any(held is one for one in image.objects[held.object_id].ranges)


def test_equal_images_give_equal_bytes_whatever_order_they_came_in() -> None:
    """Two processes may save the same version, one chunk each. The ids share a shard of the map."""
    streams = [(n * SHARD_COUNT, created(n * SHARD_COUNT, {})) for n in range(5)]
    one = MetadataImage(version=3, streams=ShardedMap(streams))
    other = MetadataImage(version=3, streams=ShardedMap(reversed(streams)))
    assert list(one.streams) != list(other.streams) and one == other
    assert list(encode_snapshot(one)) == list(encode_snapshot(other))


def test_ranges_are_sorted_by_offset_though_younger_objects_hold_older_offsets() -> None:
    world = MetadataWorld()
    world.register(0)
    world.open_stream()
    world.do(world.upload((0, 0, 10)))
    world.do(world.upload((0, 10, 20)))
    world.do(world.compaction(world.start_job(), (0,), alone=((0, 0, 10),)))
    assert [held.object_id for held in round_trip(world.image).streams[0].ranges] == [2, 1]


def test_incomplete_snapshots_are_named(world) -> None:
    chunks = list(encode_snapshot(world.image))
    version = world.image.version
    for broken in (
        [],
        chunks[1:],
        chunks[:-1],
        chunks[:1] + chunks[2:],
        [chunks[1], chunks[0], *chunks[2:]],
        [*chunks, chunks[-1]],
    ):
        with pytest.raises(SnapshotIncomplete):
            decode_snapshot(version, broken)
    with pytest.raises(SnapshotIncomplete):
        decode_snapshot(version + 1, chunks)


def test_damaged_and_unknown_chunks_are_named(world) -> None:
    chunks = list(encode_snapshot(world.image))
    damaged = bytearray(chunks[2])
    damaged[-1] ^= 1
    with pytest.raises(FrameDamaged):
        decode_snapshot(world.image.version, [*chunks[:2], bytes(damaged), *chunks[3:]])
    unknown = seal(CHUNK_MAGIC, bytes(16), b"\x91\x63")
    with pytest.raises(SnapshotPartUnknown):
        decode_snapshot(0, [unknown])


def test_a_range_belongs_to_its_stream_only() -> None:
    """A snapshot whose objects name a stream it lacks does not load as if it were whole."""
    world = MetadataWorld()
    world.register(0)
    world.open_stream()
    world.do(world.upload((0, 0, 10)))
    lost = replace(world.image, streams=ShardedMap())
    with pytest.raises(SnapshotIncomplete):
        round_trip(lost)
    assert object_range(0, 0, 0, 10) == world.image.objects[0].ranges[0]
