"""Every byte format over random values: round trip, truncation, flips, trailing bytes."""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.foundation.crc32c import crc32c, crc32c_combine
from siltstone.model.errors import CorruptData
from siltstone.model.record_batch import BlockEntry, RecordBatch
from siltstone.object_formats.batch_frame import DamagedFrame, decode_frame, decode_frames, frame_bytes
from siltstone.object_formats.block_index import BlockIndex, DamagedIndex, encode_index
from siltstone.object_formats.identity import (
    DamagedIdentity,
    LogIdentity,
    StoreIdentity,
    decode_log_identity,
    decode_store_identity,
    encode_log_identity,
    encode_store_identity,
)
from siltstone.object_formats.log_file import (
    DamagedWal,
    LogFileHeader,
    decode_log_file_header,
    decode_records,
    encode_log_file_header,
)
from siltstone.object_formats.object_layout import (
    FOOTER_BYTES,
    DamagedFooter,
    Footer,
    decode_footer,
    encode_footer,
    ranges_of_entries,
)
from support.engine.batches import build_object, frame, frames, object_bytes
from support.engine.objects import index_of, read_object
from support.engine.wal_bytes import groups_bytes
from support.maintenance.block_join import join_blocks
from support.values.examples import examples

UNSIGNED = st.one_of(st.integers(0, 100), st.integers(2**31 - 2, 2**33), st.integers(2**62, 2**64 - 1))
TIMESTAMPS = st.one_of(st.just(-1), st.integers(0, 2**41), st.integers(-(2**63), 2**63 - 1))
PAYLOADS = st.one_of(
    st.binary(max_size=40), st.just(b"SWR1" * 9), st.just(b"SBF1" * 25), st.just(b"SILTSOBJ")
)


@st.composite
def record_batches(draw, stream_id=None, base_offset=None):
    base = draw(st.integers(0, 2**64 - 2)) if base_offset is None else base_offset
    span = draw(st.one_of(st.integers(1, 50), st.integers(2**31, 2**33)))
    end = min(base + span, 2**64 - 1)
    return RecordBatch(
        stream_id=draw(UNSIGNED) if stream_id is None else stream_id,
        stream_epoch=draw(UNSIGNED),
        base_offset=base,
        end_offset=end,
        record_count=draw(st.integers(1, end - base)),
        smallest_timestamp_ms=draw(TIMESTAMPS),
        largest_timestamp_ms=draw(TIMESTAMPS),
        payload=draw(PAYLOADS),
    )


@st.composite
def runs(draw, stream_id=1, max_size=5):
    """Contiguous batches of one stream."""
    batches = []
    next_offset = draw(st.one_of(st.integers(0, 10), st.integers(2**31 - 5, 2**62)))
    for _ in range(draw(st.integers(1, max_size))):
        batches.append(draw(record_batches(stream_id, next_offset)))
        next_offset = batches[-1].end_offset
    return batches


@st.composite
def object_batches(draw):
    """What an object may hold: streams ascending, the offsets of each ascending, with gaps or none."""
    batches = []
    for stream_id in sorted(draw(st.sets(UNSIGNED, max_size=4))):
        next_offset = draw(st.integers(0, 2**62))
        for _ in range(draw(st.integers(1, 4))):
            batches.append(draw(record_batches(stream_id, next_offset)))
            next_offset = batches[-1].end_offset + draw(st.sampled_from([0, 0, 1, 2**32]))
    return batches


BLOCK_SIZES = st.sampled_from([1, 100, 200, 1 << 20])


@given(record_batches(), st.binary(max_size=80))
@settings(max_examples=examples(200))
def test_frame_round_trip_whatever_follows(written, behind):
    data = memoryview(frame(written) + behind)
    assert decode_frame(data) == (written, frame_bytes(written))


@given(runs())
@settings(max_examples=examples(100))
def test_block_round_trip_and_truncation(batches):
    block = frames(batches)
    assert list(decode_frames(block)) == batches
    between = {0, *accumulate(frame_bytes(one) for one in batches)}
    for length in set(range(len(block))) - between:
        with pytest.raises(DamagedFrame):
            list(decode_frames(block[:length]))


@given(st.binary(max_size=300))
@settings(max_examples=examples(200))
def test_any_bytes_are_frames_or_a_named_error(data):
    try:
        batches = list(decode_frames(data))
    except DamagedFrame:
        return
    assert frames(batches) == data


@given(object_batches(), BLOCK_SIZES, st.sampled_from([64, 150, 1 << 16]))
@settings(max_examples=examples(150))
def test_object_round_trip(batches, block_size_bytes, tail_bytes):
    built = build_object(batches, block_size_bytes)
    data = b"".join(built.buffers)
    assert len(data) == built.size_bytes
    assert list(index_of(data, tail_bytes)) == built.entries
    assert read_object(data, tail_bytes) == batches


@given(object_batches(), BLOCK_SIZES, st.data())
@settings(max_examples=examples(150))
def test_object_truncated_flipped_or_longer_is_named(batches, block_size_bytes, data):
    whole = object_bytes(batches, block_size_bytes)
    position = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[position] ^= data.draw(st.integers(1, 255))
    for damaged in (whole[:position], bytes(flipped), whole + bytes(position + 1), whole[position + 1 :]):
        with pytest.raises(CorruptData):
            read_object(damaged)


@given(object_batches(), BLOCK_SIZES, UNSIGNED, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
@settings(max_examples=examples(200))
def test_index_search_equals_looking_at_every_entry(batches, block_size_bytes, stream_id, start, end):
    entries = build_object(batches, block_size_bytes).entries
    index = BlockIndex(encode_index(entries))
    if entries:
        stream_id, start = entries[stream_id % len(entries)].stream_id, start % (entries[-1].end_offset + 1)
    expected = [
        e for e in entries if e.stream_id == stream_id and max(e.start_offset, start) < min(e.end_offset, end)
    ]
    assert list(index.blocks_of(stream_id, start, end)) == expected


@given(st.binary(max_size=300))
@settings(max_examples=examples(200))
def test_any_bytes_are_an_index_or_a_named_error(data):
    try:
        index = BlockIndex(data)
    except DamagedIndex:
        return
    assert len(index) * 72 == len(data)


@given(object_batches(), BLOCK_SIZES)
@settings(max_examples=examples(100))
def test_ranges_cover_exactly_the_batches(batches, block_size_bytes):
    ranges = ranges_of_entries(build_object(batches, block_size_bytes).entries, object_id=1)
    covered = [(r.stream_id, r.start_offset, r.end_offset) for r in ranges]
    merged: list[tuple[int, int, int]] = []
    for one in batches:
        if merged and merged[-1][0] == one.stream_id and merged[-1][2] == one.base_offset:
            merged[-1] = (one.stream_id, merged[-1][1], one.end_offset)
        else:
            merged.append((one.stream_id, one.base_offset, one.end_offset))
    assert covered == merged
    assert sum(r.size_bytes for r in ranges) == sum(map(frame_bytes, batches))


@given(runs(max_size=8))
@settings(max_examples=examples(150))
def test_joined_entry_is_that_of_the_joined_block(batches):
    apart = build_object(batches, block_size_bytes=1).entries
    (together,) = build_object(batches, block_size_bytes=1 << 40).entries
    assert join_blocks(apart, position=0) == together


@given(st.lists(st.binary(max_size=300), max_size=6))
@settings(max_examples=examples(150))
def test_combined_checksums(pieces):
    combined = 0
    for piece in pieces:
        combined = crc32c_combine(combined, crc32c([piece]), len(piece))
    assert combined == crc32c(pieces) == crc32c([b"".join(pieces)])


@given(UNSIGNED, st.integers(0, 2**32 - 1), st.integers(0, 2**20), st.data())
@settings(max_examples=examples(150))
def test_footer_round_trip_and_flips(index_position, crc, count, data):
    index_position = min(index_position, 2**63)
    footer = Footer(index_position, count * 72, index_position + count * 72 + FOOTER_BYTES, crc)
    raw = encode_footer(footer)
    assert decode_footer(raw, footer.object_bytes) == footer
    flipped = bytearray(raw)
    flipped[data.draw(st.integers(0, 63))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedFooter):
        decode_footer(flipped, footer.object_bytes)


@given(UNSIGNED, UNSIGNED, UNSIGNED, UNSIGNED, st.data())
@settings(max_examples=examples(100))
def test_segment_header_round_trip_and_flips(node_id, node_epoch, first_position, reserved_bytes, data):
    header = LogFileHeader(node_id, node_epoch, first_position, reserved_bytes)
    raw = encode_log_file_header(header)
    assert decode_log_file_header(raw) == header
    flipped = bytearray(raw)
    flipped[data.draw(st.integers(0, 63))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedWal):
        decode_log_file_header(flipped)


LOGS = st.lists(st.lists(record_batches(), min_size=1, max_size=3), min_size=1, max_size=4)
FIRST_POSITIONS = st.sampled_from([0, 1, 2**31 - 7, 2**62])


@given(LOGS, FIRST_POSITIONS, st.binary(max_size=200))
@settings(max_examples=examples(100))
def test_wal_round_trip_whatever_follows(groups, first_position, behind):
    log = groups_bytes(groups, first_position)
    records = list(decode_records(memoryview(log + behind), first_position))
    assert [record.batch for record in records] == [one for group in groups for one in group]
    assert records[-1].end_position == first_position + len(log)


@given(LOGS, FIRST_POSITIONS, st.data())
@settings(max_examples=examples(200))
def test_wal_flip_is_damage_below_the_confirmed_position_and_a_tear_above(groups, first_position, data):
    log = groups_bytes(groups, first_position)
    confirmed = len(groups_bytes(groups[:-1], first_position))
    position = data.draw(st.integers(0, len(log) - 1))
    damaged = bytearray(log)
    damaged[position] ^= data.draw(st.integers(1, 255))
    batches = [one for group in groups for one in group]
    if position < confirmed:
        with pytest.raises(DamagedWal):
            list(decode_records(memoryview(bytes(damaged)), first_position))
    else:
        read = [record.batch for record in decode_records(memoryview(bytes(damaged)), first_position)]
        assert read == batches[: len(read)]
        assert sum(map(len, groups[:-1])) <= len(read) < len(batches)


@given(
    st.binary(max_size=400)
    | st.lists(st.sampled_from([b"SWR1", b"\0", b"\xff" * 4]), max_size=90).map(b"".join)
)
@settings(max_examples=examples(200))
def test_any_bytes_are_a_log_that_ends(data):
    records = list(decode_records(memoryview(data), 0))
    assert sum(record.end_position - record.position for record in records) <= len(data)


@given(st.lists(st.tuples(UNSIGNED, UNSIGNED, UNSIGNED), max_size=5))
@settings(max_examples=examples(100))
def test_index_round_trip_of_extreme_fields(rows):
    entries = [
        BlockEntry(stream, 2**64 - 2, 2**64 - 1, 1, position, size, -(2**63), 2**63 - 1, size % 2**32)
        for stream, position, size in sorted({row[0]: row for row in rows}.values())
    ]
    assert list(BlockIndex(encode_index(entries))) == entries


TOKENS = st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")
LOG_IDENTITIES = st.builds(
    LogIdentity,
    TOKENS | st.text(max_size=10),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
)


@given(LOG_IDENTITIES, TOKENS)
def test_identities_round_trip(identity, store_id):
    assert decode_log_identity(encode_log_identity(identity)) == identity
    assert decode_store_identity(encode_store_identity(StoreIdentity(store_id))) == StoreIdentity(store_id)


@given(LOG_IDENTITIES, st.data())
def test_rule_8_an_identity_that_is_cut_flipped_or_goes_on_is_damaged(identity, data):
    whole = encode_log_identity(identity)
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    for wrong in (whole[:at], bytes(flipped), whole + data.draw(st.binary(min_size=1, max_size=3))):
        with pytest.raises(DamagedIdentity):
            decode_log_identity(wrong)
