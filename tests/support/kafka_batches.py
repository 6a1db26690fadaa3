"""Kafka record batches for tests, written by hand where ours would refuse to."""

from typing import Any

import msgspec

from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    LENGTH_END,
    patch_checksum,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.record import Record

RECORDS = [
    Record(timestamp_ms=1_000, key=b"key", value=b"value", headers=(("name", b"x"), ("none", None))),
    Record(timestamp_ms=1_003, key=None, value=b"v" * 200),
    Record(timestamp_ms=1_001, key=b"", value=None, headers=(("", b""),)),
]


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
