"""Scenarios of administration, as far as aiokafka has it."""

from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidPartitionsError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from conformance.drivers.aiokafka_driver.clients import (
    admin_client,
    asked,
    consumer,
    read,
    read_from,
    refused,
    run_to_end,
    until,
    values_of,
)
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Scenario, holds, same, values

DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5


def succeeded(response: Any) -> Any:
    """Raises the first error: aiokafka returns errors of the broker as numbers."""
    for field in ("topic_errors", "topic_error_codes"):
        for _, code, *_ in getattr(response, field, ()):
            if code:
                raise for_code(code)()
    return response


async def topics(scenario: Scenario) -> None:
    name = scenario.name
    async with admin_client(scenario) as admin:

        async def create(new: NewTopic, **how: Any) -> None:
            succeeded(await admin.create_topics([new], **how))

        async def is_listed() -> bool:
            return name in await admin.list_topics()

        async def is_gone() -> bool:
            return not await is_listed()

        async def delete() -> None:
            succeeded(await admin.delete_topics([name]))

        new = NewTopic(name, 2, 1, topic_configs={"retention.ms": "60000"})
        await create(new, validate_only=True)
        holds("validate_only made it", await is_gone())
        await create(new)
        await refused(TopicAlreadyExistsError, create(new))
        await refused(InvalidTopicError, create(NewTopic("no/name", 1, 1)))
        await until("it is listed", is_listed)
        (described,) = await admin.describe_topics([name])
        same("described", (described["topic"], len(described["partitions"])), (name, 2))
        holds("no leader", all(each["leader"] >= 0 for each in described["partitions"]))
        await delete()
        await until("it is gone", is_gone)
        await refused(UnknownTopicOrPartitionError, delete())
        again = scenario.topic(3)
        same("made again", len((await admin.describe_topics([again]))[0]["partitions"]), 3)


async def partitions(scenario: Scenario) -> None:
    topic = scenario.filled(3)
    async with admin_client(scenario) as admin:

        async def has_four() -> bool:
            return len((await admin.describe_topics([topic]))[0]["partitions"]) == 4

        await admin.create_partitions({topic: NewPartitions(4)})
        await until("four partitions", has_four)
        await refused(InvalidPartitionsError, admin.create_partitions({topic: NewPartitions(2)}))
    await asked(scenario, "fill", topic=topic, count=3, partition=3)
    got = set(values_of(await read_from(scenario, topic, 6, 4)))
    same("records", got, {*values(0, range(3)), *values(3, range(3))})


async def configs_of(
    admin: AIOKafkaAdminClient, kind: ConfigResourceType, name: str
) -> dict[str, tuple[str, int]]:
    """Returns the value and the source of each configuration."""
    (response,) = await admin.describe_configs([ConfigResource(kind, name)])
    ((code, _, _, _, entries),) = response.resources
    if code:
        raise for_code(code)()
    return {key: (value, source) for key, value, _, source, *_ in entries}


async def describe_configs(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"retention.ms": "12345", "cleanup.policy": "compact"})
    async with admin_client(scenario) as admin:
        found = await configs_of(admin, ConfigResourceType.TOPIC, topic)
        same("retention.ms", found["retention.ms"], ("12345", DYNAMIC_TOPIC_CONFIG))
        same("cleanup.policy", found["cleanup.policy"][0], "compact")
        same("a default", found["max.message.bytes"][1], DEFAULT_CONFIG)
        node = (await admin.describe_cluster())["brokers"][0]["node_id"]
        of_broker = await configs_of(admin, ConfigResourceType.BROKER, str(node))
        holds("no default.replication.factor", int(of_broker["default.replication.factor"][0]) >= 1)
        unknown = configs_of(admin, ConfigResourceType.TOPIC, f"{topic}-no")
        await refused(UnknownTopicOrPartitionError, unknown)


async def alter_configs(scenario: Scenario) -> None:
    """A configuration that is not named again gets its default value."""
    topic = scenario.topic()
    async with admin_client(scenario) as admin:
        for name, value in (("retention.ms", "1000"), ("max.message.bytes", "5000")):
            changed = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
            (response,) = await admin.alter_configs([changed])
            same("told", [each[0] for each in response.resources], [0])
        found = await configs_of(admin, ConfigResourceType.TOPIC, topic)
        same("max.message.bytes", found["max.message.bytes"][0], "5000")
        same("retention.ms", found["retention.ms"][0], "604800000")


async def cluster(scenario: Scenario) -> None:
    async with admin_client(scenario) as admin:
        found = await admin.describe_cluster()
    holds("no cluster id", found["cluster_id"])
    same("addresses", [f"{node['host']}:{node['port']}" for node in found["brokers"]], [scenario.bootstrap])
    same("controller", found["controller_id"], found["brokers"][0]["node_id"])


async def groups(scenario: Scenario) -> None:
    """aiokafka can list and describe groups, and cannot delete them."""
    group, topic = scenario.name, scenario.filled(3)
    async with admin_client(scenario) as admin:

        async def state() -> str:
            ((described,),) = [each.groups for each in await admin.describe_consumer_groups([group])]
            same("error", described[0], 0)
            return str(described[2])

        async def is_empty() -> bool:
            return await state() == "Empty"

        async with consumer(scenario) as reader:
            reader.subscribe([topic])
            await read(reader, 3)
            await reader.commit()
            same("listed", (group, "consumer") in await admin.list_consumer_groups(), True)
            same("state", await state(), "Stable")
        await until("an empty group", is_empty)


async def group_offsets(scenario: Scenario) -> None:
    """aiokafka can only list the offsets of a group."""
    group, topic = scenario.name, scenario.filled(10)
    partition = TopicPartition(topic, 0)
    async with admin_client(scenario) as admin, consumer(scenario) as reader:
        same("of a new group", await admin.list_consumer_group_offsets(group), {})
        reader.subscribe([topic])
        await read(reader, 7)
        await reader.commit({partition: 7})
        same("offset", (await admin.list_consumer_group_offsets(group))[partition].offset, 7)


async def delete_records(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    partition = TopicPartition(topic, 0)
    async with admin_client(scenario) as admin:
        same("low watermark", await admin.delete_records({partition: RecordsToDelete(5)}), {partition: 5})
        same("what is left", values_of(await read_from(scenario, topic, 5)), values(0, range(5, 10)))
        await refused(OffsetOutOfRangeError, admin.delete_records({partition: RecordsToDelete(11)}))
    async with consumer(scenario) as reader:
        same("beginning", await reader.beginning_offsets([partition]), {partition: 5})
        same("end", await reader.end_offsets([partition]), {partition: 10})


async def list_offsets(scenario: Scenario) -> None:
    """Uses the consumer, which cannot ask for the largest timestamp."""
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    partition = TopicPartition(topic, 0)
    async with consumer(scenario) as reader:
        same("earliest", await reader.beginning_offsets([partition]), {partition: 0})
        same("latest", await reader.end_offsets([partition]), {partition: 100})
        found = (await reader.offsets_for_times({partition: START_MS + 555}))[partition]
        same("by time", (found.offset, found.timestamp), (56, START_MS + 560))


SCENARIOS = {
    name: run_to_end(scenario)
    for name, scenario in {
        "topics": topics, "partitions": partitions, "describe_configs": describe_configs,
        "alter_configs": alter_configs, "cluster": cluster, "groups": groups, "group_offsets": group_offsets,
        "delete_records": delete_records, "list_offsets": list_offsets,
    }.items()
}  # fmt: skip
LACKS = {"incremental_alter": "aiokafka has only the older alter_configs"}
PARTLY = {
    "groups": "aiokafka cannot delete groups",
    "group_offsets": "aiokafka only lists them",
    "list_offsets": "aiokafka has no max timestamp",
}
