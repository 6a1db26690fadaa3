import pytest

from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.stream_engine.tail.cache_block import CacheBlock, CachedBatch
from siltstone.stream_engine.upload.upload_plan import encode_object, new_object, plan_upload
from support.engine.batches import batch

MIB = 1024 * 1024
A, B = 233, 234


def block_of(*content: tuple[int, int, int, int]) -> CacheBlock:
    block = CacheBlock()
    for position, (stream_id, offset, count, payload_bytes) in enumerate(content):
        one = batch(stream_id, offset, count, payload_bytes)
        block.put(CachedBatch(one, encode_frame_header(one)), position)
    return block


ROW_1 = ((A, 10, 2, 512), (A, 12, 2, 128), (A, 14, 2, 512), (B, 20, 2, 128), (B, 22, 2, 128))


@pytest.mark.parametrize(
    ("content", "split", "first_id", "set_ranges", "own_ranges"),
    [
        (ROW_1, 1000, 10, (10, [(B, 20, 24)]), [(11, A, 10, 16)]),
        (((A, 10, 2, 512),), 16 * MIB, 0, None, [(0, A, 10, 12)]),
        (((A, 0, 1, 512), (B, 0, 1, 128)), 64, 5, None, [(5, A, 0, 1), (6, B, 0, 1)]),
        (
            ((A, 10, 1, 8), (A, 11, 2, 8), (B, 100, 1, 8)),
            16 * MIB,
            16,
            (16, [(A, 10, 13), (B, 100, 101)]),
            [],
        ),
    ],
)
def test_t14_upload_task(content, split, first_id, set_ranges, own_ranges):
    block = block_of(*content)
    plan = plan_upload(block.streams, split)
    assert plan.objects == bool(set_ranges) + len(own_ranges)
    groups = ([plan.set_streams] if plan.set_streams else []) + [(one,) for one in plan.object_streams]
    made = [
        new_object(encode_object(block.streams, group, 1024), object_id)
        for object_id, group in enumerate(groups, start=first_id)
    ]
    ranges = [[(r.object_id, r.stream_id, r.start_offset, r.end_offset) for r in new.ranges] for new in made]
    if set_ranges:
        object_id, held = set_ranges
        assert ranges.pop(0) == [(object_id, *one) for one in held]
    assert ranges == [[one] for one in own_ranges]


def test_streams_are_in_order_of_their_ids_whatever_the_order_of_appends():
    block = block_of((9, 0, 1, 10), (3, 0, 1, 2000), (5, 0, 1, 10), (1, 0, 1, 2000))
    plan = plan_upload(block.streams, 1000)
    assert plan.set_streams == (5, 9)
    assert plan.object_streams == (1, 3)


def test_a_stream_with_as_much_as_the_split_size_is_large():
    block = block_of((1, 0, 1, 1000), (2, 0, 1, 999))
    assert plan_upload(block.streams, 1000).object_streams == (1,)


def test_two_small_streams_share_one_object():
    plan = plan_upload(block_of((1, 0, 1, 10), (2, 0, 1, 10)).streams, 1000)
    assert (plan.set_streams, plan.object_streams, plan.objects) == ((1, 2), (), 1)
    alone = plan_upload(block_of((1, 0, 1, 10)).streams, 1000)
    assert (alone.set_streams, alone.object_streams, alone.objects) == ((), (1,), 1)
