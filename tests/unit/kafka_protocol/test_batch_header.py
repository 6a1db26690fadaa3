import struct

import google_crc32c
import pytest

from siltstone.kafka_protocol.batch_errors import BatchLengthWrong, TruncatedBatch, UnsupportedMagic
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    checksum_of,
    patch_log_append_time,
    patch_max_timestamp,
    patch_offset_and_epoch,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch
from support.kafka.kafka_batches import RECORDS, iterate_headers, with_header

INT64_MAX, INT32_MAX, INT16_MAX = 2**63 - 1, 2**31 - 1, 2**15 - 1

# Field by field in the order of the layout, by itself and not by the module's struct.
FIELDS = [
    ("base_offset", ">q", INT64_MAX),
    ("batch_length", ">i", INT32_MAX),
    ("partition_leader_epoch", ">i", -1),
    ("magic", ">b", 2),
    ("crc", ">I", 2**32 - 1),
    ("attributes", ">h", -(2**15)),
    ("last_offset_delta", ">i", INT32_MAX),
    ("base_timestamp_ms", ">q", -(2**63)),
    ("max_timestamp_ms", ">q", INT64_MAX),
    ("producer_id", ">q", -1),
    ("producer_epoch", ">h", INT16_MAX),
    ("base_sequence", ">i", -1),
    ("record_count", ">i", INT32_MAX),
]


def written_by_hand() -> bytes:
    return b"".join(struct.pack(form, value) for _, form, value in FIELDS)


def header_of(**fields: int) -> BatchHeader:
    return read_batch_header(with_header(build_batch(RECORDS), **fields))


def crc_by_another_library(batch: bytes | bytearray) -> int:
    return google_crc32c.value(bytes(batch[21:]))


def test_every_field_is_where_the_layout_says():
    header = read_batch_header(written_by_hand())
    assert {name: getattr(header, name) for name, _, _ in FIELDS} == {
        name: value for name, _, value in FIELDS
    }
    assert len(written_by_hand()) == BATCH_HEADER_BYTES == 61


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read_at_any_position(kind):
    assert read_batch_header(kind(b"before" + written_by_hand()), 6) == read_batch_header(written_by_hand())


def test_truncated_at_every_byte():
    for length in range(BATCH_HEADER_BYTES):
        with pytest.raises(TruncatedBatch, match=f"{length} bytes"):
            read_batch_header(written_by_hand()[:length])


def test_a_short_message_of_an_old_format_is_named():
    with pytest.raises(UnsupportedMagic, match="magic 1;"):
        read_batch_header(bytes(16) + b"\x01" + bytes(17))


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (LOG_APPEND_TIME_BIT, "is_log_append_time"),
        (TRANSACTIONAL_BIT, "is_transactional"),
        (CONTROL_BIT, "is_control"),
        (DELETE_HORIZON_BIT, "has_delete_horizon"),
    ],
)
def test_attributes(bit, name):
    flags = ["is_log_append_time", "is_transactional", "is_control", "has_delete_horizon"]
    assert [flag for flag in flags if getattr(header_of(attributes=bit | 7), flag)] == [name]
    assert [flag for flag in flags if not getattr(header_of(attributes=~bit), flag)] == [name]


@pytest.mark.parametrize("codec", range(8))
def test_codec(codec):
    assert header_of(attributes=codec | ~7).codec == codec


def test_codec_names():
    assert [codec.name for codec in sorted(Codec)] == ["NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"]


def test_offsets_and_size():
    header = header_of(base_offset=2**40, last_offset_delta=9)
    assert (header.last_offset, header.end_offset) == (2**40 + 9, 2**40 + 10)
    assert header.size_bytes == len(build_batch(RECORDS))


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [
        (0, 0, 0),
        (7, 3, 10),
        (INT32_MAX, 0, INT32_MAX),
        (INT32_MAX, 1, 0),
        (INT32_MAX - 1, 4, 2),
        (INT32_MAX, INT32_MAX, INT32_MAX - 1),
        (-1, 5, -1),
    ],
)
def test_sequence_numbers_begin_again(base, delta, last):
    assert header_of(base_sequence=base, last_offset_delta=delta).last_sequence == last


def test_checksum_is_that_of_another_library():
    batch = build_batch(RECORDS)
    assert checksum_of(batch) == crc_by_another_library(batch) == read_batch_header(batch).crc


def test_place_in_the_log_is_patched_without_a_new_checksum():
    batch = build_batch(RECORDS)
    before = bytes(batch)
    patch_offset_and_epoch(memoryview(batch), INT64_MAX, INT32_MAX)
    header = read_batch_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (INT64_MAX, INT32_MAX)
    assert batch[16:] == before[16:]
    assert batch[8:12] == before[8:12]
    assert header.crc == crc_by_another_library(batch)


def test_log_append_time_is_patched_with_a_new_checksum():
    batch = build_batch(RECORDS, attributes=TRANSACTIONAL_BIT, compression=Codec.LZ4)
    before = read_batch_header(batch)
    patch_log_append_time(memoryview(batch), INT64_MAX)
    header = read_batch_header(batch)
    assert header.max_timestamp_ms == INT64_MAX
    assert header.attributes == before.attributes | LOG_APPEND_TIME_BIT
    assert header.base_timestamp_ms == before.base_timestamp_ms
    assert header.crc == crc_by_another_library(batch) != before.crc


def test_max_timestamp_is_patched_with_a_new_checksum():
    batch = with_header(build_batch(RECORDS), max_timestamp_ms=-1)
    patch_max_timestamp(batch, 1_003)
    assert batch == build_batch(RECORDS)


def test_several_batches_of_one_buffer():
    batches = [build_batch(RECORDS[:count], base_offset=count) for count in (1, 2, 3)]
    joined = b"".join(batches)
    found = list(iterate_headers(memoryview(joined)))
    assert [header for _, header in found] == [read_batch_header(batch) for batch in batches]
    assert [joined[at : at + header.size_bytes] for at, header in found] == batches
    assert list(iterate_headers(b"")) == []


def test_several_batches_cut_at_every_byte():
    batch = build_batch(RECORDS[:1])
    for length in range(len(batch) + 1, 2 * len(batch)):
        headers = iterate_headers((batch + batch)[:length])
        next(headers)
        with pytest.raises(TruncatedBatch):
            next(headers)


@pytest.mark.parametrize("length", [48, 0, -1, -12, -(2**31)])
def test_a_length_less_than_its_header_ends_the_iteration(length):
    with pytest.raises(BatchLengthWrong, match=f"{length} is less"):
        list(iterate_headers(with_header(build_batch(RECORDS), batch_length=length)))


def test_another_format_ends_the_iteration():
    with pytest.raises(UnsupportedMagic, match="magic 3"):
        list(iterate_headers(with_header(build_batch(RECORDS), magic=3)))


def test_what_is_not_there_is_minus_one_as_in_kafka():
    assert NO_PRODUCER_ID == NO_PRODUCER_EPOCH == NO_SEQUENCE == NO_LEADER_EPOCH == -1


def test_codecs_have_kafkas_numbers() -> None:
    assert {codec.name: int(codec) for codec in Codec} == {
        "NONE": 0,
        "GZIP": 1,
        "SNAPPY": 2,
        "LZ4": 3,
        "ZSTD": 4,
    }
