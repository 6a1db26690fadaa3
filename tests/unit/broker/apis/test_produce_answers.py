"""When a Produce is answered: per partition, in time, and over a backlog quota (item 25)."""

import pytest

from siltstone.broker.backlog.quota_rules import Backlog, Verdict
from siltstone.broker.backlog.verdicts import Sentence
from siltstone.broker.request import CloseConnection
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.limits import PRODUCE_HOLD_MS_MAX
from support.broker.broker_world import WRITE, in_broker_world
from support.broker.produce_tests import SWEEP_MS, codes, stored
from support.engine.engine_world import settled
from support.kafka.kafka_batches import with_header
from support.kafka.kafka_requests import (
    batch_of,
    produce_request,
    rows_of,
    sequenced,
)
from support.scenarios import scenario


@scenario(in_broker_world)
async def test_item_25_partitions_of_one_request_succeed_and_fail_by_themselves(world) -> None:
    topic = await world.topic(partitions=5)
    request = produce_request(
        topic,
        batch_of(2),
        with_header(batch_of(), crc=1),
        sequenced(9, 0),
        None,
        batch_of(value_bytes=100),
    )
    response = await world.client().ask(request)
    assert codes(response) == [
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NONE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.NONE,
    ]
    assert [row.base_offset for row in rows_of(response)] == [0, -1, 0, -1, 0]
    assert [await stored(world, topic, index) for index in range(5)] == [2, 0, 1, 0, 1]


@scenario(in_broker_world)
async def test_item_25_answered_when_the_last_is_durable(world) -> None:
    topic = await world.topic(partitions=2)
    for index in range(2):
        await world.partition(topic, index)
    client = world.client()
    await client.ask(produce_request(topic, sequenced(9, 0)))
    world.calls.hold(WRITE)
    asked = client.send(produce_request(topic, sequenced(9, 0), batch_of()))
    await settled()
    assert not asked.done()
    world.calls.release(WRITE)
    assert codes(await asked) == [ErrorCode.NONE] * 2


@pytest.mark.parametrize(("timeout_ms", "sweeps"), [(1_500, 2), (999, 1), (0, 1), (-1, 1), (-(2**31), 1)])
@scenario(in_broker_world)
async def test_item_25_what_takes_too_long_is_answered_and_may_stand_all_the_same(
    world, timeout_ms, sweeps
) -> None:
    topic = await world.topic(partitions=2)
    for index in range(2):
        await world.partition(topic, index)
    client = world.client()
    await client.ask(produce_request(topic, sequenced(9, 0)))
    world.calls.hold(WRITE)
    asked = client.send(produce_request(topic, sequenced(9, 0), batch_of(), timeout_ms=timeout_ms))
    for _ in range(sweeps):
        await settled()
        assert not asked.done()
        await world.pass_ms(SWEEP_MS)
    response = await asked
    assert codes(response) == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    assert [row.base_offset for row in rows_of(response)] == [0, -1]
    world.calls.release(WRITE)
    await settled()
    assert await stored(world, topic, 1) == 1


@scenario(in_broker_world)
async def test_item_25_what_was_durable_in_time_is_told_so(world) -> None:
    topic = await world.topic(partitions=2)
    for index in range(2):
        await world.partition(topic, index)
    world.calls.hold(WRITE)
    first = world.client().send(produce_request(topic, sequenced(9, 0)))
    await settled()
    asked = world.client().send(produce_request(topic, sequenced(9, 0), batch_of(), timeout_ms=10))
    world.calls.release(WRITE)
    world.calls.hold(WRITE)  # the group with the second partition's
    assert codes(await first) == [ErrorCode.NONE]
    await settled()
    assert not asked.done()
    await world.pass_ms(SWEEP_MS)
    assert codes(await asked) == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    world.calls.release(WRITE)


@pytest.mark.parametrize("timeout_ms", [0, -1, 2**31 - 1])
@scenario(in_broker_world)
async def test_item_25_no_time_limit_is_an_error_while_batches_become_durable_at_once(
    world, timeout_ms
) -> None:
    topic = await world.topic()
    request = produce_request(topic, batch_of(), timeout_ms=timeout_ms)
    assert codes(await world.client().ask(request)) == [ErrorCode.NONE]


@scenario(in_broker_world)
async def test_item_25_an_answer_within_its_time_is_not_touched_by_the_clock(world) -> None:
    topic = await world.topic()
    client = world.client()
    for _ in range(3):
        asked = client.send(produce_request(topic, batch_of(), timeout_ms=2**31 - 1))
        await world.pass_ms(10 * SWEEP_MS)
        assert codes(await asked) == [ErrorCode.NONE]
    assert not world.broker._produce._under_way


@scenario(in_broker_world)
async def test_acks_0_and_too_late_closes_the_connection(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    world.calls.hold(WRITE)
    asked = world.client().send(produce_request(topic, batch_of(), acks=0, timeout_ms=10))
    await settled()
    await world.pass_ms(SWEEP_MS)
    with pytest.raises(CloseConnection, match="REQUEST_TIMED_OUT"):
        await asked
    world.calls.release(WRITE)


@pytest.mark.parametrize(
    ("timeout_ms", "wait_ms"),
    [(1_000, 500), (2 * PRODUCE_HOLD_MS_MAX, PRODUCE_HOLD_MS_MAX), (60_000, PRODUCE_HOLD_MS_MAX)],
)
@scenario(in_broker_world)
async def test_a_held_request_waits_for_half_of_its_time_limit_and_not_longer_than_ours(
    world, timeout_ms, wait_ms
) -> None:
    """The other half is for the append, when the group has caught up at the last moment."""
    topic = await world.topic()
    held = Sentence(Verdict.HOLD, Backlog("g", size_bytes=2, quota_bytes=1))
    world.parts.quota_verdicts.pronounce({(topic.id, 0): held})
    asked = world.client().send(produce_request(topic, batch_of(), timeout_ms=timeout_ms))
    await settled()
    await world.pass_ms(wait_ms - 1)
    assert not asked.done()
    await world.pass_ms(1)
    assert asked.done() and codes(asked.result()) == [ErrorCode.REQUEST_TIMED_OUT]
    assert await stored(world, topic) == 0
