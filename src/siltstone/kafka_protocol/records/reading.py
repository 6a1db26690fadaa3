"""Reads the records of one batch, in order. Uncompressed keys, values and headers are not copied.

Layout of a record; numbers are zigzag varints of 32 bits unless stated otherwise:

======================= ====================================================================================
field                   form
======================= ====================================================================================
length                  the bytes that follow this field
attributes              one byte, unused
timestamp delta         64 bits; added to the batch's base timestamp, wrapping at 64 bits
offset delta            added to the batch's base offset
key length, key         -1: null
value length, value     -1: null
number of headers       then for each: name length, name (UTF-8), value length (-1: null), value
======================= ====================================================================================

Every length is compared with the bytes that remain in its record before it is used, so damaged bytes raise
MalformedRecords and no other exception. The CRC was checked when the broker received the batch and is not checked
again.

``skim_deltas`` and ``records_without_key`` read only the first fields of each record, which is faster than making
``Record``s. Read next: ``building``.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from siltstone.kafka_protocol.batch_errors import (
    MalformedRecords,
    NotOneBatch,
    OffsetDeltaWrong,
    RecordCountWrong,
)
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    Codec,
    read_batch_header,
    refuse_wrong_length,
)
from siltstone.kafka_protocol.records.compression import decompress
from siltstone.kafka_protocol.records.varint import INT64_BITS, decode_varint
from siltstone.model.buffers import Buffer
from siltstone.model.limits import DECOMPRESSED_BATCH_BYTES_MAX, RECORDS_READ_AT_ONCE_MAX
from siltstone.model.record_batch import NO_TIMESTAMP

RecordHeader: TypeAlias = tuple[str, Buffer | None]


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record. When it was read, key, value and header values are views into the batch or its decompressed bytes.

    A header name that is not UTF-8 is read with surrogate escapes, so that it can be written back unchanged.
    """

    offset: int = 0
    timestamp_ms: int = NO_TIMESTAMP
    key: Buffer | None = None
    value: Buffer | None = None
    headers: tuple[RecordHeader, ...] = ()


OpenedBatch: TypeAlias = tuple[BatchHeader, memoryview]
_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1


def takes_long_to_read(buffer: Buffer) -> bool:
    """Returns whether reading the batch takes so long that it must not block the event loop: the batch is compressed or
    has many records. False if the buffer has no complete header."""
    if len(buffer) < BATCH_HEADER_BYTES:
        return False
    header = read_batch_header(buffer)
    return header.codec != Codec.NONE or header.record_count > RECORDS_READ_AT_ONCE_MAX


def open_batch(
    buffer: Buffer, decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX, *, as_kafka: bool = False
) -> OpenedBatch:
    """Returns the header of the single batch in the buffer, and its records, decompressed; ``as_kafka`` decompresses
    no more than Kafka's reader would.

    Raises TruncatedBatch, BatchLengthWrong, UnsupportedMagic, NotOneBatch, RecordCountWrong, UnknownCodec,
    DecompressionFailed, DecompressedTooLarge.
    """
    header = read_batch_header(buffer)
    refuse_wrong_length(header, len(buffer))
    if header.size_bytes != len(buffer):
        raise NotOneBatch(
            f"{len(buffer) - header.size_bytes} bytes follow the batch; give one batch at a time"
        )
    if header.record_count < 0:
        raise RecordCountWrong(f"the batch header has a negative record count, {header.record_count}")
    records = memoryview(buffer)[BATCH_HEADER_BYTES:]
    return header, decompress(header.codec, records, decompressed_bytes_max, as_kafka=as_kafka)


def iterate_records(
    buffer: Buffer, decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> Iterator[Record]:
    """Yields the records of the single batch in the buffer. Raises what ``open_batch`` does, and MalformedRecords
    during the iteration."""
    header, data = open_batch(buffer, decompressed_bytes_max)
    return read_records(header, data)


def read_records(header: BatchHeader, data: memoryview) -> Iterator[Record]:
    """Yields the records of an opened batch. Raises MalformedRecords, also if there are fewer or more than its header
    says."""
    position = 0
    for index in range(header.record_count):
        try:
            position, end = record_end(data, position, index)
            yield _read_record(header, data[position:end])
        except IndexError as cause:
            raise MalformedRecords(f"record {index} of {header.record_count} ends early") from cause
        position = end
    refuse_rest(header, data, position)


def record_end(data: memoryview, position: int, index: int) -> tuple[int, int]:
    """Returns, for the record at ``position``: the position after its length field, and the position of its end."""
    length, position = decode_varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise MalformedRecords(f"record {index} has length {length}, but {len(data) - position} bytes remain")
    return position, end


def refuse_rest(header: BatchHeader, data: memoryview, position: int) -> None:
    if position != len(data):
        raise MalformedRecords(
            f"{len(data) - position} bytes follow the {header.record_count} records of the batch"
        )


def timestamp_of(header: BatchHeader, delta: int) -> int:
    if header.is_log_append_time:
        return header.max_timestamp_ms
    timestamp_ms = header.base_timestamp_ms + delta
    if _INT64_MIN <= timestamp_ms <= _INT64_MAX:
        return timestamp_ms
    return (timestamp_ms - _INT64_MIN) % 2**64 + _INT64_MIN


def _read_record(header: BatchHeader, body: memoryview) -> Record:
    delta, position = decode_varint(body, 1, INT64_BITS)
    offset_delta, position = decode_varint(body, position)
    key, position = _read_nullable(body, position)
    value, position = _read_nullable(body, position)
    headers: tuple[RecordHeader, ...] = ()
    count, position = decode_varint(body, position)
    if count:
        headers, position = _read_headers(body, position, count)
    if position != len(body):
        raise MalformedRecords(f"{len(body) - position} bytes follow the last field of a record")
    return Record(
        offset=header.base_offset + offset_delta,
        timestamp_ms=timestamp_of(header, delta),
        key=key,
        value=value,
        headers=headers,
    )


def _read_nullable(body: memoryview, position: int) -> tuple[memoryview | None, int]:
    length, position = decode_varint(body, position)
    if length == -1:
        return None, position
    end = position + length
    if length < 0 or end > len(body):
        raise MalformedRecords(
            f"a field has length {length}, but {len(body) - position} bytes remain in its record"
        )
    return body[position:end], end


def _read_headers(body: memoryview, position: int, count: int) -> tuple[tuple[RecordHeader, ...], int]:
    most = (len(body) - position) // 2  # each header has two lengths of at least one byte
    if not 0 <= count <= most:
        raise MalformedRecords(f"{count} record headers cannot fit into {len(body) - position} bytes")
    headers: list[RecordHeader] = []
    for _ in range(count):
        name, position = _read_nullable(body, position)
        value, position = _read_nullable(body, position)
        if name is None:
            raise MalformedRecords("a record header has no name")
        headers.append((str(name, "utf-8", "surrogateescape"), value))
    return tuple(headers), position


def skim_deltas(header: BatchHeader, data: memoryview) -> Iterator[tuple[int, int]]:
    """Yields the timestamp delta and the offset delta of each record of an opened batch, in order.

    Raises MalformedRecords for damage in the lengths and deltas; it does not read keys, values and headers.
    """
    position = 0
    for index in range(header.record_count):
        try:
            position, end = record_end(data, position, index)
            timestamp_delta, position = decode_varint(data, position + 1, INT64_BITS)
            offset_delta, position = decode_varint(data, position)
        except IndexError as cause:
            raise MalformedRecords(f"record {index} of {header.record_count} ends early") from cause
        if position > end:
            raise MalformedRecords(f"record {index} ends before its offset delta does")
        yield timestamp_delta, offset_delta
        position = end
    refuse_rest(header, data, position)


def records_without_key(header: BatchHeader, data: memoryview, count_max: int) -> list[int]:
    """Returns the indexes, from 0, of the first ``count_max`` records without a key in an opened batch. Raises
    OffsetDeltaWrong if the offset deltas are not 0, 1, 2 …, and MalformedRecords like ``skim_deltas``.

    The broker calls this for every batch of a compacted topic, so varints are read inline, which is three times faster:
    most record lengths and offset deltas take one or two bytes, the timestamp delta is skipped, and only the sign of
    the key's length is read.
    """
    without_key: list[int] = []
    position = 0
    index = 0
    try:
        for index in range(header.record_count):
            low, high = data[position], data[position + 1]
            if low >= 0x80 > high and not low & 1:
                position += 2
                end = position + ((low & 0x7F) >> 1 | high << 6)
            else:
                position, end = record_end(data, position, index)
            position = _after_varint(data, position + 1)
            if index < 0x40 and data[position] == index << 1:
                position += 1
            elif (
                index < 0x2000
                and data[position + 1] == index >> 6
                and data[position] == index << 1 & 0x7F | 0x80
            ):
                position += 2
            else:
                position = _after_delta(data, position, index)
            if data[position] & 1:
                _refuse_negative(data, position)
                if len(without_key) < count_max:
                    without_key.append(index)
            if position >= end:
                raise MalformedRecords(f"record {index} ends before its key")
            position = end
    except IndexError as cause:
        raise MalformedRecords(f"record {index} of {header.record_count} ends early") from cause
    refuse_rest(header, data, position)
    return without_key


def _after_varint(data: memoryview, position: int) -> int:
    while data[position] >= 0x80:
        position += 1
    return position + 1


def _after_delta(data: memoryview, position: int, index: int) -> int:
    """Returns the position after the offset delta of the record. Raises OffsetDeltaWrong unless it is ``index``."""
    delta, position = decode_varint(data, position)
    if delta != index:
        raise OffsetDeltaWrong(f"record {index} has offset delta {delta}; send 0, 1, 2 …")
    return position


def _refuse_negative(data: memoryview, position: int) -> None:
    """Raises MalformedRecords for a negative key length other than -1, which means null."""
    length, _ = decode_varint(data, position)
    if length != -1:
        raise MalformedRecords(f"a key has length {length}")
