"""Kafka record batches for tests, written by hand where ours would refuse to."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    LENGTH_END,
    BatchHeader,
    patch_checksum,
    read_batch_header,
    refuse_wrong_length,
)
from siltstone.kafka_protocol.records.building import append_record, build_batch, seal_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.buffers import Buffer

RECORDS = [
    Record(timestamp_ms=1_000, key=b"key", value=b"value", headers=(("name", b"x"), ("none", None))),
    Record(timestamp_ms=1_003, key=None, value=b"v" * 200),
    Record(timestamp_ms=1_001, key=b"", value=None, headers=(("", b""),)),
]


def bytes_of_records(row: Any) -> bytes:
    """The record batches of a fetched partition, which the codec gives as a list of buffers."""
    return b"".join(row.records or ())


def with_header(batch: bytes | bytearray, **changes: Any) -> bytearray:
    """The batch with other header fields, impossible ones included, and a CRC that holds."""
    header = msgspec.structs.replace(read_batch_header(batch), **changes)
    changed = bytearray(batch)
    BATCH_HEADER.pack_into(changed, 0, *msgspec.structs.astuple(header))
    if "crc" not in changes:
        patch_checksum(changed)
    return changed


def with_body(batch: bytes | bytearray, body: bytes | bytearray, **changes: Any) -> bytearray:
    """The batch with these bytes in the place of its records."""
    length = BATCH_HEADER_BYTES - LENGTH_END + len(body)
    return with_header(bytes(batch[:BATCH_HEADER_BYTES]) + bytes(body), batch_length=length, **changes)


def with_offset_deltas(records: Sequence[Record], deltas: Sequence[int], **header: Any) -> bytearray:
    """A batch of these records whose header is right, and whose offset deltas may be wrong."""
    made = read_batch_header(build_batch(records, **header))
    body = bytearray()
    for record, delta in zip(records, deltas, strict=True):
        append_record(body, record, delta, made.base_timestamp_ms)
    return seal_batch(made, body, len(records))


def of_one_record(body: bytes) -> bytearray:
    """A batch that says it holds one record: these bytes, its length before them included."""
    return with_body(build_batch(RECORDS[:1]), body)


def as_written(records: list[Record]) -> list[Record]:
    """Records that were read, with bytes for views, so that they compare with those built."""
    return [
        msgspec.structs.replace(
            record,
            key=None if record.key is None else bytes(record.key),
            value=None if record.value is None else bytes(record.value),
            headers=tuple((name, None if value is None else bytes(value)) for name, value in record.headers),
        )
        for record in records
    ]


def numbered(records: list[Record], base_offset: int = 0) -> list[Record]:
    return [
        msgspec.structs.replace(record, offset=base_offset + index) for index, record in enumerate(records)
    ]


def iterate_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Returns the position and the header of each batch of the buffer. A batch is at ``[position:position +
    size_bytes]``. Raises TruncatedBatch, BatchLengthWrong, UnsupportedMagic at bytes that are no whole batch."""
    position = 0
    while position < len(buffer):
        header = read_batch_header(buffer, position)
        refuse_wrong_length(header, len(buffer) - position)
        yield position, header
        position += header.size_bytes


def encode_batch(header: BatchHeader, records: Iterable[Record]) -> bytearray:
    """The records at their own offsets under this header, whose length, CRC and record count are made anew."""
    body = bytearray()
    count = 0
    for record in records:
        offset_delta = record.offset - header.base_offset
        assert 0 <= offset_delta <= header.last_offset_delta
        append_record(body, record, offset_delta, header.base_timestamp_ms)
        count += 1
    return seal_batch(header, body, count)
