from random import Random

import pytest

from siltstone.broker.settings import BrokerSettings
from siltstone.broker.topics.creating import NewTopic
from siltstone.broker.topics.registry import Topics
from siltstone.metadata.commands import AddPartitions, AlterTopicConfigs, DeleteTopic, PutKey
from siltstone.topic_configs.values import InvalidTopicConfig
from support.broker.topic_world import NODE_ID, in_topic_world
from support.processes.calls_counted import calls_counted
from support.scenarios import scenario


@scenario(in_topic_world)
async def test_a_topic_is_found_by_name_and_by_id_and_among_all(world) -> None:
    made = await world.creation.create(NewTopic(name="t", partition_count=3))
    await world.creation.create(NewTopic(name="a"))
    found = world.topics.by_name("t")
    assert found is made is world.topics.by_id(made.topic_id)
    assert [topic.name for topic in world.topics.all()] == ["a", "t"]
    assert world.topics.all()[1] is found
    assert (found.partition_count, found.is_internal) == (3, False)
    assert found.topic_id.hex() == found.id == world.metadata.image.topic_ids["t"]


@scenario(in_topic_world)
async def test_what_is_not_there_is_none(world) -> None:
    assert world.topics.by_name("t") is None
    assert world.topics.by_id(bytes(16)) is None
    assert world.topics.by_id(b"short") is None
    assert world.topics.all() == ()


@scenario(in_topic_world)
async def test_every_change_is_seen_at_once_and_what_did_not_change_stays_the_same_object(world) -> None:
    other = await world.creation.create(NewTopic(name="other"))
    made = await world.creation.create(NewTopic(name="t"))
    await world.metadata.execute(AlterTopicConfigs(made.id, put={"retention.ms": "5"}))
    assert world.topics.by_name("t").config.retention_ms == 5
    await world.metadata.execute(AddPartitions(NODE_ID, world.node_epoch, made.id, 4))
    assert world.topics.by_id(made.topic_id).partition_count == 4
    assert {topic.name: topic.partition_count for topic in world.topics.all()} == {"t": 4, "other": 1}
    await world.metadata.execute(DeleteTopic(NODE_ID, world.node_epoch, made.id))
    assert world.topics.by_name("t") is None is world.topics.by_id(made.topic_id)
    assert world.topics.all() == (other,)
    assert world.topics.by_name("other") is other


@scenario(in_topic_world)
async def test_a_topic_made_again_is_another(world) -> None:
    first = await world.creation.create(NewTopic(name="t"))
    assert world.topics.by_name("t") is first
    await world.metadata.execute(DeleteTopic(NODE_ID, world.node_epoch, first.id))
    second = await world.creation.create(NewTopic(name="t"))
    assert world.topics.by_name("t") is second
    assert second.topic_id != first.topic_id
    assert world.topics.by_id(first.topic_id) is None


@scenario(in_topic_world)
async def test_the_image_changes_all_the_time_and_topics_are_not_looked_at_again(world) -> None:
    made = await world.creation.create(NewTopic(name="t"))
    everything = world.topics.all()
    before = world.metadata.image
    await world.metadata.execute(PutKey("k", b"v"))
    assert world.metadata.image is not before
    assert world.topics.by_name("t") is made
    assert world.topics.all() is everything


@scenario(in_topic_world)
async def test_topics_that_are_gone_are_forgotten(world) -> None:
    for number in range(20):
        made = await world.creation.create(NewTopic(name=f"t{number}"))
        assert world.topics.by_name(made.name) is made
        await world.metadata.execute(DeleteTopic(NODE_ID, world.node_epoch, made.id))
        assert world.topics.by_name(made.name) is None
    assert len(world.topics._known) <= 2


@scenario(in_topic_world)
async def test_another_process_makes_topics_too(world) -> None:
    service = world.new_service(99)
    await service.start()
    theirs = await world.new_creation(service, Topics(service), seed=3).create(NewTopic(name="theirs"))
    assert world.topics.by_name("theirs") is None
    await world.metadata.refresh()
    found = world.topics.by_name("theirs")
    assert found is not None and found.metadata == theirs.metadata
    await service.close()


@scenario(in_topic_world, BrokerSettings(topic_defaults={"log.retention.ms": "9", "max.message.bytes": "4"}))
async def test_broker_defaults_hold_where_the_topic_says_nothing(world) -> None:
    await world.creation.create(NewTopic(name="t", configs={"max.message.bytes": "3"}))
    config = world.topics.by_name("t").config
    assert (config.retention_ms, config.max_message_bytes) == (9, 3)


@scenario(in_topic_world)
async def test_impossible_defaults_are_refused_at_the_start(world) -> None:
    with pytest.raises(InvalidTopicConfig, match="nonsense"):
        Topics(world.metadata, {"nonsense": "1"})


@scenario(in_topic_world)
async def test_a_warm_look_up_is_cheap(world) -> None:
    """It is made for every partition of every request, and parses no configuration."""
    rng = Random(1)
    names = [f"topic-{number}" for number in range(50)]
    for name in names:
        await world.creation.create(NewTopic(name=name, configs={"retention.ms": "7"}))
    asked = rng.choices(names, k=2_000)
    for name in names:
        world.topics.by_name(name)
    with calls_counted() as calls:
        for name in asked:
            world.topics.by_name(name)
    assert len(calls) <= 2 * len(asked), sorted(set(calls))
