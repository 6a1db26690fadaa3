import msgspec
import pytest

from siltstone.kafka_protocol.batch_checks import check_batch
from siltstone.kafka_protocol.batch_errors import DecompressedTooLarge, DecompressionFailed
from siltstone.kafka_protocol.batch_header import (
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Codec,
    patch_log_append_time,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch, recompress
from siltstone.kafka_protocol.records.reading import iterate_records
from support.kafka.kafka_batches import RECORDS, as_written, numbered, with_body


@pytest.mark.parametrize("before", Codec)
@pytest.mark.parametrize("after", Codec)
def test_only_codec_length_and_checksum_change(before, after):
    batch = build_batch(
        RECORDS,
        base_offset=7,
        partition_leader_epoch=8,
        producer_id=9,
        producer_epoch=10,
        base_sequence=11,
        attributes=TRANSACTIONAL_BIT,
        compression=before,
    )
    kept = bytes(batch)
    again = recompress(memoryview(batch), after)
    assert batch == kept
    assert as_written([*iterate_records(again)]) == numbered(RECORDS, 7)
    old, new = read_batch_header(batch), read_batch_header(again)
    assert new == msgspec.structs.replace(
        old, attributes=TRANSACTIONAL_BIT | after, batch_length=len(again) - 12, crc=new.crc
    )


@pytest.mark.parametrize("codec", Codec)
def test_a_broker_takes_it(codec):
    assert check_batch(recompress(build_batch(RECORDS), codec), 1_000).codec == codec


def test_log_append_time_stays():
    batch = build_batch(RECORDS)
    patch_log_append_time(batch, 99)
    again = recompress(batch, Codec.GZIP)
    assert read_batch_header(again).attributes == LOG_APPEND_TIME_BIT | Codec.GZIP
    assert {record.timestamp_ms for record in iterate_records(again)} == {99}


def test_no_record_is_read():
    """A malformed batch stays malformed, and its readers find it."""
    batch = with_body(build_batch(RECORDS), b"no records")
    assert recompress(recompress(batch, Codec.ZSTD), Codec.NONE) == batch


def test_errors_are_those_of_reading():
    with pytest.raises(DecompressionFailed):
        recompress(with_body(build_batch(RECORDS, compression=Codec.ZSTD), b"garbage"), Codec.NONE)
    with pytest.raises(DecompressedTooLarge):
        recompress(build_batch(RECORDS, compression=Codec.ZSTD), Codec.NONE, 10)
