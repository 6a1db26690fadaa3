"""Scenarios of administration: creating, describing, changing and deleting, and the errors for what does not exist."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from conformance.drivers.confluent.clients import SECONDS_MAX, consumer, read, read_from
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Mismatch, Scenario, holds, same, until, values


def admin_of(scenario: Scenario) -> AdminClient:
    return AdminClient({"bootstrap.servers": scenario.bootstrap})


def done(futures: dict[Any, Future[Any]]) -> Any:
    """Returns the only result of a call for many."""
    (future,) = futures.values()
    return future.result(SECONDS_MAX)


def refused(wanted: str, call: Callable[[], object]) -> None:
    try:
        call()
    except KafkaException as error:
        same("error", error.args[0].name(), wanted)
    else:
        raise Mismatch(f"it was done where {wanted} is right")


def topics(scenario: Scenario) -> None:
    admin, name = admin_of(scenario), scenario.name
    new = NewTopic(name, num_partitions=2, replication_factor=1, config={"retention.ms": "60000"})
    done(admin.create_topics([new], validate_only=True))
    holds("validate_only made it", name not in admin.list_topics(timeout=10).topics)
    done(admin.create_topics([new]))
    refused("TOPIC_ALREADY_EXISTS", lambda: done(admin.create_topics([new])))
    refused("TOPIC_EXCEPTION", lambda: done(admin.create_topics([NewTopic("no/name", 1, 1)])))
    refused(
        "INVALID_CONFIG",
        lambda: done(admin.create_topics([NewTopic(f"{name}-x", 1, 1, config={"no.such": "1"})])),
    )
    holds("it is not listed", name in admin.list_topics(timeout=10).topics)
    described = done(admin.describe_topics(TopicCollection([name])))
    same("described", (described.name, len(described.partitions)), (name, 2))
    holds("no leader", all(each.leader for each in described.partitions))
    done(admin.delete_topics([name]))
    until("it is gone", lambda: name not in admin.list_topics(timeout=10).topics)
    refused("UNKNOWN_TOPIC_OR_PART", lambda: done(admin.delete_topics([name])))
    again = scenario.topic(3)
    same("made again", len(done(admin.describe_topics(TopicCollection([again]))).partitions), 3)


def partitions(scenario: Scenario) -> None:
    admin, topic = admin_of(scenario), scenario.filled(3)
    done(admin.create_partitions([NewPartitions(topic, 4)]))
    until("four partitions", lambda: len(admin.list_topics(topic, 10).topics[topic].partitions) == 4)
    refused("INVALID_PARTITIONS", lambda: done(admin.create_partitions([NewPartitions(topic, 2)])))
    scenario.ask("fill", topic=topic, count=3, partition=3)
    got = {message.value() for message in read_from(scenario, topic, 6, 4)}
    same("records", got, {*values(0, range(3)), *values(3, range(3))})


def configs_of(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = done(admin.describe_configs([ConfigResource(kind, name)]))
    return found


def describe_configs(scenario: Scenario) -> None:
    admin = admin_of(scenario)
    topic = scenario.topic(configs={"retention.ms": "12345", "cleanup.policy": "compact"})
    found = configs_of(admin, ResourceType.TOPIC, topic)
    same("retention.ms", found["retention.ms"].value, "12345")
    same("its source", ConfigSource(found["retention.ms"].source), ConfigSource.DYNAMIC_TOPIC_CONFIG)
    same("cleanup.policy", found["cleanup.policy"].value, "compact")
    holds("a default that is none", found["max.message.bytes"].is_default)
    (node,) = admin.list_topics(timeout=10).brokers
    of_broker = configs_of(admin, ResourceType.BROKER, str(node))
    holds("no default.replication.factor", int(of_broker["default.replication.factor"].value or 0) >= 1)
    refused("UNKNOWN_TOPIC_OR_PART", lambda: configs_of(admin, ResourceType.TOPIC, f"{topic}-no"))


def alter_configs(scenario: Scenario) -> None:
    """A configuration that is not named again gets its default value."""
    admin, topic = admin_of(scenario), scenario.topic()
    for name, value in (("retention.ms", "1000"), ("max.message.bytes", "5000")):
        done(admin.alter_configs([ConfigResource(ResourceType.TOPIC, topic, set_config={name: value})]))
    found = configs_of(admin, ResourceType.TOPIC, topic)
    same("max.message.bytes", found["max.message.bytes"].value, "5000")
    same("retention.ms", found["retention.ms"].value, "604800000")


def incremental_alter(scenario: Scenario) -> None:
    admin, topic = admin_of(scenario), scenario.topic(configs={"retention.ms": "1000"})

    def change(name: str, value: str | None, kind: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=kind)  # type: ignore[arg-type]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        done(admin.incremental_alter_configs([resource]))

    change("max.message.bytes", "5000", AlterConfigOpType.SET)
    change("retention.ms", None, AlterConfigOpType.DELETE)
    change("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    found = configs_of(admin, ResourceType.TOPIC, topic)
    same("max.message.bytes", found["max.message.bytes"].value, "5000")
    same("retention.ms", found["retention.ms"].value, "604800000")
    same("cleanup.policy", sorted((found["cleanup.policy"].value or "").split(",")), ["compact", "delete"])
    refused("INVALID_CONFIG", lambda: change("no.such.config", "1", AlterConfigOpType.SET))
    refused("INVALID_CONFIG", lambda: change("retention.ms", "soon", AlterConfigOpType.SET))


def cluster(scenario: Scenario) -> None:
    admin = admin_of(scenario)
    found = admin.describe_cluster().result(SECONDS_MAX)
    holds("no cluster id", found.cluster_id)
    same("addresses", [f"{node.host}:{node.port}" for node in found.nodes], [scenario.bootstrap])
    same("controller", found.controller.id, found.nodes[0].id)


def groups(scenario: Scenario) -> None:
    admin, group, topic = admin_of(scenario), scenario.name, scenario.filled(3)
    reader = consumer(scenario)
    reader.subscribe([topic])
    read(reader, 3)
    reader.commit(asynchronous=False)
    listed = {each.group_id: each.state for each in admin.list_consumer_groups().result(SECONDS_MAX).valid}
    same("state listed", listed.get(group), ConsumerGroupState.STABLE)
    described = done(admin.describe_consumer_groups([group]))
    same("state", described.state, ConsumerGroupState.STABLE)
    (member,) = described.members
    same("assigned", [each.topic for each in member.assignment.topic_partitions], [topic])
    refused("NON_EMPTY_GROUP", lambda: done(admin.delete_consumer_groups([group])))
    reader.close()
    until(
        "an empty group",
        lambda: done(admin.describe_consumer_groups([group])).state == ConsumerGroupState.EMPTY,
    )
    done(admin.delete_consumer_groups([group]))
    listed = {each.group_id: each.state for each in admin.list_consumer_groups().result(SECONDS_MAX).valid}
    holds("it is still listed", group not in listed)
    refused("GROUP_ID_NOT_FOUND", lambda: done(admin.delete_consumer_groups([group])))


def group_offsets(scenario: Scenario) -> None:
    """Deletes no single offsets: librdkafka can do that, and its Python side cannot."""
    admin, group, topic = admin_of(scenario), scenario.name, scenario.filled(10)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 7)])
    done(admin.alter_consumer_group_offsets([wanted]))
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    same("offset", done(admin.list_consumer_group_offsets([asked])).topic_partitions[0].offset, 7)
    reader = consumer(scenario)
    reader.subscribe([topic])
    same("read from there", [message.value() for message in read(reader, 3)], values(0, range(7, 10)))
    (altered,) = done(admin.alter_consumer_group_offsets([wanted])).topic_partitions
    same("error while it has members", altered.error.name(), "UNKNOWN_MEMBER_ID")
    reader.close()


def delete_records(scenario: Scenario) -> None:
    admin, topic = admin_of(scenario), scenario.filled(10)
    same("low watermark", done(admin.delete_records([TopicPartition(topic, 0, 5)])).low_watermark, 5)
    same("what is left", [got.value() for got in read_from(scenario, topic, 5)], values(0, range(5, 10)))
    refused("OFFSET_OUT_OF_RANGE", lambda: done(admin.delete_records([TopicPartition(topic, 0, 11)])))
    reader = consumer(scenario)
    same("watermarks", reader.get_watermark_offsets(TopicPartition(topic, 0), 10), (5, 10))
    reader.close()


def list_offsets(scenario: Scenario) -> None:
    admin, topic = admin_of(scenario), scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    scenario.ask("fill", topic=topic, count=1, first=100, first_timestamp_ms=START_MS + 1)
    for specification, wanted in (
        (OffsetSpec.earliest(), (0, -1)),
        (OffsetSpec.latest(), (101, -1)),
        (OffsetSpec.for_timestamp(START_MS + 555), (56, START_MS + 560)),
        (OffsetSpec.for_timestamp(START_MS + 5_000), (-1, -1)),
        (OffsetSpec.max_timestamp(), (99, START_MS + 990)),
    ):
        found = done(admin.list_offsets({TopicPartition(topic, 0): specification}))
        same(f"{type(specification).__name__}", (found.offset, found.timestamp), wanted)


SCENARIOS = {
    "topics": topics, "partitions": partitions, "describe_configs": describe_configs,
    "alter_configs": alter_configs, "incremental_alter": incremental_alter, "cluster": cluster, "groups": groups,
    "group_offsets": group_offsets, "delete_records": delete_records, "list_offsets": list_offsets,
}  # fmt: skip
PARTLY = {"group_offsets": "confluent-kafka cannot delete single offsets"}
