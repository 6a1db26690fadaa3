import pytest

from siltstone.kafka_protocol.batch_checks import check_batch
from siltstone.kafka_protocol.batch_errors import RecordCountWrong
from siltstone.kafka_protocol.batch_header import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    checksum_of,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch, seal_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from support.kafka.kafka_batches import RECORDS, as_written, encode_batch, numbered


def test_every_field_of_the_header():
    batch = build_batch(
        RECORDS,
        base_offset=7,
        partition_leader_epoch=8,
        producer_id=9,
        producer_epoch=10,
        base_sequence=11,
        attributes=TRANSACTIONAL_BIT,
        compression=Codec.SNAPPY,
    )
    assert read_batch_header(batch) == BatchHeader(
        base_offset=7,
        batch_length=len(batch) - 12,
        partition_leader_epoch=8,
        magic=2,
        crc=checksum_of(batch),
        attributes=0x12,
        last_offset_delta=2,
        base_timestamp_ms=1_000,
        max_timestamp_ms=1_003,
        producer_id=9,
        producer_epoch=10,
        base_sequence=11,
        record_count=3,
    )


def test_what_is_not_given_is_absent():
    header = read_batch_header(build_batch([Record(value=b"v")]))
    assert (header.base_offset, header.partition_leader_epoch, header.attributes) == (0, -1, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (-1, -1)


@pytest.mark.parametrize("codec", Codec)
def test_a_broker_takes_it(codec):
    assert check_batch(build_batch(RECORDS, compression=codec), 1_000).codec == codec


def test_offsets_are_given_whatever_the_records_carry():
    records = [Record(offset=900, value=b"a"), Record(offset=3, value=b"b")]
    read = [*iterate_records(build_batch(records, base_offset=50))]
    assert [(record.offset, bytes(record.value)) for record in read] == [(50, b"a"), (51, b"b")]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_fields_of_any_buffer(kind):
    record = Record(timestamp_ms=1, key=kind(b"k"), value=kind(b"v"), headers=(("h", kind(b"x")),))
    assert build_batch([record]) == build_batch([*as_written([record])])


def test_records_that_were_read_are_written_again_as_they_were():
    batch = build_batch(RECORDS, base_offset=9, compression=Codec.NONE)
    assert encode_batch(read_batch_header(batch), iterate_records(batch)) == batch


def test_no_records():
    with pytest.raises(RecordCountWrong):
        build_batch([])


def test_a_record_outside_the_header_s_offsets_is_a_bug():
    header = read_batch_header(build_batch(RECORDS, base_offset=10))
    for offset in (9, 13):
        with pytest.raises(AssertionError):
            encode_batch(header, [Record(offset=offset)])
    assert len([*iterate_records(encode_batch(header, numbered(RECORDS, 10)))]) == 3


def test_an_empty_batch_is_not_compressed():
    header = read_batch_header(build_batch(RECORDS, attributes=TRANSACTIONAL_BIT, compression=Codec.ZSTD))
    sealed = read_batch_header(seal_batch(header, b"", 0))
    assert (sealed.attributes, sealed.record_count, sealed.size_bytes) == (TRANSACTIONAL_BIT, 0, 61)
