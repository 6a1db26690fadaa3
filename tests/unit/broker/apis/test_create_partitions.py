import re

import pytest

from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from siltstone.kafka_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.model.limits import PARTITIONS_PER_COMMAND_MAX
from support.broker.admin_world import NODE_ID, in_admin_world
from support.scenarios import scenario


def growing(name: str, count: int, assigned: list[list[int]] | None = None) -> CreatePartitionsTopic:
    assignments = (
        None if assigned is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
    )
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def asking(*topics: CreatePartitionsTopic, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)


@pytest.mark.parametrize("version", range(4))
@scenario(in_admin_world)
async def test_more_partitions_in_every_version(world, version) -> None:
    topic = await world.create("t", partitions=2)
    (result,) = (await world.answer(asking(growing("t", 5)), version)).results
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    grown = world.parts.topics.by_name("t")
    assert (grown.partition_count, grown.topic_id) == (5, topic.topic_id)
    assert grown.metadata.partitions[:2] == topic.metadata.partitions
    await world.parts.partitions.open(grown, 4)


@scenario(in_admin_world)
async def test_assigned_by_hand(world) -> None:
    await world.create("t")
    (result,) = (await world.answer(asking(growing("t", 3, [[NODE_ID], [NODE_ID]])))).results
    assert result.error_code == 0
    assert world.parts.topics.by_name("t").partition_count == 3


REFUSED = {
    "not there": (growing("nowhere", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "as many": (growing("t", 3), ErrorCode.INVALID_PARTITIONS),
    "fewer": (growing("t", 2), ErrorCode.INVALID_PARTITIONS),
    "less than none": (growing("t", -1), ErrorCode.INVALID_PARTITIONS),
    "too many": (growing("t", PARTITIONS_PER_COMMAND_MAX + 4), ErrorCode.POLICY_VIOLATION),
    "another broker": (growing("t", 4, [[NODE_ID + 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "too few assigned": (growing("t", 5, [[NODE_ID]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "none assigned": (growing("t", 5, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "no replica": (growing("t", 4, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "the broker's own": (growing("__consumer_offsets", 90), ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("which", REFUSED)
def test_refused_with_a_code_and_a_reason_and_nothing_changes(which, validate_only):
    topic, code = REFUSED[which]

    async def scenario(world):
        await world.create("t", partitions=3)
        await world.parts.creation.offsets_topic()
        version = world.version
        (result,) = (await world.answer(asking(topic, validate_only=validate_only))).results
        assert (result.name, result.error_code) == (topic.name, code)
        assert result.error_message
        assert world.version == version

    in_admin_world(scenario)


def test_ab08_above_the_most_of_the_store_nothing_is_made() -> None:
    async def scenario(world):
        await world.create("t", partitions=2)
        version = world.version
        (result,) = (await world.answer(asking(growing("t", 4)))).results
        assert (result.error_code, world.version) == (ErrorCode.POLICY_VIOLATION, version)
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b")]
        made = (await world.answer(CreateTopicsRequest(topics=topics))).topics
        assert sorted(each.error_code for each in made) == [0, ErrorCode.POLICY_VIOLATION], (
            "they come together"
        )
        await world.parts.creation.offsets_topic()

    in_admin_world(scenario, BrokerSettings(partitions_max=3))


@scenario(in_admin_world)
async def test_validating_changes_nothing(world) -> None:
    await world.create("t")
    version = world.version
    (result,) = (await world.answer(asking(growing("t", 2), validate_only=True))).results
    assert (result.error_code, world.version) == (0, version)


@scenario(in_admin_world)
async def test_one_refused_does_not_stop_the_others_and_who_is_named_twice_stays_as_he_is(world) -> None:
    for name in ("a", "b"):
        await world.create(name)
    request = asking(growing("a", 2), growing("nowhere", 2), growing("b", 2), growing("b", 3))
    codes = {result.name: result.error_code for result in (await world.answer(request)).results}
    assert codes == {"a": 0, "nowhere": 3, "b": ErrorCode.INVALID_REQUEST}
    assert [topic.partition_count for topic in world.parts.topics.all()] == [2, 1]


@pytest.mark.parametrize(
    ("count", "reason"), [(3, "already has 3"), (2, "currently has 3 .*; 2 would not"), (0, "; 0 would not")]
)
@scenario(in_admin_world)
async def test_who_asks_for_no_more_than_there_are_is_told_how_many_there_are(world, count, reason) -> None:
    await world.create("t", partitions=3)
    (result,) = (await world.answer(asking(growing("t", count)))).results
    assert re.search(reason, result.error_message)
