"""Produce by idempotent producers: sequences, repetitions, and requests under way (items 23 and 24)."""

import asyncio
import gc

import pytest
from msgspec.structs import replace

from siltstone.broker.request import Overtakable
from siltstone.kafka_protocol.error_code import ErrorCode
from support.broker.broker_world import READ, WRITE, in_broker_world
from support.broker.produce_tests import SWEEP_MS, codes, stored
from support.engine.engine_world import settled
from support.kafka.kafka_requests import (
    NOW_MS,
    batch_of,
    produce_request,
    row_of,
    rows_of,
    sequenced,
)
from support.scenarios import scenario


@scenario(in_broker_world)
async def test_item_23_sequences(world) -> None:
    topic = await world.topic()
    client = world.client()

    async def send(sequence, count=2, epoch=1):
        row = row_of(await client.ask(produce_request(topic, sequenced(9, sequence, count, epoch))))
        return ErrorCode(row.error_code), row.base_offset

    assert [await send(2 * number) for number in range(6)] == [
        (ErrorCode.NONE, 2 * number) for number in range(6)
    ]
    assert await send(2) == (ErrorCode.NONE, 2)
    assert await send(10) == (ErrorCode.NONE, 10)
    assert await send(0) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)  # the sixth last
    assert await send(13) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert await send(12, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert await send(12, epoch=2) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert await send(0, epoch=2) == (ErrorCode.NONE, 12)
    assert await send(12, epoch=1) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert await stored(world, topic) == 14


@scenario(in_broker_world)
async def test_item_23_each_partition_counts_for_itself(world) -> None:
    topic = await world.topic(partitions=2)
    client = world.client()
    for sequence in range(2):
        await client.ask(produce_request(topic, sequenced(9, sequence)))
    again = rows_of(await client.ask(produce_request(topic, sequenced(9, 2), sequenced(9, 0))))
    assert [row.base_offset for row in again] == [2, 0]
    gap = await client.ask(produce_request(topic, sequenced(9, 3), sequenced(9, 2)))
    assert codes(gap) == [ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


@scenario(in_broker_world)
async def test_item_23_a_repetition_on_its_way_is_answered_with_the_first(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    one, other = world.client(), world.client()
    world.calls.hold(WRITE)
    asked = [
        client.send(produce_request(topic, sequenced(9, 0, 3), timeout_ms=timeout_ms))
        for client, timeout_ms in ((one, 1_500), (other, 10_000))
    ]
    await settled()
    assert not any(answer.done() for answer in asked)
    await world.pass_ms(2 * SWEEP_MS)
    assert codes(await asked[0]) == [ErrorCode.REQUEST_TIMED_OUT]
    asked.append(one.send(produce_request(topic, sequenced(9, 0, 3))))
    await settled()
    assert not asked[2].done()
    world.calls.release(WRITE)
    assert [row_of(await answer).base_offset for answer in asked[1:]] == [0, 0]
    assert await stored(world, topic) == 3


@scenario(in_broker_world)
async def test_item_23_a_repetition_is_not_acknowledged_when_the_first_failed(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    world.calls.hold(WRITE)
    asked = [client.send(produce_request(topic, sequenced(9, 0))) for _ in range(2)]
    world.calls.fail(WRITE, OSError("no disk"))
    world.calls.release(WRITE)
    assert [codes(await answer) for answer in asked] == [[ErrorCode.KAFKA_STORAGE_ERROR]] * 2
    later = await client.ask(produce_request(topic, sequenced(9, 0)))
    assert codes(later) == [ErrorCode.KAFKA_STORAGE_ERROR]
    await world.crash()
    again = row_of(await world.client().ask(produce_request(topic, sequenced(9, 0))))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert await stored(world, topic) == 1


@scenario(in_broker_world)
async def test_item_23_a_repetition_keeps_the_time_of_its_first_arrival(world) -> None:
    topic = await world.topic(message_timestamp_type="LogAppendTime")
    client = world.client()
    for _ in range(2):
        row = row_of(await client.ask(produce_request(topic, sequenced(9, 0))))
        assert (row.base_offset, row.log_append_time_ms) == (0, NOW_MS)
        await world.pass_ms(50)


@scenario(in_broker_world)
async def test_item_24_requests_under_way_are_put_in_the_order_of_their_arrival(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    world.calls.hold(WRITE)
    asked = [client.send(produce_request(topic, sequenced(9, 2 * number, 2))) for number in range(5)]
    world.calls.release(WRITE)
    assert [row_of(await answer).base_offset for answer in asked] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("end", ["restart", "crash"])
@scenario(in_broker_world)
async def test_item_24_producers_are_known_in_the_next_life(world, end) -> None:
    topic = await world.topic()
    for sequence in range(3):
        await world.client().ask(produce_request(topic, sequenced(9, sequence)))
    await getattr(world, end)()
    client = world.client()
    assert row_of(await client.ask(produce_request(topic, sequenced(9, 1)))).base_offset == 1
    gap = await client.ask(produce_request(topic, sequenced(9, 4)))
    assert codes(gap) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    old = await client.ask(produce_request(topic, sequenced(9, 3, epoch=-1)))
    assert codes(old) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert row_of(await client.ask(produce_request(topic, sequenced(9, 3)))).base_offset == 3


@scenario(in_broker_world)
async def test_item_24_what_was_not_answered_before_a_crash_is_not_written_twice(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = world.client()
    unanswered = client.send(produce_request(topic, sequenced(9, 0)))
    world.calls.before_call = lambda _: None
    frozen = asyncio.Event()

    def freeze() -> None:
        world.calls.is_frozen = True
        frozen.set()

    world.calls.after_call = freeze
    await frozen.wait()
    assert not unanswered.done()
    world.calls.after_call = lambda: None
    await world.crash()
    again = row_of(await world.client().ask(produce_request(topic, sequenced(9, 0))))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert await stored(world, topic) == 1
    unanswered.cancel()


@scenario(in_broker_world)
async def test_item_24_a_closed_partition_is_opened_before_the_next_request_to_it_is_begun(world) -> None:
    topic = await world.topic()
    client = world.client()
    closed = client.begin(produce_request(topic, sequenced(9, 0)), 13)
    assert isinstance(closed, Overtakable)
    await closed
    opened = client.begin(produce_request(topic, sequenced(9, 1)), 13)
    assert isinstance(opened, asyncio.Future)
    await opened
    assert client.connection.sends_records


def produce_to(topic, batches):
    request = produce_request(topic, *(batches.get(index) for index in range(max(batches) + 1)))
    partitions = [each for each in request.topics[0].partitions if each.index in batches]
    return replace(request, topics=[replace(request.topics[0], partitions=partitions)])


@scenario(in_broker_world)
async def test_item_24_a_partition_that_is_being_opened_holds_back_no_other(world) -> None:
    """Requests of one connection: to 0, to 1 which is open, to both, to 1 again, to 0 again. Those that share a
    partition with one that waits are appended behind it, each partition in the order of arrival."""
    topic = await world.topic(partitions=2)
    await world.client().ask(produce_request(topic, batch_of(), batch_of()))
    await world.restart()
    client = world.client()
    await client.ask(produce_to(topic, {1: batch_of()}))
    world.calls.hold(READ)
    requests = [
        produce_to(topic, batches)
        for batches in (
            {0: sequenced(9, 0)},
            {1: sequenced(9, 0)},
            {0: sequenced(9, 1), 1: sequenced(9, 1)},
            {1: sequenced(9, 2)},
            {0: sequenced(9, 2)},
        )
    ]
    sent = []
    for request in requests:
        sent.append(client.send(request))
        await settled()
    assert [each.done() for each in sent] == [False, True, False, False, False]
    world.calls.release(READ)
    rows = [
        [(row.index, row.error_code, row.base_offset) for row in (await each).topics[0].partitions]
        for each in sent
    ]
    assert rows[0] == [(0, 0, 1)] and rows[1] == [(1, 0, 2)]
    assert rows[2:] == [[(0, 0, 2), (1, 0, 3)], [(1, 0, 4)], [(0, 0, 3)]]
    assert client.connection.produces_waiting == {}


@scenario(in_broker_world)
async def test_item_24_a_client_that_goes_while_its_partition_is_opened(world) -> None:
    topic = await world.topic()
    await world.client().ask(produce_request(topic, sequenced(9, 0)))
    await world.restart()
    world.calls.hold(READ)
    gone = world.client().send(produce_request(topic, sequenced(9, 1)))
    await settled()
    gone.cancel()
    world.calls.release(READ)
    await settled()
    assert await stored(world, topic) == 1


@pytest.mark.parametrize("acks", [-1, 0])
@scenario(in_broker_world)
async def test_item_24_a_client_that_goes_before_the_answer(world, acks, caplog) -> None:
    topic = await world.topic()
    world.calls.hold(WRITE)
    gone = world.client().send(produce_request(topic, batch_of(), acks=acks))
    await settled()
    gone.cancel()
    await settled()
    world.calls.release(WRITE)
    await settled()
    assert await stored(world, topic) == 1
    gc.collect()
    assert "never retrieved" not in caplog.text
