"""DeleteRecords, items 13 and 37."""

import asyncio

import pytest

from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from support.broker.broker_world import WRITE, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_requests import (
    batch_of,
    batches_in,
    fetch_request,
    produce_request,
    row_of,
    rows_of,
)
from support.scenarios import scenario


def deleting(*offsets: int, name: str = "t", first: int = 0) -> DeleteRecordsRequest:
    """An offset for each partition from ``first`` on."""
    partitions = [
        DeleteRecordsPartition(partition_index=index, offset=offset)
        for index, offset in enumerate(offsets, first)
    ]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=partitions)], timeout_ms=1_000
    )


async def ask(world, *offsets, version=2, **fields):
    """(error, low watermark) of each."""
    response = await world.client().ask(deleting(*offsets, **fields), version)
    return [(ErrorCode(row.error_code), row.low_watermark) for row in rows_of(response)]


async def filled(world, partitions=1, **configs):
    """Two batches of five records in each partition."""
    topic = await world.topic(partitions=partitions, **configs)
    for _ in range(2):
        await world.client().ask(produce_request(topic, *[batch_of(5) for _ in range(partitions)]))
    return topic


@pytest.mark.parametrize("version", (0, 1, 2))
@scenario(in_broker_world)
async def test_item_37_up_to_an_offset_or_to_the_end(world, version) -> None:
    topic = await filled(world, partitions=4)
    answers = await ask(world, 3, 10, -1, 0, version=version)
    assert answers == [(ErrorCode.NONE, low) for low in (3, 10, 10, 0)]
    starts = [world.opened(topic, index).log_start_offset for index in range(4)]
    assert starts == [3, 10, 10, 0]
    row = row_of(await world.client().ask(fetch_request(topic, {0: 3})))
    assert (row.log_start_offset, batches_in(row)) == (3, [(0, 4), (5, 9)])
    gone = row_of(await world.client().ask(fetch_request(topic, {0: 2})))
    assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    empty = row_of(await world.client().ask(fetch_request(topic, {2: 10}, wait_ms=0)))
    assert (empty.error_code, empty.log_start_offset, empty.high_watermark) == (0, 10, 10)
    produced = await world.client().ask(produce_request(topic, None, None, batch_of()))
    assert rows_of(produced)[2].base_offset == 10


@scenario(in_broker_world)
async def test_item_37_the_start_never_goes_back(world) -> None:
    await filled(world)
    assert await ask(world, 7) == [(ErrorCode.NONE, 7)]
    assert await ask(world, 3) == [(ErrorCode.NONE, 7)]
    await world.crash()
    assert await ask(world, 0) == [(ErrorCode.NONE, 7)]


@pytest.mark.parametrize("offset", [11, 2**63 - 1, -2, -(2**63)])
@scenario(in_broker_world)
async def test_item_37_beyond_the_end(world, offset) -> None:
    topic = await filled(world)
    assert await ask(world, offset) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    assert world.opened(topic).log_start_offset == 0


@scenario(in_broker_world)
async def test_item_37_the_end_is_that_of_what_is_durable(world) -> None:
    topic = await filled(world)
    world.calls.hold(WRITE)
    on_its_way = world.client().send(produce_request(topic, batch_of(5)))
    await settled()
    assert await ask(world, 11) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    assert await ask(world, -1) == [(ErrorCode.NONE, 10)]
    world.calls.release(WRITE)
    await on_its_way


@scenario(in_broker_world)
async def test_item_37_several_at_once_go_as_far_as_the_furthest(world) -> None:
    topic = await filled(world)
    answers = await asyncio.gather(*(ask(world, offset) for offset in (3, 8, 5)))
    assert all(code is ErrorCode.NONE for ((code, _),) in answers)
    assert world.opened(topic).log_start_offset == 8


@pytest.mark.parametrize(("name", "first"), [("t", 1), ("t", -1), ("u", 0)])
@scenario(in_broker_world)
async def test_item_13_what_there_is_not(world, name, first) -> None:
    await world.topic()
    assert await ask(world, 0, name=name, first=first) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


@scenario(in_broker_world)
async def test_a_topic_that_keeps_the_newest_of_each_key_loses_nothing(world) -> None:
    topic = await filled(world, cleanup_policy="compact")
    assert await ask(world, 5) == [(ErrorCode.POLICY_VIOLATION, -1)]
    assert world.opened(topic).log_start_offset == 0
    both = await world.topic("both", cleanup_policy="compact,delete")
    await world.client().ask(produce_request(both, batch_of(5)))
    assert await ask(world, 5, name="both") == [(ErrorCode.NONE, 5)]


@scenario(in_broker_world, BrokerSettings(offsets_topic_num_partitions=1))
async def test_the_brokers_own_topics_lose_nothing(world) -> None:
    topic = await world.parts.creation.offsets_topic()
    assert await ask(world, -1, name=topic.name) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]


@scenario(in_broker_world)
async def test_when_the_metadata_cannot_be_written(world) -> None:
    topic = await filled(world)
    world.calls.fail("append_all", ConnectionError("no metadata"))
    ((code, low),) = await ask(world, 5)
    assert (code, low) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert world.opened(topic).log_start_offset == 0


@scenario(in_broker_world)
async def test_nothing_asked(world) -> None:
    assert rows_of(await world.client().ask(DeleteRecordsRequest())) == []
