import asyncio

import pytest

from siltstone.broker.settings import BrokerSettings
from siltstone.broker.topics.creating import NewTopic, only_replica
from siltstone.broker.topics.names import (
    OFFSETS_TOPIC,
    InvalidPartitionCount,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
)
from siltstone.broker.topics.registry import Topics
from siltstone.metadata.commands import DeleteTopic
from siltstone.metadata.refusals import (
    InvalidTopicName,
    TooManyPartitions,
    TopicAlreadyExists,
    TopicNameCollides,
)
from siltstone.model.limits import PARTITIONS_PER_COMMAND_MAX
from siltstone.topic_configs.values import InvalidTopicConfig
from support.broker.topic_world import NODE_ID, in_topic_world
from support.scenarios import scenario


@scenario(in_topic_world)
async def test_what_was_asked_for_stands(world) -> None:
    configs = {"retention.ms": " 5 ", "cleanup.policy": "compact , delete"}
    wanted = NewTopic(name="t", partition_count=4, replication_factor=3, configs=configs)
    metadata = (await world.creation.create(wanted)).metadata
    assert (len(metadata.partitions), metadata.replication_factor) == (4, 3)
    assert metadata.configs == {"retention.ms": "5", "cleanup.policy": "compact,delete"}
    assert not metadata.is_internal


@scenario(in_topic_world, BrokerSettings(num_partitions=6, default_replication_factor=2))
async def test_item_21_one_partition_and_one_replica_are_enough(world) -> None:
    metadata = (
        await world.creation.create(NewTopic(name="t", partition_count=1, replication_factor=1))
    ).metadata
    assert (len(metadata.partitions), metadata.replication_factor) == (1, 1)


@scenario(in_topic_world, BrokerSettings(num_partitions=6, default_replication_factor=2))
async def test_item_21_minus_one_is_the_brokers_default(world) -> None:
    metadata = (await world.creation.create(NewTopic(name="t"))).metadata
    assert (len(metadata.partitions), metadata.replication_factor) == (6, 2)


REFUSED = [
    (NewTopic(name="a/b"), InvalidTopicName),
    (NewTopic(name="there"), TopicAlreadyExists),
    (NewTopic(name="with.dot"), TopicNameCollides),
    (NewTopic(name="t", partition_count=0), InvalidPartitionCount),
    (NewTopic(name="t", partition_count=-2), InvalidPartitionCount),
    (NewTopic(name="t", partition_count=PARTITIONS_PER_COMMAND_MAX + 1), TooManyPartitions),
    (NewTopic(name="t", replication_factor=0), InvalidReplicationFactor),
    (NewTopic(name="t", configs={"foo": "1"}), InvalidTopicConfig),
    (NewTopic(name="t", configs={"retention.ms": "x"}), InvalidTopicConfig),
    (NewTopic(name="t", configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}), InvalidTopicConfig),
    # a name that stands is said before anything else
    (NewTopic(name="there", partition_count=0, configs={"foo": "1"}), TopicAlreadyExists),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "cause"), REFUSED, ids=lambda value: getattr(value, "__name__", None))
@scenario(in_topic_world)
async def test_item_21_refused_alike_when_created_and_when_only_validated(world, wanted, cause) -> None:
    await world.creation.create(NewTopic(name="there"))
    await world.creation.create(NewTopic(name="with_dot"))
    version = world.metadata.image.version
    with pytest.raises(cause) as created:
        await world.creation.create(wanted)
    with pytest.raises(cause) as validated:
        world.creation.validate(wanted)
    assert str(created.value) == str(validated.value)
    assert world.metadata.image.version == version


@scenario(in_topic_world)
async def test_item_21_validating_writes_nothing(world) -> None:
    version = world.metadata.image.version
    metadata = world.creation.validate(NewTopic(name="t", partition_count=2))
    assert (metadata.name, len(metadata.partitions)) == ("t", 2)
    assert world.metadata.image.version == version
    assert world.topics.by_name("t") is None


@scenario(in_topic_world)
async def test_item_14_concurrent_callers_share_one_creation(world) -> None:
    executed = world.metadata.statistics().commands_executed
    made = await asyncio.gather(*(world.creation.create_if_missing("t") for _ in range(20)))
    assert all(topic is made[0] for topic in made)
    assert world.metadata.statistics().commands_executed == executed + 1


@scenario(in_topic_world)
async def test_item_14_who_gives_up_does_not_take_the_others_along(world) -> None:
    first = asyncio.ensure_future(world.creation.create_if_missing("t"))
    second = asyncio.ensure_future(world.creation.create_if_missing("t"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).name == "t"
    assert first.cancelled()


@scenario(in_topic_world)
async def test_item_14_another_process_was_faster(world) -> None:
    service = world.new_service(99)
    await service.start()
    theirs = await world.new_creation(service, Topics(service), seed=3).create_if_missing("t")
    assert world.topics.by_name("t") is None
    assert (await world.creation.create_if_missing("t")).id == theirs.id
    await service.close()


@scenario(in_topic_world)
async def test_no_lock_is_left_behind(world) -> None:
    for number in range(5):
        await world.creation.create_if_missing(f"t{number}")
        with pytest.raises(InvalidTopicName):
            await world.creation.create_if_missing(f"illegal {number}")
    assert len(world.creation._locks) == 0


def test_whether_topics_are_made_automatically_is_a_setting():
    async def scenario(world):
        assert world.creation.is_automatic is world.settings.auto_create_topics_enable

    in_topic_world(scenario)
    in_topic_world(scenario, BrokerSettings(auto_create_topics_enable=False))


@scenario(in_topic_world, BrokerSettings(offsets_topic_num_partitions=5, auto_create_topics_enable=False))
async def test_the_topic_of_group_offsets_is_compacted_and_internal(world) -> None:
    topic = await world.creation.offsets_topic()
    assert (topic.name, topic.partition_count, topic.is_internal) == (OFFSETS_TOPIC, 5, True)
    assert topic.metadata.configs == {
        "cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600",
    }  # fmt: skip
    assert topic.config.is_compacted
    assert await world.creation.offsets_topic() is topic
    assert await world.creation.create_if_missing(OFFSETS_TOPIC) is topic


def test_item_17_ids_are_never_those_that_kafka_reserves_or_its_tools_cannot_take():
    class Chance:
        def __init__(self) -> None:
            self.drawn = iter([0, 1, 0b111110 << 122, (0b111110 << 122) + 99, 2])

        def getrandbits(self, _bits: int) -> int:
            return next(self.drawn)

    async def scenario(world):
        world.creation._rng = Chance()
        assert (await world.creation.create(NewTopic(name="t"))).topic_id == bytes(15) + b"\x02"

    in_topic_world(scenario)


def test_one_replica_of_a_live_broker_can_be_assigned_by_hand():
    assert only_replica({7, 9}, [9]) == 9
    for broker_ids, fault in (
        ([], "an empty replica list"),
        ([8], "broker 8, but no such broker"),
        ([7, 8], "broker 8, but no such broker"),
        ([7, 7], "broker 7 more than once"),
        ([7, 9], "exactly one broker"),
    ):
        with pytest.raises(InvalidReplicaAssignment, match=fault):
            only_replica({7, 9}, broker_ids)


@scenario(in_topic_world)
async def test_a_topic_that_is_deleted_at_once_was_created_all_the_same(world) -> None:
    execute = world.metadata.execute

    async def then_deleted(command):
        made = await execute(command)
        await execute(DeleteTopic(NODE_ID, world.node_epoch, made.topic_id))
        return made

    world.metadata.execute = then_deleted
    topic = await world.creation.create(NewTopic(name="t", partition_count=3))
    assert (topic.name, topic.partition_count) == ("t", 3)
    assert world.topics.by_name("t") is None


@scenario(in_topic_world)
async def test_item_14_another_process_was_faster_and_has_deleted_the_topic_since(world) -> None:
    async def refused(_command):
        raise TopicAlreadyExists("Topic 't' already exists.")

    world.metadata.execute = refused
    with pytest.raises(TopicAlreadyExists):
        await world.creation.create_if_missing("t")
