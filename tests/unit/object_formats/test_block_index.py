import pytest

from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import BlockIndex, DamagedIndex, encode_entry, encode_index


def entry(stream_id: int, start: int, end: int, position: int = 0, size: int = 100) -> BlockEntry:
    return BlockEntry(stream_id, start, end, end - start, position, size, 1, 2, 0xDEADBEEF)


def index(*entries: BlockEntry) -> BlockIndex:
    return BlockIndex(encode_index(entries))


ENTRIES = [entry(3, 0, 10), entry(3, 10, 20), entry(3, 50, 60), entry(7, 5, 6), entry(9, 0, 2**63)]


def test_entries_come_back_by_number_and_in_order():
    read = index(*ENTRIES)
    assert list(read) == ENTRIES
    assert [read[number] for number in range(len(read))] == ENTRIES


@pytest.mark.parametrize("number", [-1, 5, 6])
def test_numbers_outside_are_refused(number):
    with pytest.raises(IndexError):
        index(*ENTRIES)[number]


def test_extreme_values_come_back():
    largest = BlockEntry(2**64 - 1, 2**64 - 2, 2**64 - 1, 2**63, 2**63, 2**63, -(2**63), 2**63 - 1, 2**32 - 1)
    assert list(index(largest)) == [largest]


def test_empty_index():
    empty = index()
    assert (len(empty), list(empty), empty.first_at_or_after(1, 0)) == (0, [], 0)
    assert list(empty.blocks_of(1, 0, 10)) == []


@pytest.mark.parametrize(
    ("stream_id", "offset", "number"),
    [
        (0, 0, 0),
        (3, 0, 0),
        (3, 9, 0),
        (3, 10, 1),
        (3, 20, 2),
        (3, 49, 2),
        (3, 60, 3),
        (4, 0, 3),
        (7, 5, 3),
        (7, 6, 4),
        (9, 2**63 - 1, 4),
        (9, 2**63, 5),
        (2**64 - 1, 0, 5),
    ],
)
def test_first_at_or_after(stream_id, offset, number):
    assert index(*ENTRIES).first_at_or_after(stream_id, offset) == number


@pytest.mark.parametrize(
    ("stream_id", "start", "end", "numbers"),
    [
        (3, 0, 60, [0, 1, 2]),
        (3, 5, 11, [0, 1]),
        (3, 10, 20, [1]),
        (3, 20, 50, []),
        (3, 20, 51, [2]),
        (3, 60, 99, []),
        (4, 0, 99, []),
        (7, 0, 5, []),
        (7, 0, 6, [3]),
        (3, 7, 7, []),
    ],
)
def test_blocks_of_a_range(stream_id, start, end, numbers):
    assert list(index(*ENTRIES).blocks_of(stream_id, start, end)) == [ENTRIES[number] for number in numbers]


@pytest.mark.parametrize(
    "disorder",
    [
        [entry(2, 0, 1), entry(1, 0, 1)],
        [entry(1, 10, 20), entry(1, 0, 5)],
        [entry(1, 0, 10), entry(1, 9, 20)],
        [entry(1, 0, 10), entry(1, 0, 10)],
        [entry(1, 0, 2**32 + 5), entry(1, 2**32, 2**33)],
    ],
)
def test_disorder_is_a_bug_when_written_and_damage_when_read(disorder):
    with pytest.raises(AssertionError, match="out of order"):
        encode_index(disorder)
    with pytest.raises(DamagedIndex, match="out of order"):
        BlockIndex(b"".join(map(encode_entry, disorder)))


def test_an_empty_range_is_damage():
    with pytest.raises(DamagedIndex, match=r"\[4, 4\)"):
        BlockIndex(encode_entry(entry(1, 4, 4)))


def test_lengths_that_are_no_whole_number_of_entries():
    for length in [length for length in range(1, 200) if length % 72]:
        with pytest.raises(DamagedIndex, match="no multiple of 72"):
            BlockIndex(bytes(length))


def test_t12_offsets_further_apart_than_32_bits():
    """T12, the format's part: 64-bit ends, so two blocks 2**31 offsets long each keep their own and a search
    finds either. What compaction does with them is tested with its planner."""
    first, second = entry(1, 0, 2**31), entry(1, 2**31, 2**33)
    read = index(first, second)
    assert list(read) == [first, second]
    assert list(read.blocks_of(1, 2**31 - 1, 2**31)) == [first]
    assert list(read.blocks_of(1, 2**32 + 7, 2**32 + 8)) == [second]
