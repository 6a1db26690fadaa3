"""THE table of topic configurations: every one that Kafka 4.3 has, and our own, which begin with ``siltstone.``.

Names, types, defaults, limits and the names of the broker-level settings are Kafka's. ``effect`` says what this broker
makes of it: a configuration that is only kept is checked, stored and reported, so that tools which set it and look
whether it was set go on working. The configuration reference is made from this table. Next: ``table``.
"""

from enum import Enum

import msgspec

from siltstone.model.limits import HOUR_MS, KIB, MIB, MINUTE_MS
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
    """Checked, stored and reported; nothing heeds it."""


class ConfigRow(msgspec.Struct, frozen=True):
    """``synonyms``: the broker-level names of the same setting, the one that counts first."""

    name: str
    kind: ConfigType
    default: str
    rule: Rule
    effect: Effect
    synonyms: tuple[str, ...]
    documentation: str

    def parse(self, text: str) -> Value:
        """Raises InvalidTopicConfig."""
        value = parse(self.name, self.kind, text)
        self.rule(self.name, value)
        return value


def _row(
    name: str, kind: ConfigType, default: int | float | str, rule: Rule, effect: Effect,
    synonyms: tuple[str, ...], documentation: str,
) -> ConfigRow:  # fmt: skip
    return ConfigRow(name, kind, str(default), rule, effect, synonyms, documentation)


_LEVEL = "Where the broker compresses by itself, it does so at the codec's default level."
_TIERS = "Everything lies on object storage already: there is no second tier to configure."
_THROTTLE = "Nothing is replicated between brokers, so nothing is throttled."
_FLUSH = "When data reaches the disk is the node's setting (engine.wal.sync), not a topic's."
_FILES = "There are no segment files with indexes of their own."

_ROWS = (
    _row("cleanup.policy", LIST, "delete", one_of("compact", "delete"), Effect.ACTS, ("log.cleanup.policy",),
         "delete: old records go by time and size; compact: the newest record of each key stays; nothing: all stay. "
         "On a compacted topic records without key are refused."),
    _row("compression.gzip.level", INT, -1, between_or(1, 9, -1), Effect.KEPT, ("compression.gzip.level",), _LEVEL),
    _row("compression.lz4.level", INT, 9, between(1, 17), Effect.KEPT, ("compression.lz4.level",), _LEVEL),
    _row("compression.type", STRING, "producer",
         one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), Effect.ACTS, ("compression.type",),
         "producer: batches are stored as they come; otherwise those compressed differently are compressed again."),
    _row("compression.zstd.level", INT, 3, between(-131072, 22), Effect.KEPT, ("compression.zstd.level",), _LEVEL),
    _row("delete.retention.ms", LONG, DAY_MS, at_least(0), Effect.ACTS, ("log.cleaner.delete.retention.ms",),
         "How long a tombstone stays after the records of its key are gone."),
    _row("file.delete.delay.ms", LONG, MINUTE_MS, at_least(0), Effect.KEPT, ("log.segment.delete.delay.ms",),
         "Objects are deleted after a grace period of the whole store."),
    _row("flush.messages", LONG, LONG_MAX, at_least(1), Effect.KEPT, ("log.flush.interval.messages",), _FLUSH),
    _row("flush.ms", LONG, LONG_MAX, at_least(0), Effect.KEPT,
         ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"), _FLUSH),
    _row("follower.replication.throttled.replicas", LIST, "", throttled_replicas, Effect.KEPT, (), _THROTTLE),
    _row("index.interval.bytes", INT, 4 * KIB, at_least(0), Effect.KEPT, ("log.index.interval.bytes",), _FILES),
    _row("leader.replication.throttled.replicas", LIST, "", throttled_replicas, Effect.KEPT, (), _THROTTLE),
    _row("local.retention.bytes", LONG, -2, at_least(-2), Effect.KEPT, ("log.local.retention.bytes",), _TIERS),
    _row("local.retention.ms", LONG, -2, at_least(-2), Effect.KEPT, ("log.local.retention.ms",), _TIERS),
    _row("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), Effect.ACTS, ("log.cleaner.max.compaction.lag.ms",),
         "What has been dirty for longer is compacted whatever min.cleanable.dirty.ratio says; segments are closed in "
         "time for it."),
    _row("max.message.bytes", INT, MIB + 12, at_least(0), Effect.ACTS, ("message.max.bytes",),
         "The largest record batch that is taken, as the producer compressed it. What fits no append of the node is "
         "refused in any case."),
    _row("message.timestamp.after.max.ms", LONG, HOUR_MS, at_least(0), Effect.ACTS,
         ("log.message.timestamp.after.max.ms",),
         "How far in the future a record's timestamp may lie when it arrives; only with CreateTime."),
    _row("message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), Effect.ACTS,
         ("log.message.timestamp.before.max.ms",),
         "How far in the past a record's timestamp may lie when it arrives; only with CreateTime."),
    _row("message.timestamp.type", STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"), Effect.ACTS,
         ("log.message.timestamp.type",), "Whose time a record carries: the producer's, or that of its arrival."),
    _row("min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1), Effect.ACTS, ("log.cleaner.min.cleanable.ratio",),
         "A partition is compacted when a larger part of what may be is new since the last time."),
    _row("min.compaction.lag.ms", LONG, 0, at_least(0), Effect.ACTS, ("log.cleaner.min.compaction.lag.ms",),
         "A segment with a younger record, and all that follow it, are not compacted yet."),
    _row("min.insync.replicas", INT, 1, at_least(1), Effect.KEPT, ("min.insync.replicas",),
         "A write is acknowledged when the write-ahead log holds it; copies are the bucket's business."),
    _row("preallocate", BOOLEAN, "false", anything, Effect.KEPT, ("log.preallocate",), _FILES),
    _row("remote.log.copy.disable", BOOLEAN, "false", anything, Effect.KEPT, (), _TIERS),
    _row("remote.log.delete.on.disable", BOOLEAN, "false", anything, Effect.KEPT, (), _TIERS),
    _row("remote.storage.enable", BOOLEAN, "false", anything, Effect.KEPT, (), _TIERS),
    _row("retention.bytes", LONG, -1, anything, Effect.ACTS, ("log.retention.bytes",),
         "How many bytes of a partition stay at least; below 0: no limit. Closed segments go, the oldest first."),
    _row("retention.ms", LONG, 7 * DAY_MS, at_least(-1), Effect.ACTS,
         ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
         "How long a record stays at least, by its own timestamp; -1: for ever. Closed segments go, the oldest first."),
    _row("segment.bytes", INT, 1024 * MIB, at_least(MIB), Effect.ACTS, ("log.segment.bytes",),
         "A batch that would make a segment larger begins the next one. Retention drops whole segments, key compaction "
         "leaves the newest one alone."),
    _row("segment.index.bytes", INT, 10 * MIB, at_least(4), Effect.KEPT, ("log.index.size.max.bytes",), _FILES),
    _row("segment.jitter.ms", LONG, 0, at_least(0), Effect.ACTS, ("log.roll.jitter.ms", "log.roll.jitter.hours"),
         "How much sooner than segment.ms says a segment may be closed, so that not all are at once."),
    _row("segment.ms", LONG, 7 * DAY_MS, at_least(1), Effect.ACTS, ("log.roll.ms", "log.roll.hours"),
         "A segment is closed so long after its first batch came, be anything appended or not; an empty one never."),
    _row("siltstone.backlog.quota.bytes", LONG, -1, at_least(-1), Effect.ACTS, (),
         "How far the slowest of siltstone.retention.groups may stay behind, in bytes of a partition; -1: as far as it "
         "will. It must be less than retention.bytes, where that has a limit."),
    _row("siltstone.backlog.quota.policy", STRING, "producer_request_hold",
         one_of("producer_request_hold", "producer_exception", "consumer_backlog_eviction"), Effect.ACTS, (),
         "Beyond the quota producers wait, or are refused, or the slowest group is moved forward to 90 % of it."),
    _row("siltstone.message.ttl.ms", LONG, -1, at_least(-1), Effect.ACTS, (),
         "What is older counts as read by those of siltstone.retention.groups that nobody is a member of just now; -1: "
         "never."),
    _row("siltstone.record.validation", STRING, "header", one_of("header", "full"), Effect.ACTS, (),
         "header: what a batch's header says is checked; full: its records are decompressed and read as well, so that "
         "no producer can store what no consumer can read."),
    _row("siltstone.retention.ack", BOOLEAN, "false", anything, Effect.ACTS, (),
         "true: what one of siltstone.retention.groups has not committed stays whatever retention says."),
    _row("siltstone.retention.groups", LIST, "", nothing_empty, Effect.ACTS, (),
         "The consumer groups that siltstone.retention.ack, the backlog quota and the time to live are about. One that "
         "has committed nothing yet counts as being at the beginning."),
    _row("siltstone.segment.batches.max", LONG, 0, at_least(0), Effect.ACTS, (),
         "A segment is closed with so many record batches; 0: there is no limit."),
    _row("siltstone.segment.min.ms", LONG, 0, at_least(0), Effect.ACTS, (),
         "A segment younger than this is closed by segment.bytes only."),
    _row("unclean.leader.election.enable", BOOLEAN, "false", anything, Effect.KEPT,
         ("unclean.leader.election.enable",), "A partition's data is not tied to a broker: no election loses any."),
)  # fmt: skip

TABLE: dict[str, ConfigRow] = {row.name: row for row in _ROWS}
"""By name, in alphabetical order."""

assert list(TABLE) == sorted(TABLE) and len(TABLE) == len(_ROWS), "one row each, in order"
