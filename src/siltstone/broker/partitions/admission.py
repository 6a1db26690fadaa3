"""Checks that a partition makes of a batch before it appends it, beyond the batch's own consistency; and what it
rewrites.

Source: Apache Kafka's ``LogValidator``, ``UnifiedLog.analyzeAndValidateRecords`` and ``ProducerAppendInfo``. Only the
fields that the broker owns are rewritten; a topic with another ``compression.type`` has its batches compressed again.
"""

from typing import TypeAlias

import msgspec

from siltstone.kafka_protocol.batch_checks import check_batch
from siltstone.kafka_protocol.batch_errors import BatchTooLarge
from siltstone.kafka_protocol.batch_header import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    patch_log_append_time,
    patch_max_timestamp,
    read_batch_header,
)
from siltstone.kafka_protocol.records.building import recompress
from siltstone.kafka_protocol.records.reading import open_batch, skim_deltas, takes_long_to_read, timestamp_of
from siltstone.kafka_protocol.records.validation import first_record_without_key, validate_records
from siltstone.model.errors import InvalidRequest
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.topic_configs.table import TopicConfig
from siltstone.topic_configs.values import LONG_MAX

WritableBuffer: TypeAlias = bytearray | memoryview

LOG_APPEND_TIME = "LogAppendTime"

ZSTD_VERSION = 7
"""Older Produce requests come from clients whose consumers cannot read zstd."""


class TransactionNotOpen(InvalidRequest):
    """The batch belongs to a transaction; this broker has none."""


class RecordRefused(InvalidRequest):
    """The batch is refused because of one record: ``record`` is its index, from 0."""

    def __init__(self, text: str, record: int) -> None:
        super().__init__(text)
        self.record = record


class TimestampRefused(RecordRefused):
    """The timestamp of a record is too far from the broker's clock."""


class KeyMissing(RecordRefused):
    """A record without a key in a topic that is compacted by key."""


class Admitted(msgspec.Struct, frozen=True):
    """A batch that may be appended: it was checked, and rewritten where the topic's configuration requires it.
    ``append_time_ms`` is -1 unless the topic has LogAppendTime."""

    batch: WritableBuffer
    header: BatchHeader
    append_time_ms: int


def takes_long(records: WritableBuffer, config: TopicConfig, now_ms: int) -> bool:
    """Whether ``admit`` will read, or compress, so much that it should not be called on the event loop. The header has
    not been checked yet and may hold anything."""
    if len(records) < BATCH_HEADER_BYTES:
        return False
    header = read_batch_header(records)
    if config.compression_codec is not None and config.compression_codec != header.codec:
        return True
    reads = config.is_compacted or config.validates_records
    if not reads and config.timestamp_type != LOG_APPEND_TIME:
        reads = _has_to_read_times(header, header.max_timestamp_ms, config, now_ms)
    return reads and takes_long_to_read(records)


def admit(records: WritableBuffer, config: TopicConfig, now_ms: int, produce_version: int) -> Admitted:
    """Checks and rewrites a batch; ``records`` is changed in place. Raises the errors of
    ``kafka_protocol.batch_errors``, TransactionNotOpen, TimestampRefused, KeyMissing."""
    header = check_batch(records, config.max_message_bytes, zstd_allowed=produce_version >= ZSTD_VERSION)
    if header.is_transactional:
        raise TransactionNotOpen("this broker has no transactions: produce without transactional.id")
    largest_ms = header.max_timestamp_ms
    missing: int | None = None
    if config.validates_records:
        summary = validate_records(records)
        largest_ms, missing = summary.largest_timestamp_ms, summary.first_without_key
    elif config.is_compacted:
        missing = first_record_without_key(records)
    if config.is_compacted and missing is not None:
        raise KeyMissing("One or more records have been rejected: the topic is compacted by key", missing)
    append_time_ms = NO_TIMESTAMP
    if config.timestamp_type == LOG_APPEND_TIME:
        append_time_ms = largest_ms = now_ms
        patch_log_append_time(records, now_ms)
        header = read_batch_header(records)
    elif _has_to_read_times(header, largest_ms, config, now_ms):
        largest_ms = _largest_time_allowed(records, header, config, now_ms)
    if largest_ms != header.max_timestamp_ms:
        patch_max_timestamp(records, largest_ms)
        header = read_batch_header(records)
    if config.compression_codec is None or config.compression_codec == header.codec:
        return Admitted(records, header, append_time_ms)
    return _compressed_again(records, config, append_time_ms)


def _has_to_read_times(header: BatchHeader, largest_ms: int, config: TopicConfig, now_ms: int) -> bool:
    """Whether the header is not enough: it has only the largest timestamp, and some clients leave that at -1."""
    return (
        largest_ms - now_ms > config.timestamp_after_max_ms
        or config.timestamp_before_max_ms != LONG_MAX
        or largest_ms == NO_TIMESTAMP != header.base_timestamp_ms
    )


def _largest_time_allowed(
    records: WritableBuffer, header: BatchHeader, config: TopicConfig, now_ms: int
) -> int:
    """The largest timestamp of the records. Raises TimestampRefused, MalformedRecords."""
    largest_ms = NO_TIMESTAMP
    for record, (delta, _) in enumerate(skim_deltas(*open_batch(records))):
        timestamp_ms = timestamp_of(header, delta)
        if timestamp_ms == NO_TIMESTAMP:
            continue
        if timestamp_ms - now_ms > config.timestamp_after_max_ms:
            raise TimestampRefused(
                f"timestamp {timestamp_ms} is more than {config.timestamp_after_max_ms} ms ahead of the broker "
                f"({now_ms}): correct the producer's clock, or raise message.timestamp.after.max.ms",
                record,
            )
        if now_ms - timestamp_ms > config.timestamp_before_max_ms:
            raise TimestampRefused(
                f"timestamp {timestamp_ms} is more than {config.timestamp_before_max_ms} ms behind the broker "
                f"({now_ms}): raise message.timestamp.before.max.ms to take old records",
                record,
            )
        largest_ms = max(largest_ms, timestamp_ms)
    return largest_ms


def _compressed_again(records: WritableBuffer, config: TopicConfig, append_time_ms: int) -> Admitted:
    """The batch with the topic's compression, which may make it larger. Raises BatchTooLarge."""
    assert config.compression_codec is not None
    batch = recompress(records, config.compression_codec)
    if len(batch) > config.max_message_bytes:
        raise BatchTooLarge(
            f"batch of {len(batch)} bytes after compression with the topic's compression.type; max.message.bytes is "
            f"{config.max_message_bytes}"
        )
    return Admitted(batch, read_batch_header(batch), append_time_ms)
