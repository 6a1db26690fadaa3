"""Builds batches: for the group coordinator, the client, compaction and the tests.

``build_batch`` gives the records consecutive offsets, as a producer does. ``seal_batch`` puts a header before records
that are encoded already; compaction uses it, because the remaining records keep their offsets and timestamps.
``recompress`` changes the compression of a batch, for a topic whose ``compression.type`` differs from the producer's.
Read next: ``reading``.
"""

from collections.abc import Sequence

import msgspec

from siltstone.kafka_protocol.batch_errors import RecordCountWrong
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER,
    CODEC_MASK,
    LENGTH_END,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Codec,
    patch_checksum,
)
from siltstone.kafka_protocol.records.compression import compress
from siltstone.kafka_protocol.records.reading import Record, open_batch, skim_deltas
from siltstone.kafka_protocol.records.varint import append_varint
from siltstone.model.buffers import Buffer
from siltstone.model.limits import DECOMPRESSED_BATCH_BYTES_MAX

_INT64_VALUES = 2**64


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
    compression: Codec = Codec.NONE,
) -> bytearray:
    """Builds one batch whose records have the offsets ``base_offset``, + 1, + 2 …; ``Record.offset`` is ignored.

    ``attributes`` are bits of ``batch_header`` without the codec's. Raises RecordCountWrong if there are no records.
    """
    if not records:
        raise RecordCountWrong("a batch cannot be built from no records; give at least one")
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes | compression,
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=records[0].timestamp_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    body = bytearray()
    for offset_delta, record in enumerate(records):
        append_record(body, record, offset_delta, header.base_timestamp_ms)
    return seal_batch(header, body, len(records))


def seal_batch(header: BatchHeader, body: Buffer, record_count: int) -> bytearray:
    """Builds a batch of ``header`` and the encoded records in ``body``, compressed with the header's codec. An empty
    batch, which compaction keeps to preserve a producer's sequence number, is not compressed, as in Kafka."""
    attributes = header.attributes if record_count else header.attributes & ~CODEC_MASK
    compressed = compress(Codec(attributes & CODEC_MASK), body)
    batch = bytearray(BATCH_HEADER.size)
    BATCH_HEADER.pack_into(
        batch, 0,
        header.base_offset, BATCH_HEADER.size - LENGTH_END + len(compressed), header.partition_leader_epoch, MAGIC, 0,
        attributes, header.last_offset_delta, header.base_timestamp_ms, header.max_timestamp_ms, header.producer_id,
        header.producer_epoch, header.base_sequence, record_count,
    )  # fmt: skip
    batch += compressed
    patch_checksum(batch)
    return batch


def append_record(target: bytearray, record: Record, offset_delta: int, base_timestamp_ms: int) -> None:
    body = bytearray(1)  # attributes
    append_varint(body, _wrapped(record.timestamp_ms - base_timestamp_ms))
    append_varint(body, offset_delta)
    _append_nullable(body, record.key)
    _append_nullable(body, record.value)
    append_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_nullable(body, name.encode("utf-8", "surrogateescape"))
        _append_nullable(body, value)
    append_varint(target, len(body))
    target += body


def _append_nullable(target: bytearray, value: Buffer | None) -> None:
    if value is None:
        target.append(1)  # -1
        return
    append_varint(target, len(value))
    target += value


def _wrapped(delta: int) -> int:
    """Returns the delta as a signed 64-bit integer. Two timestamps can differ by more than that; readers wrap in the
    same way."""
    return (delta + _INT64_VALUES // 2) % _INT64_VALUES - _INT64_VALUES // 2


def recompress(
    buffer: Buffer, codec: Codec, decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> bytearray:
    """Returns the batch compressed with ``codec``: only codec, length and CRC of its header change, and no record is
    parsed. The records of lz4 are counted.

    The new batch may be larger than the old one, so the caller checks it against ``max.message.bytes`` again. Raises
    what ``open_batch`` does, and MalformedRecords.
    """
    header, data = open_batch(buffer, decompressed_bytes_max, as_kafka=True)
    if header.codec == Codec.LZ4:
        for _ in skim_deltas(
            header, data
        ):  # Kafka's reader ends at the first frame: records behind it would be lost
            pass
    attributes = header.attributes & ~CODEC_MASK | codec
    return seal_batch(msgspec.structs.replace(header, attributes=attributes), data, header.record_count)
