from itertools import pairwise, product

import msgspec
import pytest

from siltstone.foundation.crc32c import crc32c
from siltstone.object_formats.batch_frame import ImpossibleBatch, encode_frame_header
from siltstone.object_formats.log_file import (
    LOG_FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    DamagedWal,
    LogFileHeader,
    confirms_beyond,
    decode_log_file_header,
    decode_record,
    decode_records,
    encode_log_file_header,
    encode_record_header,
    newest_record,
)
from support.engine.batches import batch
from support.engine.objects import is_named
from support.engine.wal_bytes import groups_bytes, record_bytes
from support.values.left_out import numbers_left_out

HEADER = LogFileHeader(node_id=3, node_epoch=2**40, first_position=2**62)
FIRST = 2**33
GROUPS = [
    [batch(1, 0, 2, 11), batch(2, 0, 1, 0)],
    [batch(1, 2, 1, 40)],
    [batch(1, 3, 1, 23), batch(7, 9, 3, 30)],
]
LOG = groups_bytes(GROUPS, FIRST)
LAST_GROUP_AT = len(groups_bytes(GROUPS[:2], FIRST))
BATCHES = [one for group in GROUPS for one in group]


def read(log: bytes, first_position: int = FIRST):
    return [record.batch for record in decode_records(memoryview(log), first_position)]


# -- segment header ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", [HEADER, LogFileHeader(0, 0, 0), LogFileHeader(2**64 - 1, 2**63, 2**64 - 1, 2**64 - 1)]
)
@pytest.mark.parametrize("behind", [b"", b"records"])
def test_segment_header_comes_back(header, behind):
    assert decode_log_file_header(encode_log_file_header(header) + behind) == header


def test_segment_header_truncated_at_every_length():
    for length in range(LOG_FILE_HEADER_BYTES):
        with pytest.raises(DamagedWal, match=f"has {length} bytes, too few for a header"):
            decode_log_file_header(encode_log_file_header(HEADER)[:length])


def test_segment_header_flipped_at_every_byte():
    for position in range(LOG_FILE_HEADER_BYTES):
        raw = bytearray(encode_log_file_header(HEADER))
        raw[position] ^= 0x40
        with pytest.raises(DamagedWal, match="damaged"):
            decode_log_file_header(raw)


@pytest.mark.parametrize("version", [0, 3])
def test_another_segment_version_is_named(version):
    raw = bytearray(encode_log_file_header(HEADER))
    raw[8:12] = version.to_bytes(4, "little")
    raw[60:64] = crc32c([bytes(raw[:60])]).to_bytes(4, "little")
    with pytest.raises(DamagedWal, match=f"the log file has version {version}; this program reads 1"):
        decode_log_file_header(raw)


# -- records -----------------------------------------------------------------------------------------------


def test_records_come_back_with_their_positions():
    records = list(decode_records(memoryview(LOG), FIRST))
    assert [record.batch for record in records] == BATCHES
    assert records[0].position == FIRST
    assert all(one.end_position == next_.position for one, next_ in pairwise(records))
    assert records[-1].end_position == FIRST + len(LOG)
    assert [record.confirmed_position for record in records] == [
        FIRST, FIRST, records[2].position, records[3].position, records[3].position,
    ]  # fmt: skip


def test_the_newest_record_is_the_last_whole_one_wherever_the_file_is_cut() -> None:
    for cut in range(len(LOG) + 1):
        for behind in (b"", bytes(100)):
            data = memoryview(LOG[:cut] + behind)
            assert newest_record(data, FIRST) == next(reversed(list(decode_records(data, FIRST))), None), cut


def test_stale_records_behind_the_end_are_not_the_newest() -> None:
    stale = groups_bytes([[batch(9)]], FIRST + 2**30)
    assert newest_record(memoryview(LOG + stale), FIRST).batch == BATCHES[-1]


def test_record_header_ends_with_the_frame_header():
    one = batch()
    assert encode_record_header(one, 5, 5, 5)[RECORD_HEADER_BYTES:] == encode_frame_header(one)


def test_payloads_are_views_of_the_segment():
    records = list(decode_records(memoryview(LOG), FIRST))
    assert all(record.batch.payload.obj is LOG for record in records)


@pytest.mark.parametrize(
    "changes",
    [
        {"stream_id": 2**64 - 1, "stream_epoch": 2**63},
        {"base_offset": 2**63 - 1, "end_offset": 2**63},
        {"base_offset": 1, "end_offset": 2**64 - 1},
        {"smallest_timestamp_ms": -(2**63), "largest_timestamp_ms": 2**63 - 1},
    ],
)
@pytest.mark.parametrize("position", [0, 2**31, 2**63])
def test_extreme_values_come_back(changes, position):
    written = msgspec.structs.replace(batch(), **changes)
    record = decode_record(memoryview(record_bytes(written, position, position)), 0, position)
    assert record is not None
    assert (record.batch, record.position) == (written, position)


@pytest.mark.parametrize(
    "changes", [{"record_count": 0}, {"largest_timestamp_ms": 2**63}, {"stream_epoch": -1}]
)
def test_what_recovery_could_not_read_is_refused_before_it_is_written(changes):
    with pytest.raises(ImpossibleBatch):
        encode_record_header(msgspec.structs.replace(batch(), **changes), 0, 0, 0)


def test_no_bytes_no_records():
    assert read(b"") == []
    assert read(bytes(1000)) == []


# -- the tear ----------------------------------------------------------------------------------------------


def test_log_cut_at_every_byte_of_the_last_group_is_torn_not_damaged():
    for length, behind in product(range(LAST_GROUP_AT, len(LOG) + 1), [b"", bytes(200)]):
        whole = len(read(LOG[:length]))
        assert read(LOG[:length] + behind) == BATCHES[:whole]
        assert whole >= 3


def test_a_byte_of_the_last_group_that_never_arrived_is_a_tear():
    """The last group was not confirmed by anybody, so whatever part of it is missing was not acknowledged."""
    for position in range(LAST_GROUP_AT, len(LOG)):
        torn = bytearray(LOG)
        torn[position] ^= 0xFF
        records = read(bytes(torn))
        assert records == BATCHES[: len(records)]
        assert 3 <= len(records) < 5


def test_a_flipped_byte_in_confirmed_records_is_damage():
    for position, bit in product(range(LAST_GROUP_AT), [0x01, 0x80]):
        damaged = bytearray(LOG)
        damaged[position] ^= bit
        with pytest.raises(DamagedWal) as caught:
            read(bytes(damaged))
        assert is_named(caught.value)


def test_overwritten_bytes_in_confirmed_records_is_damage():
    for start in range(0, LAST_GROUP_AT, 16):
        damaged = bytearray(LOG)
        end = min(start + 16, LAST_GROUP_AT)
        damaged[start:end] = bytes(byte ^ 0xFF for byte in LOG[start:end])
        with pytest.raises(DamagedWal, match="acknowledged"):
            read(bytes(damaged))


def test_damage_is_found_from_a_view_of_part_of_a_buffer():
    damaged = bytearray(LOG)
    damaged[5] ^= 1
    with pytest.raises(DamagedWal):
        list(decode_records(memoryview(b"header" + bytes(damaged))[6:], FIRST))
    with pytest.raises(DamagedWal):
        list(decode_records(memoryview(damaged), FIRST))


def test_whole_records_are_given_before_the_damage_is_raised():
    damaged = bytearray(LOG)
    damaged[LAST_GROUP_AT - 1] ^= 1
    records = decode_records(memoryview(bytes(damaged)), FIRST)
    assert [next(records).batch, next(records).batch] == BATCHES[:2]
    with pytest.raises(DamagedWal):
        next(records)


# -- files used again, and payloads that look like a log ---------------------------------------------------


def test_stale_records_of_a_file_used_again_are_ignored():
    """The new log overwrites the first bytes; after it comes what the file held before, at older positions."""
    for kept in range(0, len(LOG), 7):
        stale = groups_bytes([[batch(9, offset, 1, 13)] for offset in range(8)], first_position=1000)
        new = LOG[:kept]
        records = read(new + stale[kept:])
        assert records == BATCHES[: len(records)]
        assert all(one.stream_id != 9 for one in records)


def test_a_stale_record_right_behind_the_last_live_one_is_ignored():
    stale = record_bytes(batch(9), 5, 5)
    assert read(LOG + stale) == BATCHES


@pytest.mark.parametrize("claimed", [0, FIRST, 2**63])
def test_log_bytes_inside_a_torn_payload_confirm_nothing(claimed):
    """A record may itself contain a write-ahead log. Only an entry at its own log position counts."""
    inner = record_bytes(batch(9), claimed, 2**64 - 1)
    carrier = msgspec.structs.replace(batch(1, 0), payload=inner + b"end")
    torn = groups_bytes([[carrier]], FIRST)[:-1]
    assert read(torn) == []
    assert not confirms_beyond(memoryview(torn), 0, FIRST, FIRST)


def test_log_bytes_inside_a_whole_payload_are_payload():
    carrier = msgspec.structs.replace(batch(1, 0), payload=LOG)
    assert read(groups_bytes([[carrier]], FIRST)) == [carrier]


def test_a_record_at_another_position_than_expected_is_none():
    data = memoryview(LOG)
    assert decode_record(data, 0, FIRST) is not None
    assert decode_record(data, 0, FIRST + 1) is None
    assert decode_record(data, 1, FIRST) is None


# -- hostile bytes -----------------------------------------------------------------------------------------


def resealed(raw: bytearray) -> bytes:
    """A record whose checksum holds whatever was done to it: no accident, but a bug or a forgery."""
    raw[4:8] = crc32c([bytes(raw[8:])]).to_bytes(4, "little")
    return bytes(raw)


@pytest.mark.parametrize("length", [0, 71, 72 + 20 - 1, 72 + 20 + 1, 2**31, 2**63, 2**64 - 1])
def test_a_forged_length_ends_the_log_or_is_named(length):
    raw = bytearray(record_bytes(batch(), FIRST, FIRST))
    raw[24:32] = length.to_bytes(8, "little")
    assert read(resealed(raw)) == []


def test_a_record_longer_than_its_frame_is_damage():
    raw = bytearray(record_bytes(batch(), FIRST, FIRST) + b"more")
    raw[24:32] = (72 + 20 + 4).to_bytes(8, "little")
    with pytest.raises(DamagedWal, match="longer than its batch frame"):
        read(resealed(raw))


def test_a_record_that_holds_no_frame_is_damage():
    raw = bytearray(record_bytes(batch(), FIRST, FIRST))
    raw[32] ^= 1
    with pytest.raises(DamagedWal, match="holds no batch frame"):
        read(resealed(raw))


@pytest.mark.parametrize("size", [1, 3, 4, 31, 32, 33, 5000])
def test_nothing_but_magic_is_an_empty_log(size):
    assert read((b"SWR1" * size)[:size]) == []


def test_sizes():
    assert (LOG_FILE_HEADER_BYTES, RECORD_HEADER_BYTES, RECORD_OVERHEAD_BYTES) == (64, 32, 104)


def test_what_is_left_out() -> None:
    assert numbers_left_out(LogFileHeader) == {"reserved_bytes": 0}
