"""OffsetForLeaderEpoch, items 13, 18, 19 and 20."""

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from siltstone.model.errors import Unavailable
from support.broker.broker_world import READ, WRITE, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, produce_request, row_of, rows_of
from support.scenarios import scenario

VERSIONS = (2, 3, 4)


async def ask(world, epoch, version=4, index=0, name="t", current=-1):
    """(error, epoch, end offset)"""
    partition = OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[partition])])
    row = row_of(await world.client().ask(request, version))
    assert row.partition == index
    return ErrorCode(row.error_code), row.leader_epoch, row.end_offset


async def lives(world, *records):
    """So many records under each leader epoch, from 0 on; the last epoch continues."""
    topic = await world.topic()
    for number, count in enumerate(records):
        if number:
            await world.restart()
        await world.partition(topic)
        if count:
            await world.client().ask(produce_request(topic, batch_of(count)))
    return topic


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 3)),
        (1, (0, 3)),
        (2, (2, 5)),
        (3, (3, 6)),
        (4, (-1, -1)),
        (2**31 - 1, (-1, -1)),
    ],
)
@scenario(in_broker_world)
async def test_item_20_where_epochs_ended(world, epoch, answer, version) -> None:
    await lives(world, 3, 0, 2, 1)
    assert await ask(world, epoch, version) == (ErrorCode.NONE, *answer)


@scenario(in_broker_world)
async def test_item_20_of_the_current_epoch_it_is_the_end_of_what_is_durable(world) -> None:
    topic = await lives(world, 3, 2)
    world.calls.hold(WRITE)
    on_its_way = world.client().send(produce_request(topic, batch_of(7)))
    await settled()
    assert await ask(world, 1) == (ErrorCode.NONE, 1, 5)
    world.calls.release(WRITE)
    await on_its_way
    assert await ask(world, 1) == (ErrorCode.NONE, 1, 12)
    assert await ask(world, 0) == (ErrorCode.NONE, 0, 3)


@scenario(in_broker_world)
async def test_item_20_after_a_crash_and_a_trim(world) -> None:
    topic = await lives(world, 3, 2)
    await world.crash()
    partition = await world.partition(topic)
    assert [await ask(world, epoch) for epoch in range(3)] == [
        (ErrorCode.NONE, 0, 3),
        (ErrorCode.NONE, 1, 5),
        (ErrorCode.NONE, 2, 5),
    ]
    await world.parts.partitions.trim(partition, 4)
    assert await ask(world, 0) == (ErrorCode.NONE, 0, 4)


@pytest.mark.parametrize(
    ("current", "code"),
    [
        (-1, ErrorCode.NONE),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_broker_world)
async def test_item_19_the_epoch_a_client_believes_in(world, current, code, version) -> None:
    await lives(world, 3, 2)
    expected = (code, 0, 3) if code is ErrorCode.NONE else (code, -1, -1)
    assert await ask(world, 0, version, current=current) == expected


@pytest.mark.parametrize(("name", "index"), [("t", 1), ("t", -1), ("u", 0)])
@scenario(in_broker_world)
async def test_item_13_what_there_is_not(world, name, index) -> None:
    await world.topic()
    answer = await ask(world, 0, name=name, index=index)
    assert answer == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


@scenario(in_broker_world)
async def test_a_partition_that_cannot_be_opened(world) -> None:
    await lives(world, 3)
    await world.restart()
    world.calls.fail(READ, Unavailable("no bucket"))
    assert await ask(world, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)


@scenario(in_broker_world)
async def test_nothing_asked(world) -> None:
    assert rows_of(await world.client().ask(OffsetForLeaderEpochRequest())) == []
