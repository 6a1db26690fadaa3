"""Checks a producer's batch by its header alone, before it is appended.

The rules are Kafka's: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords,
LogValidator.validateBatch. Siltstone adds two. A record count that cannot fit into the batch's bytes is refused,
because otherwise a header without records could use up two thousand million offsets. A batch of more than
RECORDS_PER_BATCH_MAX records is refused, because reading it would take too long.

The order of the checks decides which error the producer gets: fields under the CRC are checked only after the CRC,
since a producer sends a batch with a flipped bit again, and gives up on a batch with a wrong field. The checks that
need the records are in ``records.validation``.
"""

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
    UnknownCodec,
)
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_BIT,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    BatchHeader,
    Codec,
    checksum_of,
    read_batch_header,
    refuse_wrong_length,
)
from siltstone.model.buffers import Buffer
from siltstone.model.limits import DECOMPRESSED_BATCH_BYTES_MAX, RECORDS_PER_BATCH_MAX

RECORD_BYTES_MIN = 7
"""The size of a record with null key, null value and no headers: each of its seven fields takes a byte."""

_JUDGED_BITS = CODEC_MASK | LOG_APPEND_TIME_BIT | CONTROL_BIT


def check_batch(buffer: Buffer, batch_bytes_max: int, *, zstd_allowed: bool = True) -> BatchHeader:
    """Returns the header of the single batch that a producer sent for one partition, if it may be appended.

    ``batch_bytes_max`` is the topic's ``max.message.bytes``; zstd is allowed from Produce version 7 on. Raises the
    errors of ``batch_errors``, except those of the records inside the batch.
    """
    if not buffer:
        raise NotOneBatch("no record batch for this partition; send one")
    header = read_batch_header(buffer)
    if header.magic != MAGIC or LENGTH_END + header.batch_length != len(buffer):
        _refuse_shape(buffer, header)
    if header.base_offset != 0:
        raise OffsetNotZero(f"base offset {header.base_offset}; send 0, the broker assigns offsets")
    if len(buffer) > batch_bytes_max:
        raise BatchTooLarge(
            f"batch of {len(buffer)} bytes; this topic allows at most {batch_bytes_max} (max.message.bytes)"
        )
    computed = checksum_of(buffer)
    if computed != header.crc:
        raise BatchChecksumWrong(
            f"batch CRC is {header.crc:08x}, its bytes give {computed:08x}; send it again"
        )
    if header.record_count <= 0 or header.last_offset_delta + 1 != header.record_count:
        raise RecordCountWrong(
            f"{header.record_count} records with last offset delta {header.last_offset_delta}; "
            "send at least one record, and a delta of one less than the number of records"
        )
    if header.attributes & _JUDGED_BITS:
        _refuse_attributes(header, zstd_allowed)
    _refuse_count(header, len(buffer) - BATCH_HEADER_BYTES)
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise SequenceMissing(
            f"sequence number {header.base_sequence} of producer {header.producer_id}; sequence numbers start at 0"
        )
    return header


def _refuse_shape(buffer: Buffer, header: BatchHeader) -> None:
    refuse_wrong_length(header, len(buffer))
    excess = len(buffer) - header.size_bytes
    if excess >= BATCH_HEADER_BYTES and read_batch_header(buffer, header.size_bytes).magic == MAGIC:
        raise NotOneBatch("more than one record batch for this partition; send one")
    raise BatchLengthWrong(f"{excess} bytes follow the batch; send it again")


def _refuse_attributes(header: BatchHeader, zstd_allowed: bool) -> None:
    if header.is_control:
        raise ControlBatchFromClient(
            "a control batch from a client; only the transaction coordinator writes them"
        )
    if header.is_log_append_time:
        raise LogAppendTimeFromClient(
            "a batch with log append time from a client; send create time, only the broker sets log append time"
        )
    if header.codec > Codec.ZSTD:
        raise UnknownCodec(f"compression codec {header.codec} does not exist; use 0 to {Codec.ZSTD:d}")
    if header.codec == Codec.ZSTD and not zstd_allowed:
        raise CodecNotAllowed("zstd needs Produce version 7; use a newer client or another codec")


def _refuse_count(header: BatchHeader, stored_bytes: int) -> None:
    records_bytes = DECOMPRESSED_BATCH_BYTES_MAX if header.codec else stored_bytes
    if header.record_count * RECORD_BYTES_MIN > records_bytes:
        raise RecordCountWrong(
            f"{header.record_count} records cannot fit into {records_bytes} bytes; correct the record count"
        )
    if header.record_count > RECORDS_PER_BATCH_MAX:
        raise BatchTooLarge(
            f"batch of {header.record_count} records: send at most {RECORDS_PER_BATCH_MAX} in one"
        )
