import pytest

from siltstone.kafka_protocol.batch_checks import check_batch
from siltstone.kafka_protocol.batch_errors import (
    BatchChecksumWrong,
    BatchLengthWrong,
    BatchTooLarge,
    CodecNotAllowed,
    ControlBatchFromClient,
    LogAppendTimeFromClient,
    NotOneBatch,
    OffsetNotZero,
    RecordCountWrong,
    SequenceMissing,
    TruncatedBatch,
    UnknownCodec,
    UnsupportedMagic,
)
from siltstone.kafka_protocol.batch_header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Codec,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.model.errors import CorruptData, InvalidRequest
from support.kafka.kafka_batches import RECORDS, with_header

BATCH = build_batch(RECORDS)
LARGE = 1_000_000


def checked(batch, **options):
    return check_batch(memoryview(batch), LARGE, **options)


@pytest.mark.parametrize("codec", Codec)
def test_a_producer_s_batch_passes(codec):
    batch = build_batch(RECORDS, producer_id=5, producer_epoch=0, base_sequence=0, compression=codec)
    assert checked(batch) == read_batch_header(batch)


@pytest.mark.parametrize("attributes", [TRANSACTIONAL_BIT, DELETE_HORIZON_BIT, 0x7F80])
def test_bits_that_nobody_refuses(attributes):
    assert checked(with_header(BATCH, attributes=attributes)).attributes == attributes


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"magic": 0}, UnsupportedMagic),
        ({"magic": 1}, UnsupportedMagic),
        ({"magic": 3}, UnsupportedMagic),
        ({"base_offset": 1}, OffsetNotZero),
        ({"base_offset": -1}, OffsetNotZero),
        ({"batch_length": len(BATCH) - 12 + 1}, TruncatedBatch),
        ({"batch_length": 2**31 - 1}, TruncatedBatch),
        ({"batch_length": len(BATCH) - 12 - 1}, BatchLengthWrong),
        ({"batch_length": 48}, BatchLengthWrong),
        ({"batch_length": 0}, BatchLengthWrong),
        ({"batch_length": -1}, BatchLengthWrong),
        ({"crc": 0}, BatchChecksumWrong),
        ({"record_count": 0}, RecordCountWrong),
        ({"record_count": -1}, RecordCountWrong),
        ({"record_count": 2}, RecordCountWrong),
        ({"record_count": 4}, RecordCountWrong),
        ({"last_offset_delta": 3}, RecordCountWrong),
        ({"last_offset_delta": -1, "record_count": 0}, RecordCountWrong),
        ({"last_offset_delta": -4, "record_count": -3}, RecordCountWrong),
        ({"attributes": CONTROL_BIT}, ControlBatchFromClient),
        ({"attributes": CONTROL_BIT | TRANSACTIONAL_BIT}, ControlBatchFromClient),
        ({"attributes": LOG_APPEND_TIME_BIT}, LogAppendTimeFromClient),
        ({"attributes": 5}, UnknownCodec),
        ({"attributes": 6}, UnknownCodec),
        ({"attributes": 7}, UnknownCodec),
        ({"producer_id": 0}, SequenceMissing),
        ({"producer_id": 9, "base_sequence": -2}, SequenceMissing),
    ],
)
def test_section_2_2_refusals(changes, error):
    with pytest.raises(error):
        checked(with_header(BATCH, **changes))


def test_no_producer_id_needs_no_sequence():
    assert checked(with_header(BATCH, producer_id=-1, base_sequence=-1)).base_sequence == -1


@pytest.mark.parametrize("codec", Codec)
def test_zstd_needs_produce_7(codec):
    batch = build_batch(RECORDS, compression=codec)
    if codec == Codec.ZSTD:
        with pytest.raises(CodecNotAllowed):
            checked(batch, zstd_allowed=False)
    else:
        assert checked(batch, zstd_allowed=False).codec == codec


def test_size_limit_is_inclusive():
    assert check_batch(BATCH, len(BATCH)).record_count == 3
    with pytest.raises(BatchTooLarge, match=f"{len(BATCH)} bytes"):
        check_batch(BATCH, len(BATCH) - 1)


@pytest.mark.parametrize("batch", [b"", BATCH + BATCH, BATCH + BATCH + BATCH, BATCH + BATCH[:61]])
def test_exactly_one_batch(batch):
    with pytest.raises(NotOneBatch):
        checked(batch)


@pytest.mark.parametrize("excess", [b"\0", b"\0" * 60, b"\0" * 61, b"\xff" * 100])
def test_excess_that_is_no_batch_is_to_be_sent_again(excess):
    with pytest.raises(BatchLengthWrong, match=f"{len(excess)} bytes follow"):
        checked(BATCH + excess)


def test_truncated_at_every_byte():
    for length in range(1, len(BATCH)):
        with pytest.raises(TruncatedBatch):
            checked(BATCH[:length])


def test_a_flipped_bit_is_corruption_and_no_fault_of_the_producer():
    """Bytes before the CRC's reach are judged by what they say; a leader epoch says nothing yet."""
    judged_elsewhere = {*range(8), *range(12, 17)}
    for position in set(range(len(BATCH))) - judged_elsewhere:
        for bit in range(8):
            flipped = bytearray(BATCH)
            flipped[position] ^= 1 << bit
            with pytest.raises(CorruptData):
                checked(flipped)


def test_what_lies_before_the_checksum_has_its_own_rules():
    for position in range(8):
        flipped = bytearray(BATCH)
        flipped[position] ^= 0x80
        with pytest.raises(OffsetNotZero):
            checked(flipped)
    assert checked(with_header(BATCH, partition_leader_epoch=77)).partition_leader_epoch == 77


def test_the_causes_are_of_two_kinds():
    """The broker answers the first with an error that clients retry, and the second with one they do not."""
    assert all(
        issubclass(error, CorruptData) for error in (TruncatedBatch, BatchLengthWrong, BatchChecksumWrong)
    )
    assert all(issubclass(error, InvalidRequest) for error in (NotOneBatch, OffsetNotZero, BatchTooLarge))


def test_more_records_than_fit_are_refused_by_the_header_alone():
    """Each takes seven bytes at least."""
    fitting = (len(BATCH) - 61) // 7
    assert checked(with_header(BATCH, record_count=fitting, last_offset_delta=fitting - 1))
    for count in (fitting + 1, 2**31 - 1):
        with pytest.raises(RecordCountWrong, match="cannot fit"):
            checked(with_header(BATCH, record_count=count, last_offset_delta=count - 1))


def test_of_compressed_records_no_more_may_be_claimed_than_are_ever_decompressed():
    batch = build_batch(RECORDS, compression=Codec.LZ4)
    assert checked(with_header(batch, record_count=1_000_000, last_offset_delta=999_999))
    with pytest.raises(BatchTooLarge, match="batch of 1000001 records: send at most 1000000 in one"):
        checked(with_header(batch, record_count=1_000_001, last_offset_delta=1_000_000))
    with pytest.raises(RecordCountWrong, match="cannot fit"):
        checked(with_header(batch, record_count=2**31 - 1, last_offset_delta=2**31 - 2))
