import pytest

from siltstone.kafka_protocol.batch_errors import MalformedRecords, OffsetDeltaWrong, RecordCountWrong
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    Codec,
    patch_log_append_time,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch, recompress
from siltstone.kafka_protocol.records.compression import compress
from siltstone.kafka_protocol.records.reading import Record
from siltstone.kafka_protocol.records.validation import (
    RECORDS_NAMED_MAX,
    RecordsSummary,
    validate_keys,
    validate_records,
)
from siltstone.model.errors import SiltstoneError
from support.kafka.kafka_batches import (
    RECORDS,
    encode_batch,
    of_one_record,
    with_body,
    with_header,
    with_offset_deltas,
)

KEYED = [Record(timestamp_ms=5, key=key, value=b"v" * 300) for key in (b"a", b"", b"c" * 9_000)]


def with_deltas(*deltas):
    return with_offset_deltas(KEYED[:1] * len(deltas), deltas)


@pytest.mark.parametrize("codec", Codec)
def test_what_the_records_say(codec):
    assert validate_records(build_batch(RECORDS, compression=codec)) == RecordsSummary(1_000, 1_003, (1,))
    assert validate_records(build_batch(KEYED, compression=codec)) == RecordsSummary(5, 5, ())


def test_base_offset_does_not_matter():
    assert validate_records(build_batch(RECORDS, base_offset=2**40)) == RecordsSummary(1_000, 1_003, (1,))


def test_a_header_that_says_another_largest_timestamp_is_no_error():
    """Some clients leave it at -1; the broker corrects it from the summary."""
    assert (
        validate_records(with_header(build_batch(RECORDS), max_timestamp_ms=-1)).largest_timestamp_ms == 1_003
    )


def test_log_append_time():
    batch = build_batch(RECORDS)
    patch_log_append_time(batch, 77)
    assert validate_records(batch) == RecordsSummary(77, 77, (1,))


@pytest.mark.parametrize("deltas", [(1,), (-1,), (0, 0), (0, 2), (1, 0), (0, 1, 3), (0, -1), (2**31 - 1,)])
def test_offset_deltas_that_do_not_count(deltas):
    assert validate_records(with_deltas(0, 1, 2)).without_key == validate_keys(with_deltas(0, 1, 2)) == ()
    with pytest.raises(OffsetDeltaWrong):
        validate_records(with_deltas(*deltas))
    with pytest.raises(OffsetDeltaWrong):
        validate_keys(with_deltas(*deltas))


@pytest.mark.parametrize("count", [1, 2, 4, 100])
def test_a_count_that_is_not_that_of_the_records(count):
    with pytest.raises(MalformedRecords):
        validate_records(with_header(build_batch(RECORDS), record_count=count, last_offset_delta=count - 1))


def test_no_records():
    with pytest.raises(RecordCountWrong):
        validate_records(encode_batch(read_batch_header(build_batch(RECORDS)), []))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("place", [0, 1, 50, 99, None])
def test_the_records_without_a_key(codec, place):
    records = (KEYED * 34)[:100]
    if place is not None:
        records[place] = Record(timestamp_ms=5, value=b"v")
        records.append(Record(timestamp_ms=5))
    batch = build_batch(records, compression=codec)
    expected = () if place is None else (place, 100)
    assert validate_keys(batch) == validate_records(batch).without_key == expected


def test_as_many_records_without_a_key_are_named_as_the_limit_says():
    batch = build_batch([Record(timestamp_ms=5)] * (RECORDS_NAMED_MAX + 3))
    named = tuple(range(RECORDS_NAMED_MAX))
    assert validate_keys(batch) == validate_records(batch).without_key == named
    behind = batch + b"x"
    with pytest.raises(MalformedRecords):
        validate_keys(with_body(behind, behind[61:]))


def test_offset_deltas_of_every_length_are_read():
    """A delta takes one byte up to 63, two up to 8191, then three."""
    records = [Record(timestamp_ms=5, key=b"k")] * 8_200
    assert validate_keys(build_batch(records)) == ()
    for place in (63, 64, 8_191, 8_192, 8_199):
        deltas = [*range(8_200)]
        deltas[place] += 1
        with pytest.raises(OffsetDeltaWrong, match=f"record {place} "):
            validate_keys(with_offset_deltas(records, deltas))


@pytest.mark.parametrize(
    "value_bytes", [0, 40, 55, 56, 57, 58, 59, 60, 300, 8_180, 8_185, 8_190, 8_200, 3_000_000]
)
def test_keys_behind_lengths_of_every_size(value_bytes):
    """A length takes one byte up to 63, two up to 8191, then three."""
    keyed = Record(timestamp_ms=1, key=b"k", value=b"v" * value_bytes)
    keyless = Record(timestamp_ms=2**40, value=b"v" * value_bytes)
    assert validate_keys(build_batch([keyed, keyed])) == ()
    assert validate_keys(build_batch([keyed, keyless, keyed])) == (1,)


def test_a_null_key_in_more_bytes_than_it_needs():
    body = bytes([0, 0, 0, 0x81, 0x00, 1, 0])
    assert validate_keys(of_one_record(bytes([2 * len(body)]) + body)) == (0,)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\x01",
        b"\x80",
        b"\x0e\x00\x00\x00\x00\x01",
        b"\x80" * 5 + b"\x00" * 20,
        b"\x02\x00",
        b"\x04\x00\x00",
        b"\x06\x00\x00\x00",
        b"\x06\x00\x80\x00\x00\x00",
        b"\x0c\x00\x00\x00\x03\x01\x00",
        b"\x0c\x00\x00\x00\x00\x01\x00\x00",
        b"\x8d\x00\x00\x00\x00\x00\x01\x00",
    ],
)
def test_malformed_records_are_named(record):
    with pytest.raises(MalformedRecords):
        validate_keys(of_one_record(record))
    with pytest.raises(MalformedRecords):
        validate_records(of_one_record(record))


def test_a_record_does_not_go_on_in_the_next():
    """The first says it is one byte long, and what follows would do for its fields: a key of one byte."""
    whole = bytes([14, 0, 0, 0, 2, 7, 1, 0])
    assert validate_keys(with_body(build_batch(KEYED[:1]), whole)) == ()
    with pytest.raises(MalformedRecords):
        validate_keys(with_body(build_batch(KEYED[:2]), bytes([2, 0]) + whole))


@pytest.mark.parametrize("codec", Codec)
def test_flipped_bits_are_read_or_named(codec):
    batch = build_batch(RECORDS, compression=codec)
    for bit in range(61 * 8, len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert set(validate_keys(flipped)) <= {0, 1, 2}
        except SiltstoneError as error:
            assert str(error)


@pytest.mark.parametrize(
    "check", [validate_records, validate_keys, lambda batch: recompress(batch, Codec.ZSTD)]
)
def test_records_behind_the_first_lz4_frame_are_missing_as_for_kafkas_reader(check):
    plain = build_batch([Record(key=b"k", value=b"v" * 100) for _ in range(20)])
    body = bytes(plain[BATCH_HEADER_BYTES:])
    for frames, is_taken in (((body,), True), ((body[:900], body[900:]), False), ((body, b""), True)):
        packed = b"".join(bytes(compress(Codec.LZ4, each)) for each in frames)
        batch = with_body(plain, packed, attributes=Codec.LZ4)
        if is_taken:
            check(batch)
            continue
        with pytest.raises((MalformedRecords, RecordCountWrong)):
            check(batch)
