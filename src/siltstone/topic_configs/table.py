"""Makes the ``TopicConfig`` of a topic from texts: the topic's own, then the broker's defaults, then those of ``rows``.

Configurations in requests are checked strictly (``parse_topic_configs``). Stored ones are read leniently
(``stored_topic_config``): they passed the checks when they were set, and a broker that no longer knows one of them, or
has other defaults now, must still serve the topic.
"""

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

import msgspec

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.model.errors import did_you_mean
from siltstone.model.limits import APPEND_BYTES_MAX
from siltstone.topic_configs.rows import TABLE, ConfigRow
from siltstone.topic_configs.table_export import (
    KEY,
    UPSERT,
    PartitionTransform,
    TableConfig,
    columns_of,
    infers_columns,
    key_columns_of,
    partitions_of,
)
from siltstone.topic_configs.values import InvalidTopicConfig, Value, written

T = TypeVar("T", bound=Value)
CONFIGS_KEPT = 1_024
logger = logging.getLogger(__name__)


_CODECS: dict[str, Codec | None] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class TopicConfig(msgspec.Struct, frozen=True):
    """The configuration of one topic as values; ``rows`` documents each of them.

    ``max_message_bytes`` is at most APPEND_BYTES_MAX. ``compression_codec`` None means the codec of the producer.
    ``timestamp_type`` is CreateTime or LogAppendTime. ``retention_ms``, ``retention_bytes``, ``message_ttl_ms`` and
    ``backlog_quota_bytes`` below 0 mean no limit, as does ``segment_batches_max`` 0."""

    cleanup_policy: frozenset[str]
    is_compacted: bool
    compression_codec: Codec | None
    max_message_bytes: int
    timestamp_type: str
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    retention_ms: int
    retention_bytes: int
    validates_records: bool
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_min_ms: int
    segment_batches_max: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    retention_ack: bool
    retention_groups: tuple[str, ...]
    backlog_quota_bytes: int
    backlog_quota_policy: str
    message_ttl_ms: int
    skips_damage: bool
    table: TableConfig

    @property
    def is_deleted_by_age(self) -> bool:
        """Whether retention deletes old records by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def segment_age_ms_max(self) -> int:
        """The maximum age of a segment. In a compacted topic it is at most max.compaction.lag.ms, because only closed
        segments are compacted [Kafka: LogConfig]."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms


_BY_ANY_NAME: dict[str, ConfigRow] = {row.synonyms[0]: row for row in TABLE.values() if row.synonyms} | TABLE


def row_of(name: str) -> ConfigRow:
    """Returns the row of a configuration. Raises InvalidTopicConfig."""
    row = TABLE.get(name)
    if row is None:
        near = did_you_mean(name[:200], TABLE, "", suggestions_max=1)
        raise InvalidTopicConfig(f"Unknown topic config name: {name[:200]}{near and f'; {near}'}")
    return row


def written_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Returns the same configurations with canonical texts. Raises InvalidTopicConfig."""
    rows = [row_of(name) for name in configs]
    return {row.name: written(row.parse(configs[row.name])) for row in rows}


def written_defaults(configs: Mapping[str, str]) -> dict[str, str]:
    """Returns the broker's defaults with canonical texts, by topic-level names such as retention.ms. The names given
    may be topic-level or broker-level (log.retention.ms). Raises InvalidTopicConfig."""
    return written_configs({_topic_name_of(name): text for name, text in configs.items()})


def _topic_name_of(name: str) -> str:
    row = _BY_ANY_NAME.get(name)
    return name if row is None else row.name


def parse_topic_configs(configs: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> TopicConfig:
    """Returns the TopicConfig of a request. ``defaults`` is a result of ``written_defaults``. Raises
    InvalidTopicConfig."""
    values = _Values({**(defaults or {}), **written_configs(configs)})
    shortest, longest = values.of("min.compaction.lag.ms", int), values.of("max.compaction.lag.ms", int)
    if shortest > longest:
        raise InvalidTopicConfig(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )
    config = _topic_config(values)
    _refuse_conflicts(config)
    return config


def _refuse_conflicts(config: TopicConfig) -> None:
    """Refuses a minimum age of segments above their maximum age (O4), and a backlog quota that is not smaller than
    retention.bytes (R14)."""
    if config.segment_min_ms > config.segment_ms:
        raise InvalidTopicConfig(
            f"conflict topic config setting siltstone.segment.min.ms ({config.segment_min_ms})"
            f" > segment.ms ({config.segment_ms})"
        )
    if 0 <= config.retention_bytes <= config.backlog_quota_bytes:
        raise InvalidTopicConfig(
            f"conflict topic config setting siltstone.backlog.quota.bytes ({config.backlog_quota_bytes})"
            f" >= retention.bytes ({config.retention_bytes}): retention would delete unread records before the quota"
            " is reached"
        )
    if config.table.conflict:
        raise InvalidTopicConfig(config.table.conflict)


def stored_topic_config(configs: Mapping[str, str], defaults: Mapping[str, str]) -> TopicConfig:
    """Returns the TopicConfig of stored configurations. It refuses nothing: unusable configurations are ignored and
    logged. Values of the last configurations are kept: ten thousand topics have few different ones, and parsing takes
    50 µs."""
    return _stored(tuple(sorted(configs.items())), tuple(sorted(defaults.items())))


@lru_cache(maxsize=CONFIGS_KEPT)
def _stored(configs: tuple[tuple[str, str], ...], defaults: tuple[tuple[str, str], ...]) -> TopicConfig:
    return _topic_config(_Values({**dict(defaults), **usable_configs(dict(configs))}))


def usable_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Returns the stored configurations that are known and have allowed values. The others are logged."""
    usable: dict[str, str] = {}
    for name, text in configs.items():
        try:
            usable |= written_configs({name: text})
        except InvalidTopicConfig as refusal:
            logger.warning("a stored configuration of a topic is ignored: %s", refusal)
    return usable


class _Values:
    """Configured values by name; an absent name has the default in TABLE."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def of(self, name: str, kind: type[T]) -> T:
        row = TABLE[name]
        value = row.parse(self._texts.get(name, row.default))
        assert isinstance(value, kind)
        return value


def _topic_config(values: _Values) -> TopicConfig:
    cleanup_policy = frozenset(values.of("cleanup.policy", tuple))
    return TopicConfig(
        cleanup_policy=cleanup_policy,
        is_compacted="compact" in cleanup_policy,
        compression_codec=_CODECS[values.of("compression.type", str)],
        max_message_bytes=min(values.of("max.message.bytes", int), APPEND_BYTES_MAX),
        timestamp_type=values.of("message.timestamp.type", str),
        timestamp_before_max_ms=values.of("message.timestamp.before.max.ms", int),
        timestamp_after_max_ms=values.of("message.timestamp.after.max.ms", int),
        retention_ms=values.of("retention.ms", int),
        retention_bytes=values.of("retention.bytes", int),
        validates_records=values.of("siltstone.record.validation", str) == "full",
        segment_bytes=values.of("segment.bytes", int),
        segment_ms=values.of("segment.ms", int),
        segment_jitter_ms=values.of("segment.jitter.ms", int),
        segment_min_ms=values.of("siltstone.segment.min.ms", int),
        segment_batches_max=values.of("siltstone.segment.batches.max", int),
        delete_retention_ms=values.of("delete.retention.ms", int),
        min_compaction_lag_ms=values.of("min.compaction.lag.ms", int),
        max_compaction_lag_ms=values.of("max.compaction.lag.ms", int),
        min_cleanable_dirty_ratio=values.of("min.cleanable.dirty.ratio", float),
        retention_ack=values.of("siltstone.retention.ack", bool),
        retention_groups=values.of("siltstone.retention.groups", tuple),
        backlog_quota_bytes=values.of("siltstone.backlog.quota.bytes", int),
        backlog_quota_policy=values.of("siltstone.backlog.quota.policy", str),
        message_ttl_ms=values.of("siltstone.message.ttl.ms", int),
        skips_damage=values.of("siltstone.damaged.read", str) == "skip",
        table=_table_config(values),
    )


def _table_config(values: _Values) -> TableConfig:
    return TableConfig(
        table_format=values.of("siltstone.table.format", str),
        name=values.of("siltstone.table.name", str),
        value=values.of("siltstone.table.value", str),
        schema=values.of("siltstone.table.value.schema", str),
        message=values.of("siltstone.table.value.message", str),
        key=values.of("siltstone.table.key", str),
        key_columns=key_columns_of(values.of("siltstone.table.key.columns", tuple)),
        columns=columns_of(values.of("siltstone.table.columns", tuple)),
        infers=infers_columns(values.of("siltstone.table.columns", tuple)),
        partition_by=_division(values),
        interval_ms=values.of("siltstone.table.interval.ms", int),
        bytes_min=values.of("siltstone.table.bytes.min", int),
        errors=values.of("siltstone.table.errors", str),
        holds_retention=values.of("siltstone.table.retention", bool),
        mode=values.of("siltstone.table.mode", str),
        change=values.of("siltstone.table.change", str),
        history=values.of("siltstone.table.history", str),
        sequence=values.of("siltstone.table.sequence", str),
        is_compacted="compact" in values.of("cleanup.policy", tuple),
    )


def _division(values: _Values) -> tuple[PartitionTransform, ...]:
    """Returns the division of the table. A table that keeps the newest record of each key is divided by the key alone:
    by its first field, if it has fields."""
    if values.of("siltstone.table.mode", str) == UPSERT:
        fields = key_columns_of(values.of("siltstone.table.key.columns", tuple))
        column = f"{KEY}.{fields[0].name}" if fields else KEY
        return (PartitionTransform(f"bucket[{values.of('siltstone.table.buckets', int)}]", column),)
    return partitions_of(values.of("siltstone.table.partition.by", tuple))
