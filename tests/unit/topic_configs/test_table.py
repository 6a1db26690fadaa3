import logging

import pytest

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.model.limits import APPEND_BYTES_MAX, HOUR_MS
from siltstone.topic_configs.table import (
    parse_topic_configs,
    stored_topic_config,
    written_configs,
    written_defaults,
)
from siltstone.topic_configs.values import InvalidTopicConfig

DAY_MS = 24 * HOUR_MS


def test_a_topic_that_says_nothing() -> None:
    config = parse_topic_configs({})
    assert config.cleanup_policy == {"delete"} and not config.is_compacted
    assert config.max_message_bytes == 1_048_588
    assert config.timestamp_type == "CreateTime"
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (2**63 - 1, HOUR_MS)
    assert (config.retention_ms, config.retention_bytes) == (7 * DAY_MS, -1)
    assert config.compression_codec is None
    assert not config.validates_records


def test_a_topic_that_says_everything() -> None:
    config = parse_topic_configs(
        {
            "cleanup.policy": "compact, delete",
            "compression.type": "zstd",
            "max.message.bytes": "5000",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "1",
            "message.timestamp.after.max.ms": "2",
            "retention.ms": "-1",
            "retention.bytes": "77",
            "siltstone.record.validation": "full",
        }
    )
    assert config.cleanup_policy == {"compact", "delete"} and config.is_compacted
    assert config.compression_codec is Codec.ZSTD
    assert config.max_message_bytes == 5000
    assert config.timestamp_type == "LogAppendTime"
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (1, 2)
    assert (config.retention_ms, config.retention_bytes) == (-1, 77)
    assert config.validates_records


@pytest.mark.parametrize(
    ("text", "codec"),
    [("producer", None), ("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)],
)
def test_every_compression_type_is_a_codec(text: str, codec: int | None) -> None:
    assert parse_topic_configs({"compression.type": text}).compression_codec == codec


def test_the_topic_counts_then_the_broker_then_the_table() -> None:
    defaults = written_defaults({"log.retention.ms": " 5 ", "max.message.bytes": "6"})
    config = parse_topic_configs({"max.message.bytes": "7"}, defaults)
    assert (config.retention_ms, config.max_message_bytes, config.retention_bytes) == (5, 7, -1)


def test_a_broker_default_may_have_either_name_but_must_be_one() -> None:
    assert written_defaults({"message.max.bytes": "1", "log.cleaner.min.cleanable.ratio": ".5"}) == {
        "max.message.bytes": "1",
        "min.cleanable.dirty.ratio": "0.5",
    }
    with pytest.raises(InvalidTopicConfig, match=r"Unknown topic config name: log\.retention\.hours"):
        written_defaults({"log.retention.hours": "1"})


def test_no_batch_may_be_larger_than_an_append() -> None:
    config = parse_topic_configs({"max.message.bytes": str(2**31 - 1)})
    assert config.max_message_bytes == APPEND_BYTES_MAX


def test_unknown_names_are_refused_before_any_value_is_looked_at() -> None:
    with pytest.raises(InvalidTopicConfig) as refusal:
        written_configs({"retention.ms": "abc", "foo": "1"})
    assert str(refusal.value) == "Unknown topic config name: foo"


def test_a_refusal_names_the_configuration_that_was_probably_meant() -> None:
    with pytest.raises(InvalidTopicConfig) as refusal:
        written_configs({"retention": "1"})
    assert str(refusal.value) == "Unknown topic config name: retention; did you mean retention.ms?"


@pytest.mark.parametrize("name", ["message.format.version", "internal.segment.bytes", "log.retention.ms"])
def test_what_kafka_removed_or_keeps_to_itself_is_unknown_to_topics(name: str) -> None:
    with pytest.raises(InvalidTopicConfig, match="Unknown topic config name"):
        parse_topic_configs({name: "1"})


def test_two_configurations_that_contradict_each_other() -> None:
    with pytest.raises(InvalidTopicConfig) as refusal:
        parse_topic_configs({"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"})
    message = "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (10)"
    assert str(refusal.value) == message
    with pytest.raises(InvalidTopicConfig, match="conflict"):
        parse_topic_configs({"max.compaction.lag.ms": "10"}, {"min.compaction.lag.ms": "100"})


@pytest.mark.parametrize(
    ("quota", "retention", "is_refused"),
    [
        ("100", "100", True),
        ("101", "100", True),
        ("99", "100", False),
        ("100", "-1", False),
        ("-1", "0", False),
    ],
)
def test_r14_a_quota_that_is_not_below_what_is_kept_is_refused(
    quota: str, retention: str, is_refused: bool
) -> None:
    configs = {"siltstone.backlog.quota.bytes": quota, "retention.bytes": retention}
    if not is_refused:
        assert parse_topic_configs(configs).backlog_quota_bytes == int(quota)
        return
    with pytest.raises(
        InvalidTopicConfig, match=rf"quota\.bytes \({quota}\) >= retention\.bytes \({retention}\)"
    ):
        parse_topic_configs(configs)


def test_r14_against_the_brokers_default_too() -> None:
    with pytest.raises(InvalidTopicConfig, match="would delete unread records"):
        parse_topic_configs({"siltstone.backlog.quota.bytes": "100"}, {"retention.bytes": "50"})


def test_a_group_without_a_name_would_never_read_anything() -> None:
    with pytest.raises(InvalidTopicConfig, match=r"siltstone\.retention\.groups' values must not be empty"):
        parse_topic_configs({"siltstone.retention.groups": "a,,b"})
    assert parse_topic_configs({"siltstone.retention.groups": " b , a, b"}).retention_groups == ("b", "a")
    assert parse_topic_configs({"siltstone.retention.groups": ""}).retention_groups == ()


def test_what_is_stored_is_served_even_if_it_is_not_understood_any_more(caplog) -> None:
    stored = {"from.the.future": "1", "retention.ms": "soon", "max.message.bytes": "9"}
    with caplog.at_level(logging.WARNING):
        config = stored_topic_config(stored, {"retention.ms": "11"})
    assert (config.max_message_bytes, config.retention_ms) == (9, 11)
    assert "from.the.future" in caplog.text and "soon" in caplog.text
