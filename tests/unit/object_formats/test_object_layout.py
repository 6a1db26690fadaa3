# T33 adapted: our frames have 72 bytes before the payload, blocks have no header, entries 72 bytes, the footer 64.
# The sizes given by the table are payloads and hold as they are; the block threshold counts whole frames.
# Its rows on the largest number of bytes of a read are in unit/stream_engine/reading/test_read_plan.py.
from itertools import product

import pytest

from siltstone.foundation.crc32c import crc32c
from siltstone.model.errors import CorruptData
from siltstone.model.limits import TAIL_READ_BYTES
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.object_formats.batch_frame import decode_frames, encode_frame_header
from siltstone.object_formats.block_index import BlockIndex, DamagedIndex
from siltstone.object_formats.object_layout import (
    FOOTER_BYTES,
    DamagedFooter,
    Footer,
    IndexLiesBefore,
    ObjectBuilder,
    decode_footer,
    encode_footer,
    index_of_tail,
    smallest_timestamp,
    trailer_bytes,
    verified_index,
)
from support.engine.batches import batch, build_object, frame, frames, object_bytes
from support.engine.objects import index_of, is_named, read_object


def test_t33_blocks_close_at_the_threshold():
    batches = [
        batch(233, 10, 5, 512),
        batch(233, 15, 10, 512),
        batch(233, 25, 5, 512),
        batch(234, 0, 5, 512),
    ]
    built = build_object(batches, block_size_bytes=1024)
    assert [(e.stream_id, e.start_offset, e.end_offset, e.record_count) for e in built.entries] == [
        (233, 10, 25, 15),
        (233, 25, 30, 5),
        (234, 0, 5, 5),
    ]
    data = b"".join(built.buffers)
    assert built.size_bytes == len(data) == 4 * (72 + 512) + 3 * 72 + 64
    assert list(index_of(data)) == built.entries
    assert read_object(data) == batches


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (batch(233, 10), batch(231, 10)),
        (batch(233, 20), batch(233, 10)),
        (batch(233, 20, 5), batch(233, 24)),
        (batch(233, 20), batch(233, 20)),
    ],
)
@pytest.mark.parametrize("block_size_bytes", [1, 1 << 20])
def test_t33_disorder_is_rejected(first, second, block_size_bytes):
    builder = ObjectBuilder(block_size_bytes)
    builder.append(first, encode_frame_header(first))
    with pytest.raises(ValueError, match="out of order"):
        builder.append(second, encode_frame_header(second))


def test_t33_an_index_of_52428_streams_takes_exactly_one_more_read():
    data = object_bytes(batch(stream, 7, 1, 1) for stream in range(52_428))
    lies_before = index_of_tail(data[-TAIL_READ_BYTES:], len(data))
    assert isinstance(lies_before, IndexLiesBefore)
    index = verified_index(data[lies_before.position : lies_before.end], lies_before.footer)
    assert len(index) == 52_428
    assert next(index.blocks_of(40_000, 7, 8)).position == 40_000 * 73


@pytest.mark.parametrize(
    ("stream_id", "start", "end", "blocks"),
    [
        (1, 10, 150, 2),
        (1, 10, 200, 3),
        (1, 10, 10_000, 3),
        (1, 10, 800, 3),
        (2, 110, 111, 1),
        (1, 240, 999, 0),
    ],
)
def test_t33_find(stream_id, start, end, blocks):
    data = object_bytes(
        [batch(1, 0, 100, 1000), batch(1, 100, 50, 500), batch(1, 150, 90, 900), batch(2, 110, 90, 900)], 1
    )
    assert len(list(index_of(data).blocks_of(stream_id, start, end))) == blocks


def test_t33_one_entry_over_two_blocks_yields_three_batches():
    """Joined blocks are one block: there is nothing between their frames."""
    batches = [batch(1, 10), batch(1, 11, 2), batch(1, 13)]
    joined = frames(batches[:2]) + frames(batches[2:])
    assert list(decode_frames(joined)) == batches


@pytest.mark.parametrize(
    ("stream_id", "expected"),
    [(200, (10, 15)), (234, (0, 25)), (250, (30, 35)), (100, None), (230, None), (300, None)],
)
def test_t33_stream_range(stream_id, expected):
    data = object_bytes(
        [batch(200, 10, 5), batch(234, 0, 10), batch(234, 10, 15), batch(250, 30, 5)], block_size_bytes=1
    )
    blocks = list(index_of(data).blocks_of(stream_id, 0, 2**64 - 1))
    assert ((blocks[0].start_offset, blocks[-1].end_offset) if blocks else None) == expected


@pytest.mark.parametrize("tail_bytes", [64, 200, 1 << 16])
def test_t33_flips_and_truncation_are_named_errors(tail_bytes):
    """The table's flipped magic and truncation, and every other byte and length as well."""
    data = object_bytes([batch(1, 0, 3, 40), batch(1, 3, 1, 10), batch(9, 0, 2, 33)], block_size_bytes=100)
    assert len(read_object(data, tail_bytes)) == 3
    for length in range(len(data)):
        with pytest.raises(CorruptData) as caught:
            read_object(data[:length], tail_bytes)
        assert is_named(caught.value)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        with pytest.raises(CorruptData) as caught:
            read_object(bytes(damaged), tail_bytes)
        assert is_named(caught.value)


@pytest.mark.parametrize("extra", [b"\0", b"SILTSOBJ", bytes(64), bytes(1000)])
@pytest.mark.parametrize("behind", [True, False])
def test_bytes_added_in_front_or_behind_are_named(extra, behind):
    data = object_bytes([batch()])
    with pytest.raises(DamagedFooter):
        read_object(data + extra if behind else extra + data)


def test_an_object_put_behind_another_is_no_object():
    with pytest.raises(DamagedFooter, match="was written with"):
        read_object(object_bytes([batch(1)]) + object_bytes([batch(2)]))


def test_the_whole_object_may_be_the_tail():
    data = object_bytes([batch(1), batch(2)])
    assert isinstance(index_of_tail(data, len(data)), BlockIndex)


@pytest.mark.parametrize("missing", [0, 1, 71])
def test_tail_that_just_holds_the_index_or_just_does_not(missing):
    data = object_bytes([batch(1), batch(2)])
    tail_bytes = FOOTER_BYTES + 2 * 72 - missing
    found = index_of_tail(memoryview(data)[-tail_bytes:], len(data))
    assert isinstance(found, IndexLiesBefore) is (missing > 0)
    if isinstance(found, IndexLiesBefore):
        assert (found.position, found.end) == (len(data) - FOOTER_BYTES - 144, len(data) - FOOTER_BYTES)


def test_a_short_read_of_the_index_is_named():
    data = object_bytes([batch(1), batch(2)])
    found = index_of_tail(data[-FOOTER_BYTES:], len(data))
    assert isinstance(found, IndexLiesBefore)
    with pytest.raises(DamagedIndex, match="the index has 144 bytes, but 143 were read"):
        verified_index(data[found.position : found.end - 1], found.footer)


def test_an_object_without_blocks():
    built = ObjectBuilder().finish()
    data = b"".join(built.buffers)
    assert (len(data), built.size_bytes, built.entries) == (FOOTER_BYTES, FOOTER_BYTES, [])
    assert read_object(data) == []


def test_a_batch_larger_than_a_block_makes_one_of_its_own():
    batches = [batch(1, 0, 1, 10), batch(1, 1, 1, 5000), batch(1, 2, 1, 10)]
    built = build_object(batches, block_size_bytes=1000)
    assert [e.size_bytes for e in built.entries] == [82 + 5072, 82]
    assert read_object(b"".join(built.buffers)) == batches


def test_a_gap_in_the_offsets_starts_a_new_block():
    """Blocks are contiguous, so coverage can be judged by the index alone."""
    built = build_object([batch(1, 0), batch(1, 5)], block_size_bytes=1 << 20)
    assert [(e.start_offset, e.end_offset) for e in built.entries] == [(0, 1), (5, 6)]


def test_offsets_removed_inside_a_batch_are_no_gap():
    built = build_object([batch(1, 0, 2, offsets=5), batch(1, 5)], block_size_bytes=1 << 20)
    assert [(e.start_offset, e.end_offset, e.record_count) for e in built.entries] == [(0, 6, 3)]


def test_t12_extreme_offsets_in_one_object():
    batches = [
        batch(1, 0),
        batch(1, 2**31, offsets=2**32),
        batch(1, 2**63 - 1, timestamp_ms=2**62),
        batch(2**63, 2**64 - 2),
    ]
    data = object_bytes(batches)
    assert read_object(data) == batches
    assert [e.start_offset for e in index_of(data).blocks_of(1, 2**31 + 1, 2**63)] == [2**31, 2**63 - 1]


def test_payloads_are_taken_as_they_are():
    """The gather list holds the caller's own buffers: nothing is joined before the put."""
    one = batch(payload_bytes=100)
    header = encode_frame_header(one)
    builder = ObjectBuilder()
    builder.append(one, header)
    buffers = builder.finish().buffers
    assert buffers[0] is header
    assert buffers[1] is one.payload


def test_frame_headers_may_be_views_of_a_wal_record():
    one = batch()
    builder = ObjectBuilder()
    builder.append(one, memoryview(bytearray(b"record" + encode_frame_header(one)))[6:])
    assert read_object(b"".join(builder.finish().buffers)) == [one]


def test_trailer_describes_blocks_that_lie_elsewhere():
    built = build_object([batch(1), batch(2)])
    data = frame(batch(1)) + frame(batch(2))
    assert data + trailer_bytes(built.entries, len(data)) == b"".join(built.buffers)


@pytest.mark.parametrize(
    ("timestamps", "expected"), [([], NO_TIMESTAMP), ([-1, -1], NO_TIMESTAMP), ([-1, 5, 3], 3), ([0, 1], 0)]
)
def test_smallest_timestamp(timestamps, expected):
    assert smallest_timestamp(timestamps) == expected


def test_batches_are_in_the_order_of_their_streams_and_offsets_also_across_blocks() -> None:
    for block_size_bytes in (1, 1 << 20):
        builder = ObjectBuilder(block_size_bytes)
        for one in (batch(1, 0, 2), batch(1, 2, 1), batch(2, 7, 1)):
            builder.append(one, encode_frame_header(one))
        for wrong in (batch(1, 3, 1), batch(2, 7, 1)):
            with pytest.raises(ValueError, match="out of order"):
                builder.append(wrong, encode_frame_header(wrong))
        entries = builder.finish().entries
        assert [(each.stream_id, each.start_offset, each.end_offset) for each in entries] == (
            [(1, 0, 2), (1, 2, 3), (2, 7, 8)] if block_size_bytes == 1 else [(1, 0, 3), (2, 7, 8)]
        )


def test_a_block_holds_one_stream_though_the_next_begins_at_the_same_offset() -> None:
    builder = ObjectBuilder(1 << 20)
    for one in (batch(1, 0, 2), batch(2, 2, 1)):
        builder.append(one, encode_frame_header(one))
    assert [each.stream_id for each in builder.finish().entries] == [1, 2]


FOOTER = Footer(index_position=1000, index_bytes=144, object_bytes=1208, index_crc32c=0x01020304)


@pytest.mark.parametrize(
    "footer",
    [
        FOOTER,
        Footer(0, 0, FOOTER_BYTES, 0),
        Footer(2**40, 72, 2**40 + 72 + FOOTER_BYTES, 2**32 - 1),
        Footer(2**63, 2**33, 2**63 + 2**33 + FOOTER_BYTES, 1),
    ],
)
def test_footer_comes_back(footer):
    assert decode_footer(encode_footer(footer), footer.object_bytes) == footer


def test_only_the_last_bytes_count():
    assert decode_footer(memoryview(b"blocks and index" + encode_footer(FOOTER)), 1208) == FOOTER


def test_truncated_in_front_at_every_length():
    for length in range(FOOTER_BYTES):
        raw = encode_footer(FOOTER)
        with pytest.raises(DamagedFooter, match="too few for a footer"):
            decode_footer(raw[FOOTER_BYTES - length :], 1208)


def test_a_flip_anywhere_is_named():
    for position, bit in product(range(FOOTER_BYTES), [0x01, 0x80]):
        raw = bytearray(encode_footer(FOOTER))
        raw[position] ^= bit
        with pytest.raises(DamagedFooter, match=r"no footer|checksum"):
            decode_footer(raw, 1208)


@pytest.mark.parametrize("extra", [1, 8, 64])
def test_trailing_bytes_are_named(extra):
    with pytest.raises(DamagedFooter, match="no footer"):
        decode_footer(encode_footer(FOOTER) + bytes(extra), 1208 + extra)


@pytest.mark.parametrize("size", [0, 64, 1207, 1209, 2**63])
def test_another_size_than_written_is_named(size):
    with pytest.raises(DamagedFooter, match="was written with 1208"):
        decode_footer(encode_footer(FOOTER), size)


def test_an_index_elsewhere_than_before_the_footer_is_named():
    elsewhere = Footer(index_position=1000, index_bytes=72, object_bytes=1208, index_crc32c=0)
    with pytest.raises(DamagedFooter, match="does not end where"):
        decode_footer(encode_footer(elsewhere), 1208)


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_another_version_is_named(version):
    raw = bytearray(encode_footer(FOOTER))
    raw[28:32] = version.to_bytes(4, "little")
    raw[52:56] = crc32c([bytes(raw[:52])]).to_bytes(4, "little")
    with pytest.raises(DamagedFooter, match=f"format version {version}; this program reads 1"):
        decode_footer(raw, 1208)
