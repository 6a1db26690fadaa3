import logging

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.metadata.entities import StreamState
from siltstone.metadata.refusals import TopicNotExist
from siltstone.metadata.service import ServiceClosed
from support.broker.admin_world import in_admin_world
from support.scenarios import scenario


def deleting(*topics: tuple[str | None, bytes]) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
    )


@pytest.mark.parametrize("version", range(1, 7))
@scenario(in_admin_world)
async def test_deleted_by_name_in_every_version(world, version) -> None:
    topic = await world.create("t", partitions=2)
    request = deleting(("t", NO_UUID)) if version >= 6 else DeleteTopicsRequest(topic_names=["t"])
    (result,) = (await world.answer(request, version)).responses
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert result.topic_id == (topic.topic_id if version >= 6 else NO_UUID)
    assert world.parts.topics.by_name("t") is None
    streams = world.parts.metadata.image.streams.values()
    assert all(stream.state is StreamState.DELETED for stream in streams)


@scenario(in_admin_world)
async def test_item_17_deleted_by_id(world) -> None:
    topic = await world.create("t")
    (result,) = (await world.answer(deleting((None, topic.topic_id)))).responses
    assert (result.error_code, result.name, result.topic_id) == (0, "t", topic.topic_id)
    assert world.parts.topics.all() == ()


@scenario(in_admin_world)
async def test_a_topic_that_is_open_goes_and_its_name_is_free(world) -> None:
    topic = await world.create("t")
    partition = await world.parts.partitions.open(topic, 0)
    await world.parts.engine.append(partition.streams.data, b"a batch", 1)
    assert (await world.answer(deleting(("t", NO_UUID)))).responses[0].error_code == 0
    again = await world.create("t")
    assert again.topic_id != topic.topic_id
    await world.parts.partitions.open(again, 0)


@pytest.mark.parametrize("version", range(1, 7))
@scenario(in_admin_world)
async def test_item_13_what_is_not_there(world, version) -> None:
    request = deleting(("nowhere", NO_UUID)) if version >= 6 else DeleteTopicsRequest(topic_names=["nowhere"])
    (result,) = (await world.answer(request, version)).responses
    assert (result.name, result.error_code) == ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert version < 5 or result.error_message


@scenario(in_admin_world)
async def test_refused_one_by_one(world) -> None:
    await world.create("t")
    await world.create("twice")
    mixed = await world.create("mixed")
    unknown = b"never heard of.."
    request = deleting(
        ("t", NO_UUID),
        (None, unknown),
        (None, NO_UUID),
        ("nowhere", unknown),
        ("twice", NO_UUID),
        ("twice", NO_UUID),
        ("mixed", NO_UUID),
        (None, mixed.topic_id),
    )
    results = (await world.answer(request)).responses
    codes = {(result.name, result.topic_id): result.error_code for result in results}
    gone = codes.pop(next(key for key in codes if key[0] == "t"))
    assert gone == 0
    assert codes == {
        (None, unknown): ErrorCode.UNKNOWN_TOPIC_ID,
        (None, NO_UUID): ErrorCode.INVALID_REQUEST,
        ("nowhere", unknown): ErrorCode.INVALID_REQUEST,
        ("twice", NO_UUID): ErrorCode.INVALID_REQUEST,
        ("mixed", NO_UUID): ErrorCode.INVALID_REQUEST,
        (None, mixed.topic_id): ErrorCode.INVALID_REQUEST,
    }
    assert all(result.error_message for result in results if result.error_code)
    assert [topic.name for topic in world.parts.topics.all()] == ["mixed", "twice"]


@scenario(in_admin_world)
async def test_groups_hear_of_it_when_there_can_be_any(world) -> None:
    for name in ("a", "b", "c"):
        await world.create(name)
    await world.answer(deleting(("a", NO_UUID)))
    assert world.parts.groups.forgotten == []
    await world.parts.creation.offsets_topic()
    await world.answer(deleting(("b", NO_UUID), ("nowhere", NO_UUID)))
    assert world.parts.groups.forgotten == ["b"]

    async def closing(_name):
        raise ServiceClosed("the broker is closing")

    world.parts.groups.forget_topic = closing
    assert (await world.answer(deleting(("c", NO_UUID)))).responses[0].error_code == 0
    assert world.parts.topics.by_name("c") is None


@scenario(in_admin_world)
async def test_the_brokers_own_topics_stay(world) -> None:
    topic = await world.parts.creation.offsets_topic()
    for request in (deleting((topic.name, NO_UUID)), deleting((None, topic.topic_id))):
        (result,) = (await world.answer(request)).responses
        assert result.error_code == ErrorCode.INVALID_REQUEST and "internal" in result.error_message
    assert world.parts.topics.by_name(topic.name) is topic


@scenario(in_admin_world)
async def test_another_request_was_faster(world) -> None:
    topic = await world.create("t")

    async def gone(_command):
        raise TopicNotExist("look up its id again")

    world.parts.metadata.execute = gone
    (by_name,) = (await world.answer(deleting(("t", NO_UUID)))).responses
    (by_id,) = (await world.answer(deleting((None, topic.topic_id)))).responses
    assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    del world.parts.metadata.execute


def test_topics_that_come_and_go_are_logged_once_each(caplog):
    caplog.set_level(logging.INFO)

    async def scenario(world):
        await world.create("t", partitions=2)
        await world.answer(deleting(("t", NO_UUID)))
        await world.answer(deleting(("t", NO_UUID)))

    in_admin_world(scenario)
    said = [each.message for each in caplog.records if each.message.startswith("topic ")]
    assert said == ["topic t was created: 2 partitions", "topic t was deleted"]
