from itertools import pairwise

import msgspec
import pytest

from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.object_formats.block_join import join_blocks
from support.batches import batch, build_object


def two_blocks_and_one(*batches):
    """The entries of an object of one block per batch, and the entry of one block of them all."""
    apart = build_object(batches, block_size_bytes=1).entries
    together = build_object(batches, block_size_bytes=2**40).entries
    assert len(apart) == len(batches)
    assert len(together) == 1
    return apart, together[0]


def test_joined_entry_is_that_of_the_block_built_directly():
    apart, together = two_blocks_and_one(
        batch(base_offset=10, count=5, payload_bytes=1000, timestamp_ms=77),
        batch(base_offset=15, count=1, payload_bytes=0, timestamp_ms=5),
        batch(base_offset=16, count=4, payload_bytes=333, timestamp_ms=900, offsets=100),
    )
    assert join_blocks(apart, position=0) == together


def test_a_block_alone_only_moves():
    (only,), together = two_blocks_and_one(batch())
    assert join_blocks([only], position=2**40) == msgspec.structs.replace(together, position=2**40)


@pytest.mark.parametrize(
    ("first", "second", "smallest", "largest"),
    [(NO_TIMESTAMP, 8, 8, 8), (8, NO_TIMESTAMP, 8, 8), (NO_TIMESTAMP, NO_TIMESTAMP, -1, -1), (9, 4, 4, 9)],
)
def test_no_timestamp_is_not_the_smallest(first, second, smallest, largest):
    apart, together = two_blocks_and_one(
        batch(base_offset=0, timestamp_ms=first), batch(base_offset=1, timestamp_ms=second)
    )
    joined = join_blocks(apart, position=0)
    assert joined == together
    assert (joined.smallest_timestamp_ms, joined.largest_timestamp_ms) == (smallest, largest)


def test_t12_blocks_spanning_more_than_32_bits_of_offsets_join():
    """T12 forbids the join because AutoMQ's delta is 32 bits wide. Ours is 64: joined, and nothing lost."""
    apart, together = two_blocks_and_one(
        batch(base_offset=0, offsets=2**31), batch(base_offset=2**31, offsets=2**32)
    )
    joined = join_blocks(apart, position=0)
    assert joined == together
    assert joined.end_offset == 2**31 + 2**32


@pytest.mark.parametrize(
    "batches",
    [
        [batch(stream_id=1), batch(stream_id=2)],
        [batch(base_offset=0), batch(base_offset=2)],
        [batch(stream_id=1, base_offset=0), batch(stream_id=2, base_offset=1)],
    ],
)
def test_strangers_and_gaps_are_a_planners_bug(batches):
    entries = build_object(batches, block_size_bytes=1).entries
    assert len(list(pairwise(entries))) == 1
    with pytest.raises(AssertionError):
        join_blocks(entries, position=0)


def test_nothing_cannot_be_joined():
    with pytest.raises(AssertionError):
        join_blocks([], position=0)
