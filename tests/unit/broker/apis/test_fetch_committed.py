"""Fetch at both isolation levels: up to the last stable offset with the aborted transactions, or up to the end."""

import asyncio

import pytest

from siltstone.kafka_protocol.records.control import Outcome
from support.broker.broker_world import WRITE, in_broker_world
from support.broker.transactional import OTHER_PID, PID, OpenProducer, plain
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batches_in, fetch_request, row_of
from support.processes.calls_counted import calls_counted
from support.scenarios import scenario

COMMITTED, UNCOMMITTED = 1, 0


async def fetch(world, topic, offset, level=COMMITTED, **fields):
    request = fetch_request(topic, {0: offset}, isolation_level=level, **{"wait_ms": 0, **fields})
    return row_of(await world.client().ask(request))


def aborted(row):
    listed = row.aborted_transactions
    return None if listed is None else [(one.producer_id, one.first_offset) for one in listed]


def ends(row):
    return row.last_stable_offset, row.high_watermark


async def one_of_each(world):
    """Committed [0, 3), marker 3; aborted [4, 6), marker 6; plain 7."""
    topic = await world.topic()
    producer = OpenProducer(await world.partition(topic))
    await producer.send(3)
    await producer.end(Outcome.COMMIT)
    await producer.send(2)
    await producer.end(Outcome.ABORT)
    await plain(producer.partition)
    return topic


async def open_from_10(world):
    topic = await world.topic()
    producer = OpenProducer(await world.partition(topic))
    await plain(producer.partition, 10)
    await producer.send()
    await plain(producer.partition, 10)
    return topic, producer


@scenario(in_broker_world)
async def test_tp1_all_is_decided_and_the_aborted_transaction_is_listed(world) -> None:
    topic = await one_of_each(world)
    row = await fetch(world, topic, 0)
    assert batches_in(row) == [(0, 2), (3, 3), (4, 5), (6, 6), (7, 7)]
    assert (ends(row), aborted(row)) == ((8, 8), [(PID, 4)])
    row = await fetch(world, topic, 0, UNCOMMITTED)
    assert (ends(row), aborted(row), len(batches_in(row))) == ((8, 8), None, 5)


@scenario(in_broker_world)
async def test_tp1_of_what_is_not_returned_no_aborted_transaction_is_listed(world) -> None:
    topic = await one_of_each(world)
    assert aborted(await fetch(world, topic, 0, bytes_max=1)) == []
    assert aborted(await fetch(world, topic, 4, bytes_max=1)) == [(PID, 4)]


@scenario(in_broker_world)
async def test_tp2_readers_of_committed_records_get_those_below_an_open_transaction(world) -> None:
    topic, _ = await open_from_10(world)
    row = await fetch(world, topic, 0)
    assert (batches_in(row), ends(row), aborted(row)) == ([(0, 9)], (10, 21), [])
    row = await fetch(world, topic, 0, UNCOMMITTED)
    assert (len(batches_in(row)), ends(row)) == (3, (10, 21))


@scenario(in_broker_world)
async def test_tp4_a_fetch_at_the_last_stable_offset_waits_for_the_marker(world) -> None:
    topic, producer = await open_from_10(world)
    request = fetch_request(topic, {0: 10}, isolation_level=COMMITTED, wait_ms=30_000)
    asked = asyncio.ensure_future(world.client().ask(request))
    await settled()
    await plain(producer.partition, 5)
    await producer.send()
    await settled()
    assert not asked.done(), "nothing of it is decided"
    await producer.end(Outcome.ABORT)
    row = row_of(await asked)
    assert (ends(row), aborted(row)) == ((28, 28), [(PID, 10)])
    assert batches_in(row)[0] == (10, 10) and batches_in(row)[-1] == (27, 27)


@scenario(in_broker_world)
async def test_tp4_a_reader_of_all_records_does_not_wait_for_it(world) -> None:
    topic, _ = await open_from_10(world)
    assert len(batches_in(await fetch(world, topic, 10, UNCOMMITTED, wait_ms=30_000))) == 2


@scenario(in_broker_world)
async def test_tp4_bytes_that_are_not_decided_do_not_count(world) -> None:
    topic, producer = await open_from_10(world)
    request = fetch_request(topic, {0: 0}, isolation_level=COMMITTED, wait_ms=30_000, min_bytes=600)
    asked = asyncio.ensure_future(world.client().ask(request))
    await settled()
    await plain(producer.partition, 100)
    await settled()
    assert not asked.done()
    await producer.end(Outcome.COMMIT)
    assert ends(row_of(await asked)) == (122, 122)


@scenario(in_broker_world)
async def test_tp5_offsets_between_the_last_stable_one_and_the_end_are_no_error(world) -> None:
    topic, _ = await open_from_10(world)
    row = await fetch(world, topic, 15)
    assert (row.error_code, batches_in(row)) == (0, [])
    assert (await fetch(world, topic, 22)).error_code == 1


@scenario(in_broker_world)
async def test_tp7_a_marker_that_is_not_durable_decides_nothing(world) -> None:
    topic, producer = await open_from_10(world)
    world.calls.hold(WRITE)
    ending = asyncio.ensure_future(producer.end(Outcome.COMMIT))
    await settled()
    assert ends(await fetch(world, topic, 0)) == (10, 21)
    assert batches_in(await fetch(world, topic, 0)) == [(0, 9)]
    world.calls.release(WRITE)
    await ending
    assert ends(await fetch(world, topic, 0)) == (22, 22)


@scenario(in_broker_world)
async def test_tp8_a_fetch_from_the_marker_on_lists_its_transaction(world) -> None:
    topic = await one_of_each(world)
    assert aborted(await fetch(world, topic, 6)) == [(PID, 4)]
    assert aborted(await fetch(world, topic, 7)) == []


@pytest.mark.parametrize("end", ["restart", "crash"])
@scenario(in_broker_world)
async def test_tp19_readers_get_the_same_after_a_restart(world, end) -> None:
    topic, producer = await open_from_10(world)
    other = OpenProducer(producer.partition, OTHER_PID)
    await other.send()
    await other.end(Outcome.ABORT)
    await (world.restart() if end == "restart" else world.crash())
    row = await fetch(world, topic, 0)
    assert (batches_in(row), ends(row), aborted(row)) == ([(0, 9)], (10, 23), [])
    producer.partition = world.opened(topic)
    await producer.end(Outcome.ABORT)
    row = await fetch(world, topic, 0)
    assert (ends(row), aborted(row)) == ((24, 24), [(PID, 10), (OTHER_PID, 21)])


@scenario(in_broker_world)
async def test_a_marker_alone_is_news_in_a_session(world) -> None:
    topic, producer = await open_from_10(world)
    client = world.client()
    first = await client.ask(
        fetch_request(topic, {0: 10}, isolation_level=COMMITTED, wait_ms=0, session_epoch=0)
    )
    again = fetch_request(
        topic, {}, isolation_level=COMMITTED, wait_ms=0, session_id=first.session_id, session_epoch=1
    )
    assert (await client.ask(again)).topics == []
    await producer.end(Outcome.COMMIT)
    again = fetch_request(
        topic, {}, isolation_level=COMMITTED, wait_ms=0, session_id=first.session_id, session_epoch=2
    )
    assert len(batches_in(row_of(await client.ask(again)))) == 3


@scenario(in_broker_world)
async def test_tp36_committed_records_cost_the_broker_what_all_records_do(world) -> None:
    """One transaction in a hundred is aborted. Counted and not timed: the answers, and the calls to make them."""
    topic = await world.topic()
    partition = await world.partition(topic)
    producer = OpenProducer(partition)
    for number in range(1_000):
        await producer.send(10)
        await producer.end(Outcome.COMMIT if number % 100 else Outcome.ABORT)
    answers, listed, called = {}, {}, {}
    await fetch(world, topic, 0)
    for level in (UNCOMMITTED, COMMITTED):
        answers[level] = listed[level] = called[level] = offset = 0
        while offset < partition.high_watermark:
            with calls_counted() as calls:
                row = await fetch(world, topic, offset, level, bytes_max=16_384)
            called[level] += len(calls)
            answers[level] += 1
            listed[level] += len(row.aborted_transactions or ())
            offset = batches_in(row)[-1][1] + 1
    assert answers[COMMITTED] == answers[UNCOMMITTED] > 10
    assert 10 <= listed[COMMITTED] <= 10 + answers[COMMITTED] and not listed[UNCOMMITTED]
    assert called[COMMITTED] <= 1.1 * called[UNCOMMITTED]
