"""Produce as its clients see it: items 9, 13, 17 and 23 to 26."""

import pytest

from siltstone.broker.request import CloseConnection
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from support.broker.broker_world import WRITE, in_broker_world
from support.broker.produce_tests import codes, stored
from support.engine.engine_world import settled
from support.kafka.kafka_batches import with_header
from support.kafka.kafka_requests import (
    TOPIC_IDS,
    batch_of,
    produce_request,
    row_of,
    rows_of,
    sequenced,
)
from support.kafka.message_versions import versions_with_own_layout
from support.scenarios import scenario

VERSIONS = versions_with_own_layout(ProduceRequest, ProduceResponse)


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_broker_world)
async def test_in_every_layout(world, version) -> None:
    topic = await world.topic(partitions=2)
    client = world.client()
    for base in (0, 3):
        response = await client.ask(produce_request(topic, batch_of(3), batch_of(3)), version)
        (answered,) = response.topics
        if version >= TOPIC_IDS:
            assert (answered.name, answered.topic_id) == ("", topic.topic_id)
        else:
            assert answered.name == "t"
        rows = [(row.index, row.error_code, row.base_offset) for row in answered.partitions]
        assert rows == [(0, 0, base), (1, 0, base)]
        assert {row.log_append_time_ms for row in answered.partitions} == {-1}
        assert {row.log_start_offset for row in answered.partitions} == {0 if version >= 5 else -1}
        assert all(row.record_errors == [] and row.error_message is None for row in answered.partitions)


@scenario(in_broker_world)
async def test_item_9_acks_0_has_no_answer(world) -> None:
    topic = await world.topic()
    client = world.client()
    assert await client.ask(produce_request(topic, batch_of(2), acks=0)) is None
    assert await client.ask(produce_request(topic, batch_of(2), acks=0)) is None
    assert await stored(world, topic) == 4


@scenario(in_broker_world)
async def test_item_9_an_error_with_acks_0_closes_the_connection(world) -> None:
    topic = await world.topic(partitions=2)
    client = world.client()
    for batches in ((batch_of(), b""), (with_header(batch_of(), crc=1), batch_of())):
        with pytest.raises(CloseConnection, match="acks=0"):
            await client.ask(produce_request(topic, *batches, acks=0))
    assert [await stored(world, topic, index) for index in range(2)] == [1, 1]


@pytest.mark.parametrize("acks", [2, -2, 32767])
@scenario(in_broker_world)
async def test_acks_that_mean_nothing(world, acks) -> None:
    topic = await world.topic(partitions=2)
    response = await world.client().ask(produce_request(topic, batch_of(), batch_of(), acks=acks))
    assert codes(response) == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert await stored(world, topic) == 0


@pytest.mark.parametrize("acks", [1, -1])
@scenario(in_broker_world)
async def test_acknowledged_means_durable(world, acks) -> None:
    topic = await world.topic()
    await world.partition(topic)
    world.calls.hold(WRITE)
    asked = world.client().send(produce_request(topic, batch_of(), acks=acks))
    await settled()
    assert not asked.done()
    world.calls.release(WRITE)
    assert row_of(await asked).base_offset == 0


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_broker_world)
async def test_items_13_and_17_topics_and_partitions_that_there_are_not(world, version) -> None:
    topic = await world.topic()
    response = await world.client().ask(
        ProduceRequest(
            acks=-1,
            timeout_ms=1_000,
            topics=[
                ProduceTopic(
                    name="u", topic_id=b"\7" * 16, partitions=[ProducePartition(records=batch_of())]
                ),
                ProduceTopic(
                    name="t",
                    topic_id=topic.topic_id,
                    partitions=[
                        ProducePartition(index=index, records=batch_of()) for index in (1, -1, 0, 2**31 - 1)
                    ],
                ),
            ],
        ),
        version,
    )
    no_partition = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    no_topic = ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS else no_partition
    assert codes(response) == [no_topic, no_partition, no_partition, ErrorCode.NONE, no_partition]
    assert [row.base_offset for row in rows_of(response)] == [-1, -1, -1, 0, -1]
    assert [topic.topic_id for topic in response.topics] == (
        [b"\7" * 16, topic.topic_id] if version >= TOPIC_IDS else [bytes(16)] * 2
    )
    assert world.parts.topics.by_name("u") is None


@scenario(in_broker_world)
async def test_item_17_a_new_topic_of_the_same_name_is_another(world) -> None:
    old = await world.topic()
    await world.client().ask(produce_request(old, batch_of()))
    await world.parts.partitions.delete_topic(old)
    new = await world.topic()
    client = world.client()
    assert codes(await client.ask(produce_request(old, batch_of()), 13)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert row_of(await client.ask(produce_request(old, batch_of()), 12)).base_offset == 0
    assert row_of(await client.ask(produce_request(new, batch_of()), 13)).base_offset == 1


@pytest.mark.parametrize("version", [12, 13])
@scenario(in_broker_world)
async def test_item_13_a_topic_that_goes_between_two_batches(world, version) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    world.calls.hold(WRITE)
    on_its_way = client.send(produce_request(topic, sequenced(1, 0)), version)
    await world.parts.partitions.delete_topic(topic)
    late = client.send(produce_request(topic, sequenced(1, 1)), version)
    world.calls.release(WRITE)
    assert codes(await on_its_way) == [ErrorCode.NONE]
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(await late) == [expected]


@scenario(in_broker_world, BrokerSettings(offsets_topic_num_partitions=1))
async def test_nobody_writes_into_the_brokers_own_topics(world) -> None:
    topic = await world.parts.creation.offsets_topic()
    response = await world.client().ask(produce_request(topic, batch_of()))
    assert codes(response) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
