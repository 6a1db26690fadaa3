import asyncio

import pytest

from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.model.limits import PARTITIONS_PER_COMMAND_MAX
from siltstone.topic_configs.rows import TABLE
from support.broker.admin_world import NODE_ID, in_admin_world
from support.scenarios import scenario


def wanted(name: str, partitions: int = -1, replicas: int = -1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def assigned(*broker_ids: list[int], name: str = "t", first: int = 0, **fields: int) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=first + index, broker_ids=ids)
        for index, ids in enumerate(broker_ids)
    ]
    given = {"num_partitions": -1, "replication_factor": -1} | fields
    return CreatableTopic(name=name, assignments=assignments, **given)


def creating(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), validate_only=validate_only)


@pytest.mark.parametrize("version", range(2, 8))
@scenario(in_admin_world)
async def test_item_21_created_in_every_version(world, version) -> None:
    request = creating(wanted("t", partitions=3, replicas=1, retention_ms="5"))
    (result,) = (await world.answer(request, version)).topics
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    topic = world.parts.topics.by_name("t")
    assert (topic.partition_count, topic.config.retention_ms) == (3, 5)
    assert topic.topic_id != NO_UUID
    assert result.topic_id == (topic.topic_id if version >= 7 else NO_UUID)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert (result.topic_config_error_code, len(result.configs)) == (0, len(TABLE))


@scenario(in_admin_world, BrokerSettings(topic_defaults={"message.max.bytes": "77"}))
async def test_item_21_the_answer_tells_every_configuration_and_where_it_comes_from(world) -> None:
    (result,) = (await world.answer(creating(wanted("t", retention_ms=" 5 ")))).topics
    entries = {config.name: config for config in result.configs}
    assert [*entries] == [*TABLE]
    told = {name: (config.value, config.config_source) for name, config in entries.items()}
    assert told["retention.ms"] == ("5", 1)
    assert told["max.message.bytes"] == ("77", 4)
    assert told["cleanup.policy"] == ("delete", 5)
    assert not any(config.read_only or config.is_sensitive for config in result.configs)


@scenario(in_admin_world, BrokerSettings(num_partitions=4))
async def test_item_21_minus_one_is_the_brokers_default(world) -> None:
    (result,) = (await world.answer(creating(wanted("t")))).topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 1)


@pytest.mark.parametrize("replicas", [1, 3, 32767])
def test_item_21_any_replication_factor_is_taken_and_one_is_reported_everywhere(replicas):
    from siltstone.kafka_protocol.messages.metadata import MetadataRequest

    async def scenario(world):
        (result,) = (await world.answer(creating(wanted("t", replicas=replicas)))).topics
        assert (result.error_code, result.replication_factor) == (0, 1)
        (topic,) = (await world.answer(MetadataRequest(topics=None))).topics
        assert len(topic.partitions[0].replica_nodes) == 1
        assert world.parts.topics.by_name("t").metadata.replication_factor == replicas

    in_admin_world(scenario)


REFUSED = {
    "it stands": (wanted("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "an illegal name": (wanted("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no name": (wanted(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a folder": (wanted(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name that collides": (wanted("dotted_name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no partition": (wanted("t", partitions=0), ErrorCode.INVALID_PARTITIONS),
    "less than none": (wanted("t", partitions=-2), ErrorCode.INVALID_PARTITIONS),
    "no replica": (wanted("t", replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "too many": (wanted("t", partitions=PARTITIONS_PER_COMMAND_MAX + 1), ErrorCode.POLICY_VIOLATION),
    "unknown configuration": (wanted("t", foo="1"), ErrorCode.INVALID_CONFIG),
    "impossible value": (wanted("t", retention_ms="x"), ErrorCode.INVALID_CONFIG),
    "null value": (wanted("t", retention_ms=None), ErrorCode.INVALID_CONFIG),
    "a broker that is not": (assigned([NODE_ID + 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a second broker": (assigned([NODE_ID, NODE_ID + 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a broker twice": (assigned([NODE_ID, NODE_ID]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "no broker": (assigned([]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a gap": (assigned([NODE_ID], first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "assigned and counted": (assigned([NODE_ID], num_partitions=1), ErrorCode.INVALID_REQUEST),
    "assigned and replicated": (assigned([NODE_ID], replication_factor=1), ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("which", REFUSED)
def test_item_21_refused_with_a_code_and_a_reason_and_nothing_is_made(which, validate_only):
    topic, code = REFUSED[which]

    async def scenario(world):
        await world.create("there")
        await world.create("dotted.name")
        version = world.version
        (result,) = (await world.answer(creating(topic, validate_only=validate_only))).topics
        assert (result.name, result.error_code) == (topic.name, code)
        assert result.error_message
        assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
        assert world.version == version

    in_admin_world(scenario)


@scenario(in_admin_world)
async def test_partitions_assigned_by_hand(world) -> None:
    topic = assigned([NODE_ID], [NODE_ID], [NODE_ID])
    (result,) = (await world.answer(creating(topic))).topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 1)
    shuffled = CreatableTopic(
        name="s", num_partitions=-1, replication_factor=-1, assignments=list(reversed(topic.assignments))
    )
    assert (await world.answer(creating(shuffled))).topics[0].num_partitions == 3


@scenario(in_admin_world)
async def test_item_21_validating_makes_nothing_and_answers_the_same(world) -> None:
    version = world.version
    topic = wanted("t", partitions=2, replicas=3, retention_ms="5")
    (validated,) = (await world.answer(creating(topic, validate_only=True))).topics
    assert world.version == version and world.parts.topics.by_name("t") is None
    assert validated.topic_id == NO_UUID
    (created,) = (await world.answer(creating(topic))).topics
    assert (created.num_partitions, created.replication_factor, created.configs) == (
        validated.num_partitions, validated.replication_factor, validated.configs,
    )  # fmt: skip


@scenario(in_admin_world)
async def test_one_topic_refused_does_not_stop_the_others_and_one_append_makes_them_all(world) -> None:
    version = world.version
    request = creating(wanted("a"), wanted("a/b"), wanted("b"), wanted("c", foo="1"), wanted("d"))
    results = (await world.answer(request)).topics
    assert [(result.name, result.error_code) for result in results] == [
        ("a", 0), ("a/b", 17), ("b", 0), ("c", 40), ("d", 0),
    ]  # fmt: skip
    assert [topic.name for topic in world.parts.topics.all()] == ["a", "b", "d"]
    assert world.version == version + 1


@scenario(in_admin_world)
async def test_a_name_that_stands_twice_in_a_request_is_not_made_at_all(world) -> None:
    request = creating(wanted("a"), wanted("b"), wanted("a", partitions=2))
    results = {result.name: result.error_code for result in (await world.answer(request)).topics}
    assert results == {"a": ErrorCode.INVALID_REQUEST, "b": 0}
    assert world.parts.topics.by_name("a") is None


@scenario(in_admin_world)
async def test_two_names_of_one_request_that_collide(world) -> None:
    results = (await world.answer(creating(wanted("a.b"), wanted("a_b")))).topics
    assert [result.error_code for result in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


@scenario(in_admin_world)
async def test_many_topics_may_not_have_more_partitions_together_than_one(world) -> None:
    half = PARTITIONS_PER_COMMAND_MAX // 2
    version = world.version
    results = (await world.answer(creating(wanted("a", half), wanted("b", half + 1)))).topics
    assert [result.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 2
    assert world.version == version


@scenario(in_admin_world)
async def test_two_requests_for_one_name_make_it_once(world) -> None:
    request = creating(wanted("t"))
    answers = await asyncio.gather(world.answer(request), world.answer(request))
    assert sorted(answer.topics[0].error_code for answer in answers) == [
        0,
        ErrorCode.TOPIC_ALREADY_EXISTS,
    ]
