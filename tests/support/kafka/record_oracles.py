"""Three other libraries' codecs for record batches: aiokafka's in C, kafka-python's and kio's in Python.

All speak of records as ours do: offset, timestamp, key, value, headers. What one of them cannot say is left out here:
the first two write no leader epoch, kio knows neither compression nor parts of a second.
"""

import datetime
import io
import warnings
from collections.abc import Sequence
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kio.records import readers, schema, writers

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.reading import Record

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # kafka-python reads its schemas the old way, on import
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

MAGIC = 2
SIZE_LIMIT = 1 << 30

BUILDERS: dict[str, Any] = {"aiokafka": AiokafkaBuilder, "kafka-python": KafkaPythonBuilder}
READERS: dict[str, Any] = {"aiokafka": AiokafkaBatch, "kafka-python": KafkaPythonBatch}
Producer = tuple[int, int, int]
"""Id, epoch, base sequence."""


def built_by(library: str, records: Sequence[Record], codec: Codec, producer: Producer) -> bytes:
    builder = BUILDERS[library](MAGIC, codec, 0, *producer, SIZE_LIMIT)
    for offset, record in enumerate(records):
        taken = builder.append(
            offset,
            timestamp=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=[*record.headers],
        )
        assert taken is not None
    return bytes(builder.build())


def read_by(library: str, batch: bytes | bytearray) -> list[Record]:
    found = READERS[library](bytes(batch))
    assert found.validate_crc()
    return [
        Record(
            offset=one.offset,
            timestamp_ms=one.timestamp,
            key=one.key,
            value=one.value,
            headers=tuple((name, value) for name, value in one.headers),
        )
        for one in found
    ]


def header_read_by(library: str, batch: bytes | bytearray) -> tuple[Any, ...]:
    found = READERS[library](bytes(batch))
    return (
        found.base_offset,
        found.magic,
        found.crc,
        found.attributes,
        found.compression_type,
        bool(found.timestamp_type),
        bool(found.is_transactional),
        bool(found.is_control_batch),
        found.last_offset_delta,
        found.first_timestamp,
        found.max_timestamp,
        found.producer_id,
        found.producer_epoch,
        found.base_sequence,
        found.next_offset,
    )


def kio_reads(batch: bytes | bytearray) -> list[Record]:
    found, size = readers.read_batch(bytes(batch), 0)
    assert size == len(batch)
    return [
        Record(
            offset=one.offset,
            timestamp_ms=round(one.timestamp.timestamp()) * 1_000,
            key=one.key,
            value=one.value,
            headers=tuple((header.key.decode(), header.value) for header in one.headers),
        )
        for one in found.records
    ]


def kio_builds(records: Sequence[Record], producer: Producer) -> bytes:
    """Builds a batch with kio. The timestamps are in whole seconds."""
    producer_id, producer_epoch, base_sequence = producer
    target = io.BytesIO()
    new = schema.NewRecordBatch(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        attributes=0,
        records=tuple(_kio_record(record) for record in records),
    )
    writers.write_batch(target, new)
    return target.getvalue()


def _kio_record(record: Record) -> Any:
    return schema.Record(
        attributes=0,
        timestamp=datetime.datetime.fromtimestamp(record.timestamp_ms / 1_000, datetime.UTC),
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=tuple(schema.RecordHeader(key=name.encode(), value=value) for name, value in record.headers),
    )
