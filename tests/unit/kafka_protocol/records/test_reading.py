import pytest

from siltstone.kafka_protocol.batch_errors import (
    BatchLengthWrong,
    MalformedRecords,
    NotOneBatch,
    RecordCountWrong,
    TruncatedBatch,
    UnknownCodec,
    UnsupportedMagic,
)
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    DELETE_HORIZON_BIT,
    Codec,
    patch_log_append_time,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records, open_batch
from siltstone.model.errors import SiltstoneError
from support.kafka.kafka_batches import (
    RECORDS,
    as_written,
    encode_batch,
    numbered,
    of_one_record,
    with_body,
    with_header,
)
from support.values.left_out import numbers_left_out


def records_of(batch):
    return as_written([*iterate_records(batch)])


def test_a_record_byte_by_byte():
    body = bytes([0, 6, 0, 4]) + b"ab" + bytes([2]) + b"c" + bytes([2, 2]) + b"h" + bytes([1])
    batch = of_one_record(bytes([2 * len(body)]) + body)
    assert records_of(batch) == [
        Record(offset=0, timestamp_ms=1_003, key=b"ab", value=b"c", headers=(("h", None),))
    ]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_records_of_every_codec(codec, kind):
    batch = kind(build_batch(RECORDS, base_offset=2**40, compression=codec))
    assert records_of(batch) == numbered(RECORDS, 2**40)


def test_keys_and_values_are_views_of_the_batch():
    batch = build_batch(RECORDS)
    read = [*iterate_records(batch)]
    fields = [field for record in read for field in (record.key, record.value) if field is not None]
    fields += [value for record in read for _, value in record.headers if value is not None]
    assert len(fields) == 6
    assert all(field.obj is batch for field in fields)


def test_null_and_empty_are_two_things():
    read = records_of(build_batch(RECORDS))
    assert [record.key for record in read] == [b"key", None, b""]
    assert read[2].value is None
    assert read[0].headers[1] == ("none", None)
    assert read[2].headers == (("", b""),)


def test_a_name_that_is_no_utf8_comes_back():
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    written = [Record(offset=0, headers=((name, b"v"), ("Grüße", b"")))]
    assert records_of(build_batch(written)) == written


@pytest.mark.parametrize("codec", Codec)
def test_log_append_time_is_that_of_every_record(codec):
    batch = build_batch(RECORDS, compression=codec)
    patch_log_append_time(batch, 5_000)
    assert [record.timestamp_ms for record in iterate_records(batch)] == [5_000] * 3


def test_a_compacted_batch_keeps_its_offsets():
    header = read_batch_header(build_batch(RECORDS, base_offset=100))
    kept = [numbered(RECORDS, 100)[index] for index in (0, 2)]
    batch = encode_batch(header, kept)
    assert records_of(batch) == kept
    compacted = read_batch_header(batch)
    assert (compacted.record_count, compacted.last_offset_delta, compacted.end_offset) == (2, 2, 103)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_compacted_to_nothing(codec):
    batch = encode_batch(read_batch_header(build_batch(RECORDS, compression=codec)), [])
    assert records_of(batch) == []
    assert len(batch) == BATCH_HEADER_BYTES


def test_with_a_delete_horizon_deltas_are_added_to_it():
    horizon = with_header(
        build_batch(RECORDS),
        attributes=DELETE_HORIZON_BIT,
        base_timestamp_ms=10**12,
        max_timestamp_ms=10**12 + 3,
    )
    assert [record.timestamp_ms - 10**12 for record in iterate_records(horizon)] == [0, 3, 1]


@pytest.mark.parametrize("base", [-(2**63), 2**63 - 1])
def test_timestamps_wrap_as_in_java(base):
    """Two timestamps can be further apart than a delta of 64 bits can say."""
    ends = [Record(offset=0, timestamp_ms=base), Record(offset=1, timestamp_ms=-base - 1)]
    assert records_of(build_batch(ends)) == ends


@pytest.mark.parametrize("codec", Codec)
def test_truncated_at_every_byte(codec):
    batch = build_batch(RECORDS, compression=codec)
    for length in range(len(batch)):
        with pytest.raises(TruncatedBatch):
            iterate_records(batch[:length])


@pytest.mark.parametrize("codec", Codec)
def test_records_truncated_at_every_byte(codec):
    """A header that agrees, so that it is the records that end."""
    batch = build_batch(RECORDS, compression=codec)
    for length in range(len(batch) - BATCH_HEADER_BYTES):
        cut = with_body(batch, batch[BATCH_HEADER_BYTES:][:length])
        with pytest.raises(SiltstoneError):
            list(iterate_records(cut))


@pytest.mark.parametrize("codec", Codec)
def test_flipped_bits_are_read_or_named(codec):
    """The CRC is not checked here; what it would have caught must not end in anything else."""
    batch = build_batch(RECORDS, compression=codec)
    outcomes = set()
    for position in range(BATCH_HEADER_BYTES, len(batch)):
        for bit in range(8):
            flipped = bytearray(batch)
            flipped[position] ^= 1 << bit
            try:
                list(iterate_records(flipped))
                outcomes.add("read")
            except SiltstoneError as error:
                outcomes.add(type(error).__name__)
    assert outcomes >= {"read", "MalformedRecords"} if codec == Codec.NONE else len(outcomes) > 1


BODY = bytes([0, 0, 0, 1, 1, 0])  # attributes, deltas, no key, no value, no headers


def with_length(body: bytes) -> bytes:
    return bytes([2 * len(body)]) + body


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (b"", "ends early"),
        (b"\x01", "has length -1,"),
        (b"\x7f" + BODY, "has length -64,"),
        (b"\x0e" + BODY, "has length 7, but 6 bytes remain"),
        (b"\x80" * 5 + BODY, "longer than 32"),
        (b"\xff\xff\xff\xff\x1f" + BODY, "more than 32"),
        (b"\x00", "ends early"),
        (b"\x02\x00", "ends early"),
        (with_length(BODY[:-1]), "ends early"),
        (with_length(BODY + b"\0"), "1 bytes follow the last field"),
        (with_length(BODY) + b"\0", "1 bytes follow the 1 records"),
        (with_length(BODY) * 2, "7 bytes follow the 1 records"),
        (with_length(bytes([0]) + b"\x80" * 10 + BODY[2:]), "longer than 64"),
        (with_length(bytes([0, 0]) + b"\x80" * 5 + BODY[3:]), "longer than 32"),
        (with_length(bytes([0, 0, 0, 3, 1, 0])), "field has length -2,"),
        (with_length(bytes([0, 0, 0, 8, 1, 0])), "field has length 4, but 2 bytes remain"),
        (with_length(bytes([0, 0, 0, 1, 3, 0])), "field has length -2,"),
        (with_length(bytes([0, 0, 0, 1, 4, 0])), "field has length 2, but 1 bytes remain"),
        (with_length(bytes([0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 1, 0])), "field has length 2147483647,"),
        (with_length(bytes([0, 0, 0, 1, 1, 1])), "-1 record headers"),
        (with_length(bytes([0, 0, 0, 1, 1, 2])), "1 record headers cannot fit into 0"),
        (with_length(bytes([0, 0, 0, 1, 1, 4, 0, 0])), "2 record headers cannot fit into 2"),
        (with_length(bytes([0, 0, 0, 1, 1, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F])), "2147483647 record headers"),
        (with_length(bytes([0, 0, 0, 1, 1, 2, 1, 0])), "has no name"),
        (with_length(bytes([0, 0, 0, 1, 1, 2, 3, 0])), "field has length -2,"),
        (with_length(bytes([0, 0, 0, 1, 1, 2, 0, 3])), "field has length -2,"),
        (with_length(bytes([0, 0, 0, 1, 1, 2, 0, 2])), "field has length 1, but 0 bytes remain"),
        (with_length(bytes([0, 0, 0, 1, 1, 2, 0, 0x80])), "ends early"),
    ],
)
def test_malformed_records_are_named(record, text):
    assert records_of(of_one_record(with_length(BODY))) == [Record(timestamp_ms=1_000)]
    with pytest.raises(MalformedRecords, match=text):
        list(iterate_records(of_one_record(record)))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"magic": 1}, UnsupportedMagic),
        ({"batch_length": 2**31 - 1}, TruncatedBatch),
        ({"batch_length": -(2**31)}, BatchLengthWrong),
        ({"record_count": -1}, RecordCountWrong),
        ({"attributes": 5}, UnknownCodec),
        ({"attributes": 7}, UnknownCodec),
    ],
)
def test_impossible_headers_are_named(changes, error):
    with pytest.raises(error):
        open_batch(with_header(build_batch(RECORDS), **changes))


@pytest.mark.parametrize("count", [0, 2, 4, 2**31 - 1])
def test_a_record_count_that_is_not_that_of_the_records(count):
    with pytest.raises(MalformedRecords):
        list(iterate_records(with_header(build_batch(RECORDS), record_count=count)))


def test_one_batch_at_a_time():
    with pytest.raises(NotOneBatch):
        iterate_records(build_batch(RECORDS) * 2)


def test_records_before_a_damaged_one_are_yielded():
    batch = build_batch(RECORDS)
    batch[-1:] = b"\x80"
    read = iterate_records(batch)
    assert [next(read).offset, next(read).offset] == [0, 1]
    with pytest.raises(MalformedRecords):
        next(read)


def test_what_is_left_out() -> None:
    assert numbers_left_out(Record).items() >= {"offset": 0}.items()
