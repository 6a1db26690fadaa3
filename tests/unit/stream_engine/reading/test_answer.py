import msgspec
import pytest

from siltstone.foundation.crc32c import crc32c
from siltstone.object_formats.batch_frame import DamagedFrame
from siltstone.stream_engine.reading.answer import Answer
from siltstone.stream_engine.reading.block_cache import Block
from support.engine.batches import batch, build_object, frames


def block_of(batches, object_id: int = 1) -> Block:
    entry = build_object(batches, block_size_bytes=1 << 30).entries[0]
    return Block(object_id, entry, frames(batches))


BATCHES = [batch(1, 10, 5, 100), batch(1, 15, 5, 50), batch(1, 20, 5, 200)]


@pytest.mark.parametrize(
    ("start", "end", "bytes_max", "taken", "next_offset", "is_full"),
    [
        (10, 25, 10_000, [0, 1, 2], 25, True),
        (10, 26, 10_000, [0, 1, 2], 25, False),
        (12, 25, 10_000, [0, 1, 2], 25, True),
        (15, 25, 10_000, [1, 2], 25, True),
        (24, 25, 10_000, [2], 25, True),
        (10, 15, 10_000, [0], 15, True),
        (10, 16, 10_000, [0, 1], 20, True),
        (10, 99, 100, [0], 15, True),
        (10, 99, 149, [0], 15, True),
        (10, 99, 150, [0, 1], 20, True),
        (10, 99, 350, [0, 1, 2], 25, True),
        (10, 99, 351, [0, 1, 2], 25, False),
        (10, 99, 1, [0], 15, True),
        (20, 99, 0, [2], 25, True),
    ],
)
def test_batches_from_start_to_end_within_the_bytes(start, end, bytes_max, taken, next_offset, is_full):
    answer = Answer(start, end, bytes_max)
    passed = answer.take(block_of(BATCHES))
    assert answer.batches == [BATCHES[number] for number in taken]
    assert (answer.next_offset, answer.is_full) == (next_offset, is_full)
    assert passed is (next_offset == 25)


def test_an_empty_range_is_full_at_once():
    assert Answer(5, 5, 100).is_full


def test_payloads_are_views_of_the_block():
    block = block_of(BATCHES)
    answer = Answer(10, 25, 10_000)
    answer.take(block)
    assert all(one.payload.obj is block.data.obj for one in answer.batches)


def test_it_goes_on_over_blocks():
    answer = Answer(12, 30, 10_000)
    assert answer.take(block_of(BATCHES[:2]))
    assert not answer.is_full
    assert answer.take(block_of([BATCHES[2], batch(1, 25, 9)]))
    assert answer.is_full
    assert [one.base_offset for one in answer.batches] == [10, 15, 20, 25]


def test_removed_offsets_give_the_next_batch():
    """Key compaction removes records and keeps offsets: blocks with holes, batches that end after their last record."""
    batches = [batch(1, 10, 1), batch(1, 18, 2, offsets=7)]
    entry = build_object(batches[:1]).entries[0]
    raw = frames(batches)
    hollow = Block.__new__(Block)
    hollow.object_id, hollow.entry, hollow.data = (
        1,
        type(entry)(1, 10, 25, 3, 0, len(raw), 0, 0, 0),
        memoryview(raw),
    )
    hollow.fetched_for, hollow.resume_offset, hollow.resume_position = None, 10, 0
    answer = Answer(13, 30, 10_000)
    answer.take(hollow)
    assert answer.batches == [batches[1]]
    assert answer.next_offset == 25
    tail = Answer(24, 30, 10_000)
    tail.take(hollow)
    assert tail.batches == [batches[1]]


def test_a_small_read_remembers_where_the_next_one_begins():
    batches = [batch(1, offset, 1, 10) for offset in range(50)]
    block = block_of(batches)
    positions = []
    for offset in range(50):
        answer = Answer(offset, 99, 10)
        answer.take(block)
        assert answer.batches == [batches[offset]]
        positions.append((block.resume_offset, block.resume_position))
    assert positions[:49] == [(offset + 1, (offset + 1) * 82) for offset in range(49)]


def test_a_read_before_the_remembered_place_begins_at_the_beginning():
    block = block_of(BATCHES)
    Answer(20, 22, 1).take(block)
    late = Answer(10, 99, 100)
    late.take(block)
    assert block.resume_offset == 15
    early = Answer(11, 99, 10_000)
    early.take(block)
    assert early.batches == BATCHES


def test_batches_before_a_damaged_frame_are_taken_and_counted():
    data = frames(BATCHES)
    damaged = data[: len(frames(BATCHES[:2])) + 3] + b"damage" + data[len(frames(BATCHES[:2])) + 9 :]
    entry = build_object(BATCHES, block_size_bytes=1 << 30).entries[0]
    block = Block(1, msgspec.structs.replace(entry, crc32c=crc32c([damaged])), damaged)
    answer = Answer(10, 99, 10_000)
    with pytest.raises(DamagedFrame):
        answer.take(block)
    assert answer.batches == BATCHES[:2]
    assert (answer.next_offset, answer.bytes_left, answer.is_full) == (20, 10_000 - 150, False)


def test_a_read_at_the_remembered_place_begins_there():
    """Not before: the frames before it would be decoded again for every small read."""
    block = block_of(BATCHES)
    Answer(10, 99, 100).take(block)
    assert (block.resume_offset, block.resume_position) == (15, 172)
    block.resume_position = len(frames(BATCHES[:2]))  # a place that shows where the next read begins
    answer = Answer(15, 99, 10_000)
    answer.take(block)
    assert answer.batches == [BATCHES[2]]


def test_without_room_the_first_batch_is_taken_all_the_same():
    """Of several blocks, too: an answer without a batch is not full because its bytes are used up."""
    answer = Answer(12, 30, 0)
    assert answer.take(block_of([batch(1, 5, 5, 10)]))
    assert not answer.is_full
    answer.take(block_of(BATCHES))
    assert answer.batches == [BATCHES[0]] and answer.is_full
