"""Makes the entries of this broker's settings for DescribeConfigs, under Kafka's names where Kafka has one.

They come from the settings file, so all of them are read-only in the protocol.
"""

from collections.abc import Iterator, Mapping

import msgspec

from siltstone.broker.apis.config_entries import ConfigSource
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import Listener
from siltstone.broker.settings import BrokerSettings
from siltstone.topic_configs.rows import TABLE
from siltstone.topic_configs.values import ConfigType, Value, written

_KAFKA_NAMES = {
    "rack": "broker.rack",
    "auto_create_topics_enable": "auto.create.topics.enable",
    "num_partitions": "num.partitions",
    "default_replication_factor": "default.replication.factor",
    "offsets_topic_num_partitions": "offsets.topic.num.partitions",
    "transaction_state_log_num_partitions": "transaction.state.log.num.partitions",
    "transaction_max_timeout_ms": "transaction.max.timeout.ms",
    "transactional_id_expiration_ms": "transactional.id.expiration.ms",
    "fetch_max_bytes": "fetch.max.bytes",
    "fetch_sessions_max": "max.incremental.fetch.session.cache.slots",
    "producer_id_expiration_ms": "producer.id.expiration.ms",
    "group_initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "group_min_session_timeout_ms": "group.min.session.timeout.ms",
    "group_max_session_timeout_ms": "group.max.session.timeout.ms",
    "group_max_size": "group.max.size",
    "group_consumer_session_timeout_ms": "group.consumer.session.timeout.ms",
    "group_consumer_heartbeat_interval_ms": "group.consumer.heartbeat.interval.ms",
    "group_consumer_assignment_interval_ms": "group.consumer.assignment.interval.ms",
    "group_consumer_regex_refresh_interval_ms": "group.consumer.regex.refresh.interval.ms",
    "group_consumer_max_size": "group.consumer.max.size",
    "group_consumer_migration_policy": "group.consumer.migration.policy",
    "group_share_session_timeout_ms": "group.share.session.timeout.ms",
    "group_share_heartbeat_interval_ms": "group.share.heartbeat.interval.ms",
    "group_share_max_size": "group.share.max.size",
    "group_share_record_lock_duration_ms": "group.share.record.lock.duration.ms",
    "group_share_delivery_count_limit": "group.share.delivery.count.limit",
    "group_share_partition_max_record_locks": "group.share.partition.max.record.locks",
    "group_share_max_share_sessions": "group.share.max.share.sessions",
    "offset_metadata_max_bytes": "offset.metadata.max.bytes",
    "offsets_retention_minutes": "offsets.retention.minutes",
    "offsets_retention_check_interval_ms": "offsets.retention.check.interval.ms",
}


class BrokerEntry(msgspec.Struct, frozen=True):
    name: str
    value: str
    kind: ConfigType
    source: ConfigSource
    documentation: str


def broker_entries(parts: BrokerParts, listener: Listener) -> list[BrokerEntry]:
    """Returns all entries, ordered by name."""
    entries = [
        *_of_this_broker(parts, listener),
        *_of_settings("broker", parts.settings),
        *_of_settings("groups", parts.groups.settings),
        *_of_topics(parts.topics.defaults),
    ]
    return sorted(entries, key=lambda entry: entry.name)


def _of_this_broker(parts: BrokerParts, listener: Listener) -> Iterator[BrokerEntry]:
    address = f"{listener.name}://{listener.advertised_host}:{listener.advertised_port}"
    for name, value, documentation in (
        (
            "advertised.listeners",
            address,
            "The address of this listener to which clients connect.",
        ),
        ("broker.id", parts.node_id, "The number of this node."),
        ("node.id", parts.node_id, "The number of this node."),
        ("delete.topic.enable", True, "Whether topics can be deleted."),
        ("offsets.topic.replication.factor", 1, "The bucket replicates the data."),
    ):
        yield BrokerEntry(
            name, written(value), _kind_of(name, value), ConfigSource.STATIC_BROKER, documentation
        )


def _of_settings(section: str, settings: BrokerSettings | GroupSettings) -> Iterator[BrokerEntry]:
    for field in msgspec.structs.fields(settings):
        value = getattr(settings, field.name)
        if not isinstance(value, bool | int | float | str):
            continue  # ``topic_defaults``: each is an entry of its own, under the broker's name for it
        name = _KAFKA_NAMES.get(field.name, f"siltstone.{field.name.replace('_', '.')}")
        source = ConfigSource.DEFAULT if value == field.default else ConfigSource.STATIC_BROKER
        documentation = f"Setting {section}.{field.name} of this node."
        yield BrokerEntry(name, written(value), _kind_of(name, value), source, documentation)


def _of_topics(defaults: Mapping[str, str]) -> Iterator[BrokerEntry]:
    for row in TABLE.values():
        if row.synonyms:
            source = ConfigSource.STATIC_BROKER if row.name in defaults else ConfigSource.DEFAULT
            value = defaults.get(row.name, row.default)
            documentation = f"Default for topics that do not set {row.name}. {row.documentation}"
            yield BrokerEntry(row.synonyms[0], value, row.kind, source, documentation)


def _kind_of(name: str, value: Value) -> ConfigType:
    if isinstance(value, bool):
        return ConfigType.BOOLEAN
    if isinstance(value, int):
        return ConfigType.LONG if name.endswith(".ms") else ConfigType.INT
    return ConfigType.DOUBLE if isinstance(value, float) else ConfigType.STRING
