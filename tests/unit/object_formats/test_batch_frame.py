from collections.abc import Iterator

import msgspec
import pytest
from msgspec.structs import replace

from siltstone.model.errors import InvalidRequest
from siltstone.model.record_batch import NO_TIMESTAMP, RecordBatch
from siltstone.object_formats.batch_frame import (
    FRAME_HEADER_BYTES,
    DamagedFrame,
    ImpossibleBatch,
    decode_frame,
    decode_frames,
    encode_empty_frame_header,
    encode_frame_header,
    frame_bytes,
    position_of_offset,
)
from support.engine.batches import batch, frame, frames

LARGEST = 2**64 - 1
EXTREMES = [
    {"stream_id": 2**63, "stream_epoch": LARGEST},
    {"base_offset": 2**63 - 1, "end_offset": 2**63},
    {"base_offset": 0, "end_offset": LARGEST, "record_count": 1},
    {"base_offset": 5, "end_offset": 5 + 2**31 + 1, "record_count": 2**31 + 1},
    {"smallest_timestamp_ms": NO_TIMESTAMP, "largest_timestamp_ms": NO_TIMESTAMP},
    {"smallest_timestamp_ms": -(2**63), "largest_timestamp_ms": 2**63 - 1},
    {"payload": b""},
]


@pytest.mark.parametrize("changes", EXTREMES)
def test_extreme_values_come_back(changes):
    written = msgspec.structs.replace(batch(), **changes)
    assert decode_frame(memoryview(frame(written))) == (written, frame_bytes(written))


def test_frames_come_back_in_order_as_views_of_the_block():
    written = [batch(base_offset=offset, payload_bytes=offset * 10) for offset in range(5)]
    block = frames(written)
    read = decode_frames(block)
    assert isinstance(read, Iterator)
    read = list(read)
    assert read == written
    assert all(one.payload.obj is block for one in read)


def test_no_bytes_are_no_frames():
    assert list(decode_frames(b"")) == []


def test_truncated_at_every_length_but_between_frames():
    written = [batch(base_offset=0), batch(base_offset=1)]
    block = frames(written)
    whole = {0, frame_bytes(written[0]), len(block)}
    for length in set(range(len(block))) - whole:
        with pytest.raises(DamagedFrame, match="truncated"):
            list(decode_frames(block[:length]))


@pytest.mark.parametrize("extra", [1, 71, 72, 100])
def test_trailing_bytes_are_no_frame(extra):
    with pytest.raises(DamagedFrame):
        list(decode_frames(frame(batch()) + bytes(extra)))


@pytest.mark.parametrize("position", range(8))
def test_a_flip_in_magic_or_zero_is_named(position):
    damaged = bytearray(frame(batch()))
    damaged[position] ^= 0x10
    with pytest.raises(DamagedFrame, match="no batch frame at 0"):
        decode_frame(memoryview(damaged))


def test_version_2_would_be_refused():
    with pytest.raises(DamagedFrame, match="no batch frame"):
        decode_frame(memoryview(b"SBF2" + frame(batch())[4:]))


def test_a_length_of_2_to_64_is_truncation_not_an_allocation():
    raw = bytearray(frame(batch()))
    raw[64:72] = b"\xff" * 8
    with pytest.raises(DamagedFrame, match="truncated payload"):
        decode_frame(memoryview(raw))


@pytest.mark.parametrize(("base", "end", "count"), [(5, 5, 1), (6, 5, 1), (5, 6, 2), (0, 2**63, 2**63 + 1)])
def test_impossible_offsets_are_refused_on_both_sides(base, end, count):
    impossible = msgspec.structs.replace(batch(), base_offset=base, end_offset=end, record_count=count)
    with pytest.raises(ImpossibleBatch, match="records for the offsets"):
        encode_frame_header(impossible)
    raw = bytearray(frame(batch()))
    raw[24:48] = b"".join(value.to_bytes(8, "little") for value in (base, end, count))
    with pytest.raises(DamagedFrame, match="impossible offsets"):
        decode_frame(memoryview(raw))


def test_a_batch_emptied_by_key_compaction_is_read_and_never_appended():
    empty = msgspec.structs.replace(batch(), record_count=0)
    with pytest.raises(ImpossibleBatch, match="records for the offsets"):
        encode_frame_header(empty)
    raw = bytearray(frame(batch()))
    raw[40:48] = bytes(8)
    read, _ = decode_frame(memoryview(raw))
    assert (read.record_count, read.base_offset, read.end_offset) == (
        0,
        batch().base_offset,
        batch().end_offset,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"stream_id": -1},
        {"stream_id": 2**64},
        {"stream_epoch": -1},
        {"base_offset": -1, "end_offset": 0},
        {"base_offset": 2**64, "end_offset": 2**64 + 1},
        {"smallest_timestamp_ms": 2**63},
        {"largest_timestamp_ms": -(2**63) - 1},
        {"largest_timestamp_ms": 1.5},
    ],
)
def test_values_outside_64_bits_are_an_invalid_request_not_a_struct_error(changes):
    with pytest.raises(ImpossibleBatch, match="64-bit"):
        encode_frame_header(msgspec.structs.replace(batch(), **changes))
    assert issubclass(ImpossibleBatch, InvalidRequest)


def test_sizes():
    assert FRAME_HEADER_BYTES == 72
    assert frame_bytes(batch(payload_bytes=100)) == 172


SKIPPED = [batch(1, 10, 5, 30), batch(1, 15, 1, 0), batch(1, 20, 5, 7)]
STARTS = [0, 102, 174]


@pytest.mark.parametrize(
    ("offset", "position"),
    [(0, 0), (10, 0), (14, 0), (15, 102), (16, 174), (19, 174), (24, 174), (25, 253), (2**63, 253)],
)
def test_position_of_offset_is_that_of_the_first_frame_that_ends_after_it(offset, position):
    data = memoryview(frames(SKIPPED))
    assert position_of_offset(data, offset) == position
    for start in STARTS:
        if start <= position:
            assert position_of_offset(data, offset, start) == position


def test_skipping_over_truncated_frames_is_named():
    for length in set(range(1, 253)) - {102, 174}:
        with pytest.raises(DamagedFrame):
            position_of_offset(memoryview(frames(SKIPPED))[:length], 2**62)


@pytest.mark.parametrize("position", range(8))
def test_skipping_over_what_is_no_frame_is_named(position):
    damaged = bytearray(frames(SKIPPED))
    damaged[102 + position] ^= 0x10
    with pytest.raises(DamagedFrame, match="no whole batch frame at 102"):
        position_of_offset(memoryview(damaged), 2**62)


def test_a_frame_without_payload_may_be_the_last():
    data = memoryview(frames([batch(1, 10, 5, 30), batch(1, 15, 1, 0)]))
    assert position_of_offset(data, 15) == 102
    assert position_of_offset(data, 16) == len(data) == 174


def test_a_batch_that_lost_its_records_keeps_its_offsets() -> None:
    empty = RecordBatch(7, 0, 100, 2**40, 0, 5, 5, b"header")
    frame = encode_empty_frame_header(empty) + b"header"
    assert decode_frame(memoryview(frame)) == (empty, len(frame))
    for wrong in (replace(empty, record_count=1), replace(empty, end_offset=100)):
        with pytest.raises(ImpossibleBatch):
            encode_empty_frame_header(wrong)
