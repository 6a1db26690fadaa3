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
from siltstone.kafka_protocol.records.validation import RECORDS_NAMED_MAX, validate_keys, validate_records
from siltstone.model.errors import InvalidRequest
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.topic_configs.table import TopicConfig
from siltstone.topic_configs.values import LONG_MAX

WritableBuffer: TypeAlias = bytearray | memoryview

LOG_APPEND_TIME = "LogAppendTime"

ZSTD_VERSION = 7
"""Older Produce requests come from clients whose consumers cannot read zstd."""


class TransactionWithoutProducer(InvalidRequest):
    """The batch belongs to a transaction and names no producer."""


NO_KEY = "the topic is compacted by key: give every record a key"


class RecordRefused(InvalidRequest):
    """The batch is refused because of some of its records: ``records`` has the index of each, from 0 and in order, and
    what is wrong with it. At most RECORDS_NAMED_MAX are named."""

    def __init__(self, records: tuple[tuple[int, str], ...]) -> None:
        index, text = records[0]
        super().__init__(
            f"record {index}: {text}"
            if len(records) == 1
            else f"{len(records)} records are refused; record {index}: {text}"
        )
        self.records = records


class TimestampRefused(RecordRefused):
    """The timestamp of a record is too far from the broker's clock; other records may have no key."""


class KeyMissing(RecordRefused):
    """Records without a key in a topic that is compacted by key."""


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """A batch that may be appended: it was checked, and rewritten where the topic's configuration requires it.
    ``append_time_ms`` is -1 unless the topic has LogAppendTime."""

    batch: WritableBuffer
    header: BatchHeader
    append_time_ms: int


def takes_long(records: WritableBuffer, config: TopicConfig, now_ms: int) -> bool:
    """Returns whether ``admit`` will read, or compress, so much that it should not be called on the event loop. The
    header has not been checked yet and may hold anything."""
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
    ``kafka_protocol.batch_errors``, TransactionWithoutProducer, TimestampRefused, KeyMissing."""
    header = check_batch(records, config.max_message_bytes, zstd_allowed=produce_version >= ZSTD_VERSION)
    if header.is_transactional and header.producer_id < 0:
        raise TransactionWithoutProducer(
            f"a batch of a transaction has producer id {header.producer_id}: send the id that InitProducerId gives"
        )
    largest_ms = header.max_timestamp_ms
    without_key: tuple[int, ...] = ()
    refused_times: dict[int, str] = {}
    if config.validates_records:
        summary = validate_records(records)
        largest_ms, without_key = summary.largest_timestamp_ms, summary.without_key
    elif config.is_compacted:
        without_key = validate_keys(records)
    append_time_ms = now_ms if config.timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP
    if append_time_ms == NO_TIMESTAMP and _has_to_read_times(header, largest_ms, config, now_ms):
        largest_ms, refused_times = _read_times(records, header, config, now_ms)
    _refuse_records(without_key if config.is_compacted else (), refused_times)
    if config.timestamp_type == LOG_APPEND_TIME:
        largest_ms = now_ms
        patch_log_append_time(records, now_ms)
        header = read_batch_header(records)
    if largest_ms != header.max_timestamp_ms:
        patch_max_timestamp(records, largest_ms)
        header = read_batch_header(records)
    if config.compression_codec is None or config.compression_codec == header.codec:
        return Admitted(records, header, append_time_ms)
    return _compressed_again(records, config, append_time_ms)


def _has_to_read_times(header: BatchHeader, largest_ms: int, config: TopicConfig, now_ms: int) -> bool:
    """Returns whether the header is not enough: it has only the largest timestamp, and some clients leave that at
    -1."""
    return (
        largest_ms - now_ms > config.timestamp_after_max_ms
        or config.timestamp_before_max_ms != LONG_MAX
        or largest_ms == NO_TIMESTAMP != header.base_timestamp_ms
    )


def _read_times(
    records: WritableBuffer, header: BatchHeader, config: TopicConfig, now_ms: int
) -> tuple[int, dict[int, str]]:
    """Returns the largest timestamp of the records, and what is wrong with the first RECORDS_NAMED_MAX that are
    refused. Raises MalformedRecords."""
    largest_ms = NO_TIMESTAMP
    refused: dict[int, str] = {}
    for record, (delta, _) in enumerate(skim_deltas(*open_batch(records, as_kafka=True))):
        timestamp_ms = timestamp_of(header, delta)
        if timestamp_ms == NO_TIMESTAMP:
            continue
        largest_ms = max(largest_ms, timestamp_ms)
        if timestamp_ms - now_ms > config.timestamp_after_max_ms:
            text = (
                f"timestamp {timestamp_ms} is more than {config.timestamp_after_max_ms} ms ahead of the broker "
                f"({now_ms}): correct the producer's clock, or raise message.timestamp.after.max.ms"
            )
        elif now_ms - timestamp_ms > config.timestamp_before_max_ms:
            text = (
                f"timestamp {timestamp_ms} is more than {config.timestamp_before_max_ms} ms behind the broker "
                f"({now_ms}): raise message.timestamp.before.max.ms to take old records"
            )
        else:
            continue
        refused[record] = text
        if len(refused) == RECORDS_NAMED_MAX:
            break
    return largest_ms, refused


def _refuse_records(without_key: tuple[int, ...], refused_times: dict[int, str]) -> None:
    """Raises TimestampRefused if the timestamp of a record with a key is refused, as Kafka does, and KeyMissing if only
    records without a key are."""
    refused = refused_times | dict.fromkeys(without_key, NO_KEY)
    if not refused:
        return
    kind = TimestampRefused if refused_times.keys() - set(without_key) else KeyMissing
    raise kind(tuple(sorted(refused.items())[:RECORDS_NAMED_MAX]))


def _compressed_again(records: WritableBuffer, config: TopicConfig, append_time_ms: int) -> Admitted:
    """Returns the batch with the topic's compression, which may make it larger. Raises BatchTooLarge."""
    assert config.compression_codec is not None
    batch = recompress(records, config.compression_codec)
    if len(batch) > config.max_message_bytes:
        raise BatchTooLarge(
            f"batch of {len(batch)} bytes after compression with the topic's compression.type; max.message.bytes is "
            f"{config.max_message_bytes}"
        )
    return Admitted(batch, read_batch_header(batch), append_time_ms)
