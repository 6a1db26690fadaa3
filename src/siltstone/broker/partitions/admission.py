"""What a partition asks of a batch before it takes it, beyond the batch's own consistency; and what it rewrites.

Source: kafka-protocol.md sections 2.2 and 2.3 (Apache Kafka's LogValidator). Batches stay as they are but for the
fields that the broker owns; only a topic with another ``compression.type`` has them compressed again.
"""

from typing import TypeAlias

from siltstone.broker.topics.config_table import TopicConfig
from siltstone.kafka_protocol.batch_checks import check_batch
from siltstone.kafka_protocol.batch_header import BatchHeader, patch_log_append_time, read_batch_header
from siltstone.kafka_protocol.records.recompression import recompress
from siltstone.kafka_protocol.records.validation import first_record_without_key, validate_records
from siltstone.model.errors import InvalidRequest
from siltstone.model.record_batch import NO_TIMESTAMP

WritableBuffer: TypeAlias = bytearray | memoryview

LOG_APPEND_TIME = "LogAppendTime"

ZSTD_VERSION = 7
"""Produce requests before it come from clients whose consumers cannot read zstd."""


class TransactionNotOpen(InvalidRequest):
    """The batch is part of a transaction, and there are none here."""


class TimestampRefused(InvalidRequest):
    """A record's time is too far from the broker's."""


class KeyMissing(InvalidRequest):
    """The topic is compacted by key, and a record has none."""


class Admitted:
    """A batch that may be appended: checked, rewritten where the topic says so."""

    __slots__ = ("append_time_ms", "batch", "header")

    def __init__(self, batch: WritableBuffer, header: BatchHeader, append_time_ms: int) -> None:
        self.batch = batch
        self.header = header
        self.append_time_ms = append_time_ms


def admit(records: WritableBuffer, config: TopicConfig, now_ms: int, produce_version: int) -> Admitted:
    """``records`` is changed in place. Raises the causes of ``kafka_protocol.batch_errors``, TransactionNotOpen,
    TimestampRefused, KeyMissing."""
    header = check_batch(records, config.max_message_bytes, zstd_allowed=produce_version >= ZSTD_VERSION)
    if header.is_transactional:
        raise TransactionNotOpen("this broker has no transactions: produce without transactional.id")
    if config.timestamp_type == LOG_APPEND_TIME:
        patch_log_append_time(records, now_ms)
        header = read_batch_header(records)
    else:
        _check_times(header, config, now_ms)
    if config.is_compacted and (missing := first_record_without_key(records)) is not None:
        raise KeyMissing(f"record {missing} has no key, and the topic is compacted by key")
    if config.validates_records:
        validate_records(records)
    batch = _in_codec_of_topic(records, header, config)
    append_time_ms = now_ms if config.timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP
    return Admitted(batch, header, append_time_ms)


def _check_times(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    if header.max_timestamp_ms == NO_TIMESTAMP:
        return
    if header.max_timestamp_ms - now_ms > config.timestamp_after_max_ms:
        raise TimestampRefused(
            f"timestamp {header.max_timestamp_ms} is more than {config.timestamp_after_max_ms} ms ahead of the broker "
            f"({now_ms}): correct the producer's clock, or raise message.timestamp.after.max.ms"
        )
    if now_ms - min(header.base_timestamp_ms, header.max_timestamp_ms) > config.timestamp_before_max_ms:
        raise TimestampRefused(
            f"timestamp {header.base_timestamp_ms} is more than {config.timestamp_before_max_ms} ms behind the broker "
            f"({now_ms}): raise message.timestamp.before.max.ms to take old records"
        )


def _in_codec_of_topic(records: WritableBuffer, header: BatchHeader, config: TopicConfig) -> WritableBuffer:
    wanted = config.compression_codec
    if wanted is None or wanted == header.codec:
        return records
    return recompress(records, wanted)
