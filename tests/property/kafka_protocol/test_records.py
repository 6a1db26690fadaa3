"""Record batches over random values, against three other libraries, and over damaged bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.kafka_protocol.batch_checks import check_batch
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    Codec,
    patch_checksum,
    patch_log_append_time,
    patch_offset_and_epoch,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch, recompress
from siltstone.kafka_protocol.records.looking_up import first_record_at_or_after, record_with_max_timestamp
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.kafka_protocol.records.validation import validate_keys, validate_records
from siltstone.kafka_protocol.records.varint import INT32_BITS, INT64_BITS, append_varint, decode_varint
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import MIB
from support.kafka.kafka_batches import as_written, encode_batch, numbered, with_body
from support.kafka.record_oracles import (
    BUILDERS,
    READERS,
    built_by,
    header_read_by,
    kio_builds,
    kio_reads,
    read_by,
)
from support.values.examples import examples

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.one_of(st.integers(1_700_000_000_000, 1_700_000_100_000), st.integers(0, 2**41), st.just(-1))
REAL_TIMES = st.integers(0, 2**41)
"""aiokafka writes a first timestamp of -1 wrong: the base becomes the next record's, the delta stays 0."""
FIELDS = st.one_of(st.none(), st.binary(max_size=80), st.sampled_from([b"", b"v" * 200, b"v" * 9_000]))
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=9))), max_size=3)
CODECS = st.sampled_from(Codec)
PRODUCERS = st.one_of(
    st.just((-1, -1, -1)),
    st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)),
)
MANY = settings(max_examples=examples(120), database=None)
SOME = settings(max_examples=examples(60), database=None)


def records(timestamps=TIMESTAMPS, max_size=6):
    return st.lists(
        st.builds(
            Record,
            timestamp_ms=timestamps,
            key=FIELDS,
            value=FIELDS,
            headers=HEADERS.map(tuple),
        ),
        min_size=1,
        max_size=max_size,
    )


def read(batch):
    return as_written([*iterate_records(batch)])


@MANY
@given(records(INT64), CODECS, PRODUCERS, st.integers(0, 2**62), st.integers(-1, 2**31 - 1))
def test_records_come_back(written, codec, producer, base_offset, leader_epoch):
    producer_id, producer_epoch, base_sequence = producer
    batch = build_batch(
        written,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        compression=codec,
    )
    assert check_batch(batch, MIB) == read_batch_header(batch)
    patch_offset_and_epoch(batch, base_offset, leader_epoch)
    header = read_batch_header(batch)
    assert read(batch) == numbered(written, base_offset)
    assert (header.base_offset, header.partition_leader_epoch) == (base_offset, leader_epoch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in written)


@MANY
@given(st.sampled_from([*READERS]), records(), CODECS, PRODUCERS)
def test_other_libraries_read_ours(library, written, codec, producer):
    producer_id, producer_epoch, base_sequence = producer
    batch = build_batch(
        written,
        base_offset=1_000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        compression=codec,
    )
    assert read_by(library, batch) == numbered(written, 1_000)
    assert header_read_by(library, batch) == seen(read_batch_header(batch))


def seen(header: BatchHeader) -> tuple[object, ...]:
    return (
        header.base_offset,
        header.magic,
        header.crc,
        header.attributes,
        header.codec,
        header.is_log_append_time,
        header.is_transactional,
        header.is_control,
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.end_offset,
    )


@MANY
@given(st.sampled_from([*BUILDERS]), records(REAL_TIMES), CODECS, PRODUCERS)
def test_theirs_are_read(library, written, codec, producer):
    theirs = built_by(library, written, codec, producer)
    assert check_batch(theirs, MIB) == read_batch_header(theirs)
    assert read(theirs) == numbered(written)
    summary = validate_records(theirs)
    assert summary.largest_timestamp_ms == read_batch_header(theirs).max_timestamp_ms


@SOME
@given(st.sampled_from([*BUILDERS]), records(REAL_TIMES), PRODUCERS)
def test_uncompressed_bytes_are_the_same(library, written, producer):
    producer_id, producer_epoch, base_sequence = producer
    theirs = bytearray(built_by(library, written, Codec.NONE, producer))
    patch_offset_and_epoch(theirs, 0, -1)  # aiokafka writes -1, kafka-python 0
    ours = build_batch(
        written, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )
    assert ours == theirs


@SOME
@given(records(st.integers(0, 2**31).map(lambda seconds: seconds * 1_000)), PRODUCERS)
def test_kio_agrees(written, producer):
    producer_id, producer_epoch, base_sequence = producer
    ours = build_batch(
        written, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )
    theirs = bytearray(kio_builds(numbered(written), producer))
    patch_offset_and_epoch(theirs, 0, -1)
    assert kio_reads(ours) == numbered(written)
    assert theirs == ours


@SOME
@given(st.sampled_from([*READERS]), records(), CODECS, st.integers(0, 2**41))
def test_log_append_time_as_others_see_it(library, written, codec, now_ms):
    batch = build_batch(written, compression=codec)
    patch_log_append_time(batch, now_ms)
    assert read_by(library, batch) == read(batch)
    assert {record.timestamp_ms for record in read(batch)} == {now_ms}


@SOME
@given(records(max_size=12), CODECS, CODECS, st.data())
def test_recompressed_and_compacted(written, before, after, data):
    batch = build_batch(written, base_offset=500, compression=before)
    again = recompress(batch, after)
    assert read(again) == numbered(written, 500)
    kept = data.draw(
        st.lists(st.sampled_from(numbered(written, 500)), unique_by=lambda record: record.offset)
    )
    kept.sort(key=lambda record: record.offset)
    compacted = encode_batch(read_batch_header(again), kept)
    assert read(compacted) == kept
    assert read_batch_header(compacted).end_offset == 500 + len(written)


@MANY
@given(records(max_size=12), CODECS, TIMESTAMPS, st.integers(498, 512), st.booleans())
def test_look_ups_against_all_records(written, codec, timestamp_ms, start_offset, appended):
    batch = build_batch(written, base_offset=500, compression=codec)
    if appended:
        patch_log_append_time(batch, 1_700_000_000_500)
    every = [(record.offset, record.timestamp_ms) for record in iterate_records(batch)]
    left = [one for one in every if one[0] >= start_offset]
    later = [one for one in left if one[1] >= timestamp_ms]
    newest = [one for one in left if one[1] == max(time for _, time in left)]
    assert first_record_at_or_after(batch, timestamp_ms, start_offset) == next(iter(later), None)
    assert record_with_max_timestamp(batch, start_offset) == next(iter(newest), None)


@MANY
@given(records(max_size=12), CODECS)
def test_keys_against_all_records(written, codec):
    batch = build_batch(written, compression=codec)
    keyless = [index for index, record in enumerate(written) if record.key is None]
    assert validate_keys(batch) == validate_records(batch).without_key == tuple(keyless)


EVERY_READER = [
    lambda batch: [*iterate_records(batch)],
    validate_records,
    validate_keys,
    record_with_max_timestamp,
    lambda batch: recompress(batch, Codec.NONE),
]


@MANY
@given(
    records(), CODECS, st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_damaged_records_are_read_or_named(written, codec, damages):
    """With a header that agrees: what one could send on purpose."""
    batch = build_batch(written, compression=codec)
    for place, value in damages:
        batch[BATCH_HEADER_BYTES + place % (len(batch) - BATCH_HEADER_BYTES)] = value
    patch_checksum(batch)
    assert check_batch(batch, MIB).record_count == len(written)
    read_or_named(batch)


@MANY
@given(st.binary(max_size=200), st.integers(0, 7), st.integers(-1, 2**31 - 1))
def test_any_bytes_are_read_or_named(body, codec, record_count):
    read_or_named(with_body(build_batch([Record()]), body, attributes=codec, record_count=record_count))


@MANY
@given(st.binary(max_size=200))
def test_any_bytes_are_a_batch_or_named(buffer):
    with pytest.raises(SiltstoneError):
        check_batch(buffer, MIB)
    read_or_named(buffer)


def read_or_named(batch):
    for reader in EVERY_READER:
        try:
            reader(batch)
        except SiltstoneError as error:
            assert str(error)


@MANY
@given(st.data(), st.sampled_from([INT32_BITS, INT64_BITS]))
def test_varints(data, bits):
    value = data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    written = bytearray()
    append_varint(written, value)
    assert decode_varint(written, 0, bits) == (value, len(written))
    assert len(written) <= (5 if bits == INT32_BITS else 10)
