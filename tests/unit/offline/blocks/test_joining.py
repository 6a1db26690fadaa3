import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.foundation.crc32c import crc32c, crc32c_combine
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import BlockIndex, encode_index
from siltstone.object_formats.object_layout import trailer_bytes
from siltstone.offline.blocks.columns import ENTRY
from siltstone.offline.blocks.joining import crc32c_moved, joined, trailer
from support.maintenance.block_join import join_blocks
from support.values.examples import examples

LIMIT = 100


@st.composite
def blocks(draw: st.DrawFn) -> list[BlockEntry]:
    """Sorted blocks of a few streams, contiguous or with gaps; positions are those of some source."""
    entries: list[BlockEntry] = []
    stream, offset = 0, 0
    for _ in range(draw(st.integers(0, 12))):
        leap = draw(st.sampled_from(["none", "none", "none", "gap", "stream"]))
        stream, offset = (stream + 1, 0) if leap == "stream" else (stream, offset + (leap == "gap"))
        count = draw(st.integers(1, 2**33))
        smallest = draw(st.sampled_from([-1, 5, 1_700_000_000_000]))
        position, size, crc = (
            draw(st.integers(low, high)) for low, high in ((0, 2**40), (1, 60), (0, 2**32 - 1))
        )
        end = offset + count
        entries.append(BlockEntry(stream, offset, end, count, position, size, smallest, smallest + 7, crc))
        offset += count
    return entries


def joined_one_by_one(entries: list[BlockEntry]) -> list[BlockEntry]:
    groups: list[list[BlockEntry]] = []
    for entry in entries:
        last = groups[-1][-1] if groups else None
        follows = last and (last.stream_id, last.end_offset) == (entry.stream_id, entry.start_offset)
        if follows and sum(each.size_bytes for each in groups[-1]) + entry.size_bytes <= LIMIT:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    made: list[BlockEntry] = []
    for group in groups:
        made.append(join_blocks(group, made[-1].end_position if made else 0))
    return made


@settings(max_examples=examples(150))
@given(blocks())
def test_columns_join_as_the_plain_rule_does(entries: list[BlockEntry]) -> None:
    table = np.frombuffer(encode_index(entries), dtype=ENTRY)
    expected = joined_one_by_one(entries)
    assert list(BlockIndex(joined(table, LIMIT).tobytes())) == expected
    assert trailer(table, LIMIT) == trailer_bytes(expected, sum(entry.size_bytes for entry in entries))


def test_what_the_plan_wrote_into_the_last_field_does_not_reach_the_index() -> None:
    table = np.frombuffer(encode_index([BlockEntry(1, 0, 1, 1, 9, 5, 0, 0, 3)]), dtype=ENTRY).copy()
    table["source"] = 7
    assert joined(table, LIMIT)["source"].tolist() == [0]


CRCS = st.integers(0, 2**32 - 1)
LENGTHS = st.integers(0, 2**45)


@given(st.lists(st.tuples(CRCS, LENGTHS), max_size=20))
def test_moving_many_is_moving_each(pairs: list[tuple[int, int]]) -> None:
    crcs = np.array([crc for crc, _ in pairs], dtype=np.uint32)
    lengths = np.array([length for _, length in pairs], dtype=np.int64)
    expected = [crc32c_combine(crc, 0, length) for crc, length in pairs]
    assert crc32c_moved(crcs, lengths).tolist() == expected


def test_xor_of_moved_crcs_is_the_crc_of_the_concatenation() -> None:
    pieces = [b"silt", b"", b"s" * 1000, b"tone"]
    behind = [sum(map(len, pieces[at + 1 :])) for at in range(len(pieces))]
    moved = crc32c_moved(np.array([crc32c([piece]) for piece in pieces], dtype=np.uint32), np.array(behind))
    assert int(np.bitwise_xor.reduce(moved)) == crc32c(pieces)


def test_the_crcs_given_are_not_changed() -> None:
    crcs = np.array([1, 2], dtype=np.uint32)
    crc32c_moved(crcs, np.array([5, 5]))
    assert crcs.tolist() == [1, 2]
