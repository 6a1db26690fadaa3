"""The table of topic configurations is compared with that of Apache Kafka 4.3.0."""

import pytest

from siltstone.topic_configs.rows import TABLE, Effect
from siltstone.topic_configs.values import InvalidTopicConfig, written

KAFKA = """\
cleanup.policy|LIST|delete|log.cleanup.policy
compression.gzip.level|INT|-1|compression.gzip.level
compression.lz4.level|INT|9|compression.lz4.level
compression.type|STRING|producer|compression.type
compression.zstd.level|INT|3|compression.zstd.level
delete.retention.ms|LONG|86400000|log.cleaner.delete.retention.ms
file.delete.delay.ms|LONG|60000|log.segment.delete.delay.ms
flush.messages|LONG|9223372036854775807|log.flush.interval.messages
flush.ms|LONG|9223372036854775807|log.flush.interval.ms,log.flush.scheduler.interval.ms
follower.replication.throttled.replicas|LIST||
index.interval.bytes|INT|4096|log.index.interval.bytes
leader.replication.throttled.replicas|LIST||
local.retention.bytes|LONG|-2|log.local.retention.bytes
local.retention.ms|LONG|-2|log.local.retention.ms
max.compaction.lag.ms|LONG|9223372036854775807|log.cleaner.max.compaction.lag.ms
max.message.bytes|INT|1048588|message.max.bytes
message.timestamp.after.max.ms|LONG|3600000|log.message.timestamp.after.max.ms
message.timestamp.before.max.ms|LONG|9223372036854775807|log.message.timestamp.before.max.ms
message.timestamp.type|STRING|CreateTime|log.message.timestamp.type
min.cleanable.dirty.ratio|DOUBLE|0.5|log.cleaner.min.cleanable.ratio
min.compaction.lag.ms|LONG|0|log.cleaner.min.compaction.lag.ms
min.insync.replicas|INT|1|min.insync.replicas
preallocate|BOOLEAN|false|log.preallocate
remote.log.copy.disable|BOOLEAN|false|
remote.log.delete.on.disable|BOOLEAN|false|
remote.storage.enable|BOOLEAN|false|
retention.bytes|LONG|-1|log.retention.bytes
retention.ms|LONG|604800000|log.retention.ms,log.retention.minutes,log.retention.hours
segment.bytes|INT|1073741824|log.segment.bytes
segment.index.bytes|INT|10485760|log.index.size.max.bytes
segment.jitter.ms|LONG|0|log.roll.jitter.ms,log.roll.jitter.hours
segment.ms|LONG|604800000|log.roll.ms,log.roll.hours
unclean.leader.election.enable|BOOLEAN|false|unclean.leader.election.enable
""".splitlines()
"""Name, type, default, broker-level names: printed by Kafka 4.3.0's LogConfig and ServerTopicConfigSynonyms."""


@pytest.mark.parametrize("line", KAFKA, ids=lambda line: line.partition("|")[0])
def test_a_row_is_what_kafka_says(line: str) -> None:
    name, kind, default, synonyms = line.split("|")
    row = TABLE[name]
    assert (row.kind.name, row.default) == (kind, default)
    assert row.synonyms == tuple(filter(None, synonyms.split(",")))


def test_there_is_nothing_else_but_our_own() -> None:
    ours = TABLE.keys() - {line.partition("|")[0] for line in KAFKA}
    assert ours == {
        "siltstone.backlog.quota.bytes",
        "siltstone.backlog.quota.policy",
        "siltstone.damaged.read",
        "siltstone.message.ttl.ms",
        "siltstone.record.validation",
        "siltstone.retention.ack",
        "siltstone.retention.groups",
        "siltstone.segment.batches.max",
        "siltstone.segment.min.ms",
        "siltstone.table.buckets",
        "siltstone.table.bytes.min",
        "siltstone.table.change",
        "siltstone.table.columns",
        "siltstone.table.errors",
        "siltstone.table.format",
        "siltstone.table.history",
        "siltstone.table.interval.ms",
        "siltstone.table.key",
        "siltstone.table.key.columns",
        "siltstone.table.mode",
        "siltstone.table.name",
        "siltstone.table.partition.by",
        "siltstone.table.retention",
        "siltstone.table.sequence",
        "siltstone.table.value",
        "siltstone.table.value.message",
        "siltstone.table.value.schema",
    }


@pytest.mark.parametrize("row", TABLE.values(), ids=lambda row: row.name)
def test_every_default_is_allowed_and_written_as_it_stands(row) -> None:
    assert written(row.parse(row.default)) == row.default
    assert row.documentation.endswith(".")
    assert isinstance(row.effect, Effect)


# The answers of Kafka 4.3.0 to the same values (LogConfig.validate), word for word.
ACCEPTED = [
    ("retention.ms", " 12 ", "12"),
    ("retention.ms", "+5", "5"),
    ("retention.ms", "-1", "-1"),
    ("cleanup.policy", "compact, delete", "compact,delete"),
    ("cleanup.policy", "", ""),
    ("cleanup.policy", "compact,compact", "compact"),
    ("preallocate", "TRUE", "true"),
    ("preallocate", " true ", "true"),
    ("compression.type", " gzip ", "gzip"),
    ("compression.gzip.level", "-1", "-1"),
    ("min.cleanable.dirty.ratio", "0.3", "0.3"),
    ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
    ("leader.replication.throttled.replicas", "*", "*"),
    ("leader.replication.throttled.replicas", "0:1,2:3", "0:1,2:3"),
    ("leader.replication.throttled.replicas", "", ""),
    ("local.retention.ms", "-2", "-2"),
    ("retention.bytes", "-9223372036854775808", "-9223372036854775808"),
]
REFUSED = [
    ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    ("retention.ms", "9223372036854775808", "Invalid value 9223372036854775808 for configuration retention.ms: "
     "Not a number of type LONG"),
    ("retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
    ("cleanup.policy", "compact,", "Configuration 'cleanup.policy' values must not be empty."),
    ("cleanup.policy", "Compact", "Invalid value Compact for configuration cleanup.policy: String must be one of: "
     "compact, delete"),
    ("preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or "
     "false"),
    ("compression.type", "none", "Invalid value none for configuration compression.type: String must be one of: "
     "uncompressed, zstd, lz4, snappy, gzip, producer"),
    ("compression.gzip.level", "0", "Invalid value 0 for configuration compression.gzip.level: Value must be between "
     "1 and 9 or equal to -1"),
    ("compression.lz4.level", "18", "Invalid value 18 for configuration compression.lz4.level: Value must be no more "
     "than 17"),
    ("compression.zstd.level", "-131073", "Invalid value -131073 for configuration compression.zstd.level: Value must "
     "be at least -131072"),
    ("min.cleanable.dirty.ratio", "1.5", "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be "
     "no more than 1"),
    ("min.cleanable.dirty.ratio", "x", "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of "
     "type DOUBLE"),
    ("max.message.bytes", "2147483648", "Invalid value 2147483648 for configuration max.message.bytes: Not a number of "
     "type INT"),
    ("max.message.bytes", "0x10", "Invalid value 0x10 for configuration max.message.bytes: Not a number of type INT"),
    ("message.timestamp.type", "createTime", "Invalid value createTime for configuration message.timestamp.type: "
     "String must be one of: CreateTime, LogAppendTime"),
    ("segment.bytes", "100", "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576"),
    ("min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), ACCEPTED)
def test_accepted_as_kafka_does(name: str, text: str, expected: str) -> None:
    assert written(TABLE[name].parse(text)) == expected


@pytest.mark.parametrize(("name", "text", "message"), REFUSED)
def test_refused_in_kafkas_words(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidTopicConfig) as refusal:
        TABLE[name].parse(text)
    assert str(refusal.value) == message


@pytest.mark.parametrize("text", ["x", "none", "0", "0:1,", "*,0:1"])
def test_throttled_replicas_are_pairs_or_all(text: str) -> None:
    with pytest.raises(InvalidTopicConfig):
        TABLE["leader.replication.throttled.replicas"].parse(text)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-inf", "0x1p3", "1_0"])
def test_a_ratio_is_a_finite_decimal_where_kafka_takes_any_java_double(text: str) -> None:
    with pytest.raises(InvalidTopicConfig):
        TABLE["min.cleanable.dirty.ratio"].parse(text)


SMALLEST = """\
compression.gzip.level 1
compression.lz4.level 1
compression.zstd.level -131072
delete.retention.ms 0
file.delete.delay.ms 0
flush.messages 1
flush.ms 0
index.interval.bytes 0
local.retention.bytes -2
local.retention.ms -2
max.compaction.lag.ms 1
max.message.bytes 0
message.timestamp.after.max.ms 0
message.timestamp.before.max.ms 0
min.cleanable.dirty.ratio 0
min.compaction.lag.ms 0
min.insync.replicas 1
retention.ms -1
segment.bytes 1048576
segment.index.bytes 4
segment.jitter.ms 0
segment.ms 1
siltstone.backlog.quota.bytes -1
siltstone.message.ttl.ms -1
siltstone.segment.batches.max 0
siltstone.segment.min.ms 0
"""
LARGEST = """\
compression.gzip.level 9
compression.lz4.level 17
compression.zstd.level 22
min.cleanable.dirty.ratio 1
"""


@pytest.mark.parametrize(
    ("line", "step"),
    [*((line, -1) for line in SMALLEST.splitlines()), *((line, 1) for line in LARGEST.splitlines())],
)
def test_a_number_goes_as_far_as_in_kafka(line: str, step: int) -> None:
    """The ranges are those of Kafka's ConfigDef of LogConfig, and ours for our own configurations."""
    name, bound = line.split()
    assert TABLE[name].parse(bound) == float(bound)
    with pytest.raises(InvalidTopicConfig):
        TABLE[name].parse(str(int(bound) + step))


OURS = """\
siltstone.backlog.quota.bytes|LONG|-1
siltstone.backlog.quota.policy|STRING|producer_request_hold
siltstone.damaged.read|STRING|fail
siltstone.message.ttl.ms|LONG|-1
siltstone.record.validation|STRING|header
siltstone.retention.ack|BOOLEAN|false
siltstone.retention.groups|LIST|
siltstone.segment.batches.max|LONG|0
siltstone.segment.min.ms|LONG|0
"""


@pytest.mark.parametrize("line", OURS.splitlines(), ids=lambda line: line.partition("|")[0])
def test_our_own_change_nothing_unless_they_are_set(line: str) -> None:
    name, kind, default = line.split("|")
    row = TABLE[name]
    assert (row.kind.name, row.default, row.synonyms, row.effect) == (kind, default, (), Effect.ACTS)
