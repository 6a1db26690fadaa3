"""Scenarios of administration: creating, describing, changing and deleting, and the errors for what does not exist."""

from typing import Any

from kafka import KafkaAdminClient, OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidTopicError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)

from conformance.drivers.kafka_python.clients import (
    admin_client,
    consumer,
    read,
    read_from,
    refused,
    values_of,
)
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Scenario, holds, same, until, values


def topics(scenario: Scenario) -> None:
    name = scenario.name
    wanted = {name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "60000"}}}
    with admin_client(scenario) as admin:
        admin.create_topics(wanted, validate_only=True)
        holds("validate_only made it", name not in admin.list_topics())
        admin.create_topics(wanted, wait_for_metadata=True)
        refused(TopicAlreadyExistsError, lambda: admin.create_topics(wanted))
        refused(InvalidTopicError, lambda: admin.create_topics(["no/name"]))
        refused(
            InvalidConfigurationError,
            lambda: admin.create_topics({f"{name}-x": {"configs": {"no.such": "1"}}}),
        )
        holds("it is not listed", name in admin.list_topics())
        (described,) = admin.describe_topics([name])
        same("described", (described["name"], len(described["partitions"])), (name, 2))
        holds("no leader", all(each["leader_id"] >= 0 for each in described["partitions"]))
        admin.delete_topics([name])
        until("it is gone", lambda: name not in admin.list_topics())
        refused(UnknownTopicOrPartitionError, lambda: admin.delete_topics([name]))
        again = scenario.topic(3)
        same("made again", len(admin.describe_topics([again])[0]["partitions"]), 3)


def partitions(scenario: Scenario) -> None:
    topic = scenario.filled(3)
    with admin_client(scenario) as admin:
        admin.create_partitions({topic: 4})
        until("four partitions", lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 4)
        refused(InvalidPartitionsError, lambda: admin.create_partitions({topic: 2}))
    scenario.ask("fill", topic=topic, count=3, partition=3)
    got = {record.value for record in read_from(scenario, topic, 6, 4)}
    same("records", got, {*values(0, range(3)), *values(3, range(3))})


def configs_of(admin: KafkaAdminClient, kind: str, name: str) -> dict[str, dict[str, Any]]:
    asked = ConfigResource(ConfigResourceType[kind.upper()], name)
    found: dict[str, dict[str, Any]] = admin.describe_configs([asked], config_filter="all")[kind][name]
    return found


def describe_configs(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"retention.ms": "12345", "cleanup.policy": "compact"})
    with admin_client(scenario) as admin:
        found = configs_of(admin, "topic", topic)
        same("retention.ms", found["retention.ms"]["value"], "12345")
        same("its source", found["retention.ms"]["config_source"], "DYNAMIC_TOPIC_CONFIG")
        same("cleanup.policy", found["cleanup.policy"]["value"], "compact")
        same("a default", found["max.message.bytes"]["config_source"], "DEFAULT_CONFIG")
        node = admin.describe_cluster()["controller_id"]
        of_broker = configs_of(admin, "broker", str(node))
        holds("no default.replication.factor", int(of_broker["default.replication.factor"]["value"]) >= 1)


def alter_configs(scenario: Scenario) -> None:
    """kafka-python names again what was set before, so that no configuration gets its default value."""
    topic = scenario.topic()
    with admin_client(scenario) as admin:
        for name, value in (("retention.ms", "1000"), ("max.message.bytes", "5000")):
            changed = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
            same("told", admin.alter_configs([changed], incremental=False), {"topic": {topic: "OK"}})
        found = configs_of(admin, "topic", topic)
        same("max.message.bytes", found["max.message.bytes"]["value"], "5000")
        same("retention.ms", found["retention.ms"]["value"], "1000")


def incremental_alter(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"retention.ms": "1000"})
    with admin_client(scenario) as admin:

        def change(name: str, operation: Any) -> str:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: operation})
            told = admin.alter_configs([resource], incremental=True, raise_on_unknown=False)
            return str(told["topic"][topic])

        same("set", change("max.message.bytes", "5000"), "OK")
        same("deleted", change("retention.ms", (AlterConfigOp.DELETE, None)), "OK")
        same("appended", change("cleanup.policy", (AlterConfigOp.APPEND, "compact")), "OK")
        found = configs_of(admin, "topic", topic)
        same("max.message.bytes", found["max.message.bytes"]["value"], "5000")
        same("retention.ms", found["retention.ms"]["value"], "604800000")
        same("cleanup.policy", sorted(found["cleanup.policy"]["value"].split(",")), ["compact", "delete"])
        for name, value in (("no.such.config", "1"), ("retention.ms", "soon")):
            told = change(name, value)
            holds(f"{name}={value}: {told}", "InvalidConfiguration" in told or "40" in told)


def cluster(scenario: Scenario) -> None:
    with admin_client(scenario) as admin:
        found = admin.describe_cluster()
    holds("no cluster id", found["cluster_id"])
    same("addresses", [f"{node['host']}:{node['port']}" for node in found["brokers"]], [scenario.bootstrap])
    node = found["brokers"][0]
    same("controller", found["controller_id"], node.get("broker_id", node.get("node_id")))


def groups(scenario: Scenario) -> None:
    group, topic = scenario.name, scenario.filled(3)
    with admin_client(scenario) as admin:

        def state() -> str:
            return str(admin.describe_groups([group])[group]["group_state"])

        with consumer(scenario) as reader:
            reader.subscribe([topic])
            read(reader, 3)
            reader.commit()
            listed = {each["group_id"]: each["group_state"] for each in admin.list_groups()}
            same("state listed", listed.get(group), "Stable")
            same("state", state(), "Stable")
            (member,) = admin.describe_groups([group])[group]["members"]
            holds(f"{topic} is not assigned", topic in str(member["member_assignment"]))
            told = str(admin.delete_groups([group]))
            holds(f"error with members: {told}", NonEmptyGroupError.__name__ in told)
        until("an empty group", lambda: state() == "Empty")
        admin.delete_groups([group])
        holds("it is still listed", group not in {each["group_id"] for each in admin.list_groups()})
        told = str(admin.delete_groups([group]))
        holds(f"error of an unknown group: {told}", GroupIdNotFoundError.__name__ in told)


def group_offsets(scenario: Scenario) -> None:
    group, topic = scenario.name, scenario.filled(10)
    partition = TopicPartition(topic, 0)
    with admin_client(scenario) as admin:
        admin.alter_group_offsets(group, {partition: OffsetAndMetadata(7, "", -1)})
        same("offset", admin.list_group_offsets({group: None})[group][partition].offset, 7)
        with consumer(scenario) as reader:
            reader.subscribe([topic])
            same("read from there", values_of(read(reader, 3)), values(0, range(7, 10)))
            told = admin.alter_group_offsets(group, {partition: OffsetAndMetadata(1, "", -1)})
            same("error while it has members", told[partition], UnknownMemberIdError)
        until("the member is gone", lambda: not admin.describe_groups([group])[group]["members"])
        admin.delete_group_offsets(group, [partition])
        same("after its deletion", admin.list_group_offsets({group: None})[group], {})


def delete_records(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    partition = TopicPartition(topic, 0)
    with admin_client(scenario) as admin:
        told = admin.delete_records({partition: 5})[partition]
        same("low watermark", told["low_watermark"], 5)
        same("what is left", values_of(read_from(scenario, topic, 5)), values(0, range(5, 10)))
        refused(OffsetOutOfRangeError, lambda: admin.delete_records({partition: 11}))
    with consumer(scenario) as reader:
        same("beginning", reader.beginning_offsets([partition])[partition], 5)
        same("end", reader.end_offsets([partition])[partition], 10)


def list_offsets(scenario: Scenario) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    scenario.ask("fill", topic=topic, count=1, first=100, first_timestamp_ms=START_MS + 1)
    partition = TopicPartition(topic, 0)
    with admin_client(scenario) as admin:
        for asked, wanted in (
            (OffsetSpec.EARLIEST, (0, -1)),
            (OffsetSpec.LATEST, (101, -1)),
            (START_MS + 555, (56, START_MS + 560)),
            (START_MS + 5_000, (-1, -1)),
            (OffsetSpec.MAX_TIMESTAMP, (99, START_MS + 990)),
        ):
            found = admin.list_partition_offsets({partition: asked})[partition]
            same(f"found for {asked}", (found.offset, found.timestamp), wanted)


SCENARIOS = {
    "topics": topics, "partitions": partitions, "describe_configs": describe_configs,
    "alter_configs": alter_configs, "incremental_alter": incremental_alter, "cluster": cluster, "groups": groups,
    "group_offsets": group_offsets, "delete_records": delete_records, "list_offsets": list_offsets,
}  # fmt: skip
PARTLY = {"alter_configs": "kafka-python names again what was set before"}
