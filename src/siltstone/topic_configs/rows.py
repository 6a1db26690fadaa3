"""Lists the topic configurations: all of Kafka 4.3, and Siltstone's own, whose names begin with ``siltstone.``.

Names, types, defaults, limits and broker-level names are Kafka's. ``effect`` says whether a configuration changes what
this broker does. A configuration that is only kept is checked, stored and reported, so that tools which set it and then
check its value keep working. docs/topic-configurations.md is made from this table. Next: ``table``.
"""

from enum import Enum

import msgspec

from siltstone.model.limits import HOUR_MS, KIB, MIB, MINUTE_MS
from siltstone.topic_configs.table_export import (
    BUCKETS_MAX,
    CHANGES,
    ERRORS,
    FORMATS,
    HISTORIES,
    KEYS,
    MODES,
    VALUES,
    table_columns,
    table_key_columns,
    table_name,
    table_partitions,
    table_schema_source,
)
from siltstone.topic_configs.values import (
    LONG_MAX,
    ConfigType,
    Rule,
    Value,
    anything,
    at_least,
    between,
    between_or,
    nothing_empty,
    one_of,
    parse,
    throttled_replicas,
)

DAY_MS = 24 * HOUR_MS
BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST


class Effect(Enum):
    ACTS = "acts"
    KEPT = "kept"
    """The configuration is checked, stored and reported, and has no other effect."""


class ConfigRow(msgspec.Struct, frozen=True):
    """One configuration. ``synonyms`` are the broker-level names of the same setting, the one with precedence first."""

    name: str
    kind: ConfigType
    default: str
    rule: Rule
    effect: Effect
    synonyms: tuple[str, ...]
    documentation: str

    def parse(self, text: str) -> Value:
        """Parses a text and checks the value by the rule. Raises InvalidTopicConfig."""
        value = parse(self.name, self.kind, text)
        self.rule(self.name, value)
        return value


def _row(
    name: str, kind: ConfigType, default: int | float | str, rule: Rule, effect: Effect,
    synonyms: tuple[str, ...], documentation: str,
) -> ConfigRow:  # fmt: skip
    return ConfigRow(name, kind, str(default), rule, effect, synonyms, documentation)


_LEVEL = "When the broker compresses, it uses the codec's default level."
_TIERS = "All data is on object storage already, so there is no second tier to configure."
_THROTTLE = "Nothing is replicated between brokers, so nothing is throttled."
_FLUSH = "The node's setting engine.wal.sync decides when data is flushed to disk, for all topics."
_FILES = "There are no segment files with indexes of their own."

_ROWS = (
    _row("cleanup.policy", LIST, "delete", one_of("compact", "delete"), Effect.ACTS, ("log.cleanup.policy",),
         "delete: old records are deleted by time and size. compact: the newest record of each key is kept. An empty "
         "list: all records are kept. A compacted topic refuses records without a key."),
    _row("compression.gzip.level", INT, -1, between_or(1, 9, -1), Effect.KEPT, ("compression.gzip.level",), _LEVEL),
    _row("compression.lz4.level", INT, 9, between(1, 17), Effect.KEPT, ("compression.lz4.level",), _LEVEL),
    _row("compression.type", STRING, "producer",
         one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), Effect.ACTS, ("compression.type",),
         "producer: batches are stored as the producer compressed them. Otherwise batches with another codec are "
         "compressed again."),
    _row("compression.zstd.level", INT, 3, between(-131072, 22), Effect.KEPT, ("compression.zstd.level",), _LEVEL),
    _row("delete.retention.ms", LONG, DAY_MS, at_least(0), Effect.ACTS, ("log.cleaner.delete.retention.ms",),
         "How long a tombstone is kept after key compaction has removed the older records of its key."),
    _row("file.delete.delay.ms", LONG, MINUTE_MS, at_least(0), Effect.KEPT, ("log.segment.delete.delay.ms",),
         "Objects are deleted after a grace period that is the same for the whole store."),
    _row("flush.messages", LONG, LONG_MAX, at_least(1), Effect.KEPT, ("log.flush.interval.messages",), _FLUSH),
    _row("flush.ms", LONG, LONG_MAX, at_least(0), Effect.KEPT,
         ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"), _FLUSH),
    _row("follower.replication.throttled.replicas", LIST, "", throttled_replicas, Effect.KEPT, (), _THROTTLE),
    _row("index.interval.bytes", INT, 4 * KIB, at_least(0), Effect.KEPT, ("log.index.interval.bytes",), _FILES),
    _row("leader.replication.throttled.replicas", LIST, "", throttled_replicas, Effect.KEPT, (), _THROTTLE),
    _row("local.retention.bytes", LONG, -2, at_least(-2), Effect.KEPT, ("log.local.retention.bytes",), _TIERS),
    _row("local.retention.ms", LONG, -2, at_least(-2), Effect.KEPT, ("log.local.retention.ms",), _TIERS),
    _row("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), Effect.ACTS, ("log.cleaner.max.compaction.lag.ms",),
         "A partition with a record that has not been compacted for longer is compacted at any dirty ratio; segments "
         "are closed in time for that."),
    _row("max.message.bytes", INT, MIB + 12, at_least(0), Effect.ACTS, ("message.max.bytes",),
         "The largest record batch that is accepted, as the producer compressed it. A batch larger than one append of "
         "the node is refused in any case."),
    _row("message.timestamp.after.max.ms", LONG, HOUR_MS, at_least(0), Effect.ACTS,
         ("log.message.timestamp.after.max.ms",),
         "How far in the future a record's timestamp may lie when it arrives; only with CreateTime."),
    _row("message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), Effect.ACTS,
         ("log.message.timestamp.before.max.ms",),
         "How far in the past a record's timestamp may lie when it arrives; only with CreateTime."),
    _row("message.timestamp.type", STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"), Effect.ACTS,
         ("log.message.timestamp.type",),
         "The timestamp of a record. CreateTime: the producer's; LogAppendTime: the time of its arrival."),
    _row("min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1), Effect.ACTS, ("log.cleaner.min.cleanable.ratio",),
         "A partition is compacted when a larger share of its compactable bytes is new since the last compaction."),
    _row("min.compaction.lag.ms", LONG, 0, at_least(0), Effect.ACTS, ("log.cleaner.min.compaction.lag.ms",),
         "A segment with a record younger than this, and all later segments, are not compacted."),
    _row("min.insync.replicas", INT, 1, at_least(1), Effect.KEPT, ("min.insync.replicas",),
         "A write is acknowledged when it is in the write-ahead log; the bucket keeps the copies of uploaded data."),
    _row("preallocate", BOOLEAN, "false", anything, Effect.KEPT, ("log.preallocate",), _FILES),
    _row("remote.log.copy.disable", BOOLEAN, "false", anything, Effect.KEPT, (), _TIERS),
    _row("remote.log.delete.on.disable", BOOLEAN, "false", anything, Effect.KEPT, (), _TIERS),
    _row("remote.storage.enable", BOOLEAN, "false", anything, Effect.KEPT, (), _TIERS),
    _row("retention.bytes", LONG, -1, anything, Effect.ACTS, ("log.retention.bytes",),
         "Closed segments are deleted, oldest first, while at least this many bytes of the partition remain; below 0: "
         "no limit."),
    _row("retention.ms", LONG, 7 * DAY_MS, at_least(-1), Effect.ACTS,
         ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
         "Closed segments are deleted, oldest first, when all their records are older than this by their timestamps; "
         "-1: never."),
    _row("segment.bytes", INT, 1024 * MIB, at_least(MIB), Effect.ACTS, ("log.segment.bytes",),
         "A batch that would make a segment larger begins the next segment. Retention deletes whole segments; key "
         "compaction skips the newest one."),
    _row("segment.index.bytes", INT, 10 * MIB, at_least(4), Effect.KEPT, ("log.index.size.max.bytes",), _FILES),
    _row("segment.jitter.ms", LONG, 0, at_least(0), Effect.ACTS, ("log.roll.jitter.ms", "log.roll.jitter.hours"),
         "A segment is closed up to this much earlier than segment.ms, by chance, so that not all are closed at once."),
    _row("segment.ms", LONG, 7 * DAY_MS, at_least(1), Effect.ACTS, ("log.roll.ms", "log.roll.hours"),
         "A segment is closed this long after its first batch, even if nothing is appended; an empty one never is."),
    _row("siltstone.backlog.quota.bytes", LONG, -1, at_least(-1), Effect.ACTS, (),
         "The most bytes of a partition that the slowest of siltstone.retention.groups may have unread; -1: no limit. "
         "It must be less than retention.bytes, if that has a limit."),
    _row("siltstone.backlog.quota.policy", STRING, "producer_request_hold",
         one_of("producer_request_hold", "producer_exception", "consumer_backlog_eviction"), Effect.ACTS, (),
         "Beyond the quota, produce requests wait, or are refused, or the offset of the slowest group is moved forward "
         "until 90 % of the quota are unread."),
    _row("siltstone.damaged.read", STRING, "fail", one_of("fail", "skip"), Effect.ACTS, (),
         "What a fetch or a lookup by time does at offsets whose object is damaged or missing. fail: it is refused "
         "with CORRUPT_MESSAGE, which most clients raise to the application. skip: it continues behind the damage, "
         "and the log says so."),
    _row("siltstone.message.ttl.ms", LONG, -1, at_least(-1), Effect.ACTS, (),
         "Older records count as read by those of siltstone.retention.groups that have no member at the moment; -1: "
         "never."),
    _row("siltstone.record.validation", STRING, "header", one_of("header", "full"), Effect.ACTS, (),
         "header: the header of each batch is checked. full: its records are decompressed and decoded as well, so that "
         "no producer can store records that no consumer can read."),
    _row("siltstone.retention.ack", BOOLEAN, "false", anything, Effect.ACTS, (),
         "true: retention keeps records that any of siltstone.retention.groups has not committed yet."),
    _row("siltstone.retention.groups", LIST, "", nothing_empty, Effect.ACTS, (),
         "The consumer groups to which siltstone.retention.ack, the backlog quota and the time to live apply. A group "
         "that has committed nothing yet counts as being at the beginning of each partition."),
    _row("siltstone.segment.batches.max", LONG, 0, at_least(0), Effect.ACTS, (),
         "A segment is closed when it has this many record batches; 0: no limit."),
    _row("siltstone.segment.min.ms", LONG, 0, at_least(0), Effect.ACTS, (),
         "A segment younger than this is closed only by segment.bytes."),
    _row("siltstone.table.buckets", INT, 16, between(1, BUCKETS_MAX), Effect.ACTS, (),
         "Into how many buckets of keys a table with siltstone.table.mode=upsert is divided. A round rewrites the "
         "buckets that have new records. It cannot be changed once the table exists."),
    _row("siltstone.table.bytes.min", LONG, 64 * MIB, at_least(1), Effect.ACTS, (),
         "The topic is exported to its table when this many bytes wait, or after siltstone.table.interval.ms."),
    _row("siltstone.table.change", STRING, "", one_of(*CHANGES), Effect.ACTS, (),
         "debezium: values are change events of Debezium in JSON or Avro, and the table has the rows of the source's "
         "table; it needs siltstone.table.mode=upsert. Empty: values are rows."),
    _row("siltstone.table.columns", LIST, "", table_columns, Effect.ACTS, (),
         "Fields of JSON values that become columns of the table, such as `carrier string, delay long, "
         "at struct<lat: double, lon: double>`. A field that is added here becomes a new column. `infer`: columns are "
         "found from the records, also beside others: `infer, at timestamp`. Empty: the table has the columns of "
         "Kafka's records."),
    _row("siltstone.table.errors", STRING, "dead-letter", one_of(*ERRORS), Effect.ACTS, (),
         "Records that cannot be decoded are written to the table NAME__errors, or stop the export, or are dropped."),
    _row("siltstone.table.format", STRING, "", one_of("", *FORMATS), Effect.ACTS, (),
         "The table that the topic is exported to: parquet, iceberg, delta; empty: none."),
    _row("siltstone.table.history", STRING, "", one_of(*HISTORIES), Effect.ACTS, (),
         "scd2: a table with siltstone.table.mode=upsert keeps all versions of its rows, with the columns _valid_from, "
         "_valid_to and _is_current. Empty: the newest alone. It cannot be changed once the table is there."),
    _row("siltstone.table.interval.ms", LONG, 5 * MINUTE_MS, at_least(0), Effect.ACTS, (),
         "The topic is exported to its table when records have waited this long."),
    _row("siltstone.table.key", STRING, "raw", one_of(*KEYS), Effect.ACTS, (),
         "What keys are in the table: bytes (raw), text in UTF-8 (string), JSON (json): its text, or a struct of "
         "siltstone.table.key.columns; avro, protobuf: such a struct, where each key names its schema."),
    _row("siltstone.table.key.columns", LIST, "", table_key_columns, Effect.ACTS, (),
         "Fields of JSON, avro or protobuf keys, such as `id long, region string`; a key that is no record has the "
         "field `value`. With siltstone.table.mode=upsert they are the key of the table, and cannot be changed."),
    _row("siltstone.table.mode", STRING, "append", one_of(*MODES), Effect.ACTS, (),
         "append: the table has each record. upsert, for topics with cleanup.policy=compact or with change events: it "
         "has the newest record of each key in each partition, and no tombstones; the table is divided by "
         "siltstone.table.buckets alone."),
    _row("siltstone.table.name", STRING, "", table_name, Effect.ACTS, (),
         "The name of the table, namespace.table; empty: `kafka.` and the topic, its dots and hyphens as `_`."),
    _row("siltstone.table.partition.by", LIST, "day(timestamp)", table_partitions, Effect.ACTS, (),
         "What divides the table: identity, year, month, day or hour of a column, such as `day(timestamp)`, "
         "`bucket(COLUMN,N)` or `truncate(COLUMN,N)`; an empty list: nothing. It cannot be changed once the table is "
         "there."),
    _row("siltstone.table.retention", BOOLEAN, "false", anything, Effect.ACTS, (),
         "true: retention and key compaction leave records alone until they are in the table."),
    _row("siltstone.table.sequence", STRING, "", anything, Effect.ACTS, (),
         "With siltstone.table.mode=upsert: the field that orders the changes of a key, a whole number, a time or a "
         "date; kafka.timestamp is the time of the record, and source.NAME a field of `source` of change events. A "
         "record that is late changes nothing. Empty: the offset. It cannot be changed once the table is there."),
    _row("siltstone.table.value", STRING, "raw", one_of(*VALUES), Effect.ACTS, (),
         "What values are in the table: bytes (raw), text in UTF-8 (string), JSON (json): its text, or the columns of "
         "siltstone.table.columns; avro, protobuf: the fields of their schemas."),
    _row("siltstone.table.value.message", STRING, "", anything, Effect.ACTS, (),
         "The full name of the Protobuf message in the values; empty: the first of its file."),
    _row("siltstone.table.value.schema", STRING, "registry", table_schema_source, Effect.ACTS, (),
         "Schemas of avro and protobuf. registry: each value names its own; latest: the newest of the "
         "subject TOPIC-value, for values without ids; file:NAME: a file in the folder of tables.registry."),
    _row("unclean.leader.election.enable", BOOLEAN, "false", anything, Effect.KEPT,
         ("unclean.leader.election.enable",), "A partition's data is not tied to a broker: no election can lose any."),
)  # fmt: skip

TABLE: dict[str, ConfigRow] = {row.name: row for row in _ROWS}
"""The rows by name, in alphabetical order."""

assert list(TABLE) == sorted(TABLE) and len(TABLE) == len(_ROWS), "one row each, in order"
