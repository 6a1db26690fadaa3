"""Scenarios of administration: creating, describing, changing and deleting, and the errors for what does not exist."""

from conformance.drivers.java.clients import (
    JavaScenario,
    admin_of,
    consumer,
    read,
    read_from,
    refused,
    values_of,
)
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Scenario, holds, same, until, values
from oracles.java_admin import FoundOffset
from oracles.java_clients import JavaClients


def topics(scenario: Scenario, clients: JavaClients) -> None:
    name = scenario.name
    with admin_of(clients) as admin:
        admin.create_topic(name, 2, configs={"retention.ms": "60000"})
        refused("TopicExistsException", lambda: admin.create_topic(name))
        refused("InvalidTopicException", lambda: admin.create_topic("no/name"))
        refused(
            "InvalidConfigurationException", lambda: admin.create_topic(f"{name}-x", configs={"no.such": "1"})
        )
        until("it is listed", lambda: name in admin.topic_names())
        described = admin.describe_topic(name)
        same("described", (described.name, len(described.leaders), described.is_internal), (name, 2, False))
        admin.delete_topics([name])
        until("it is gone", lambda: name not in admin.topic_names())
        refused("UnknownTopicOrPartitionException", lambda: admin.delete_topics([name]))
        again = scenario.topic(3)
        same("made again", len(admin.describe_topic(again).leaders), 3)
        holds("it has its old id", admin.describe_topic(again).topic_id != described.topic_id)


def partitions(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(3)
    with admin_of(clients) as admin:
        admin.add_partitions(topic, 4)
        until("four partitions", lambda: len(admin.describe_topic(topic).leaders) == 4)
        refused("InvalidPartitionsException", lambda: admin.add_partitions(topic, 2))
    scenario.ask("fill", topic=topic, count=3, partition=3)
    got = set(values_of(read_from(scenario, clients, topic, 6, 4)))
    same("records", got, {*values(0, range(3)), *values(3, range(3))})


def describe_configs(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.topic(configs={"retention.ms": "12345", "cleanup.policy": "compact"})
    with admin_of(clients) as admin:
        found = admin.topic_configs(topic)
        retention = found["retention.ms"]
        same("retention.ms", (retention.value, retention.source), ("12345", "DYNAMIC_TOPIC_CONFIG"))
        same("cleanup.policy", found["cleanup.policy"].value, "compact")
        same("a default", found["max.message.bytes"].source, "DEFAULT_CONFIG")
        (node,) = admin.nodes()
        replicas = admin.broker_configs(node)["default.replication.factor"].value
        holds("no default.replication.factor", int(replicas or 0) >= 1)
        refused("UnknownTopicOrPartitionException", lambda: admin.topic_configs(f"{topic}-no"))


def incremental_alter(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.topic(configs={"retention.ms": "1000"})
    with admin_of(clients) as admin:
        admin.set_topic_configs(topic, {"max.message.bytes": "5000", "retention.ms": None})
        found = admin.topic_configs(topic)
        same("max.message.bytes", found["max.message.bytes"].value, "5000")
        same("retention.ms", found["retention.ms"].value, "604800000")
        for name, value in (("no.such.config", "1"), ("retention.ms", "soon")):
            refused("InvalidConfigurationException", lambda: admin.set_topic_configs(topic, {name: value}))  # noqa: B023


def cluster(scenario: Scenario, clients: JavaClients) -> None:
    with admin_of(clients) as admin:
        holds("no cluster id", admin.cluster_id())
        same("addresses", [*admin.nodes().values()], [scenario.bootstrap])


def groups(scenario: Scenario, clients: JavaClients) -> None:
    group, topic = scenario.name, scenario.filled(3)
    with admin_of(clients) as admin:
        with consumer(scenario, clients) as reader:
            reader.subscribe([topic])
            read(clients, reader, 3)
            reader.commitSync()
            same("state listed", admin.group_states().get(group), "Stable")
            described = admin.describe_group(group)
            same("described", (described.state, described.assignor), ("Stable", "range"))
            same("assigned", [*described.members.values()], [((topic, 0),)])
            refused("GroupNotEmptyException", lambda: admin.delete_groups([group]))
        until("an empty group", lambda: admin.describe_group(group).state == "Empty")
        admin.delete_groups([group])
        holds("it is still listed", group not in admin.group_states())
        refused("GroupIdNotFoundException", lambda: admin.delete_groups([group]))


def group_offsets(scenario: Scenario, clients: JavaClients) -> None:
    group, topic = scenario.name, scenario.filled(10)
    with admin_of(clients) as admin:
        admin.set_committed_offsets(group, {(topic, 0): 7})
        same("offsets", admin.committed_offsets(group), {(topic, 0): 7})
        with consumer(scenario, clients) as reader:
            reader.subscribe([topic])
            same("read from there", values_of(read(clients, reader, 3)), values(0, range(7, 10)))
            refused("UnknownMemberIdException", lambda: admin.set_committed_offsets(group, {(topic, 0): 1}))
            subscribed = "GroupSubscribedToTopicException"
            refused(subscribed, lambda: admin.delete_committed_offsets(group, [(topic, 0)]))
        until("the member is gone", lambda: not admin.describe_group(group).members)
        admin.delete_committed_offsets(group, [(topic, 0)])
        same("after their deletion", admin.committed_offsets(group), {})


def delete_records(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(10)
    with admin_of(clients) as admin:
        same("low watermark", admin.delete_records((topic, 0), 5), 5)
        same("what is left", values_of(read_from(scenario, clients, topic, 5)), values(0, range(5, 10)))
        refused("OffsetOutOfRangeException", lambda: admin.delete_records((topic, 0), 11))
        same("earliest", admin.earliest_offset((topic, 0)).offset, 5)
        same("latest", admin.latest_offset((topic, 0)).offset, 10)


def list_offsets(scenario: Scenario, clients: JavaClients) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    scenario.ask("fill", topic=topic, count=1, first=100, first_timestamp_ms=START_MS + 1)
    with admin_of(clients) as admin:
        for what, found, wanted in (
            ("earliest", admin.earliest_offset((topic, 0)), (0, -1)),
            ("latest", admin.latest_offset((topic, 0)), (101, -1)),
            ("by time", admin.offset_at((topic, 0), START_MS + 555), (56, START_MS + 560)),
            ("after the last", admin.offset_at((topic, 0), START_MS + 5_000), (-1, -1)),
            ("max timestamp", admin.offset_of_newest_timestamp((topic, 0)), (99, START_MS + 990)),
        ):
            same(what, _place(found), wanted)


def _place(found: FoundOffset) -> tuple[int, int]:
    return found.offset, found.timestamp_ms


SCENARIOS: dict[str, JavaScenario] = {
    "topics": topics, "partitions": partitions, "describe_configs": describe_configs,
    "incremental_alter": incremental_alter, "cluster": cluster, "groups": groups, "group_offsets": group_offsets,
    "delete_records": delete_records, "list_offsets": list_offsets,
}  # fmt: skip
LACKS = {"alter_configs": "the Java client of Kafka 4 has no alterConfigs any more"}
