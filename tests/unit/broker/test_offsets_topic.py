"""The logs of group coordinators, as ``groups.log_port`` wants them."""

import asyncio

import pytest

from siltstone.broker import offsets_topic
from siltstone.broker.offsets_topic import OffsetsTopicLogs
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.stream_engine.errors import DamagedRange, EngineNotRunning
from support.broker.broker_world import WRITE, in_broker_world
from support.engine.engine_world import settled
from support.scenarios import scenario

TWO = BrokerSettings(offsets_topic_num_partitions=2)


def logs_of(world) -> OffsetsTopicLogs:
    return OffsetsTopicLogs(world.parts.creation, world.parts.partitions, world.clock)


async def all_of(log):
    return [record async for record in log.read_all()]


def records(first: int, count: int):
    """Every third is a tombstone."""
    return [
        (b"key %d" % number, None if number % 3 == 0 else b"value") for number in range(first, first + count)
    ]


@scenario(in_broker_world, TWO)
async def test_the_topic_is_made_when_it_is_wanted(world) -> None:
    assert world.parts.topics.by_name("__consumer_offsets") is None
    assert await logs_of(world).partition_count() == 2
    topic = world.parts.topics.by_name("__consumer_offsets")
    assert topic is not None and topic.is_internal
    assert topic.config.is_compacted


@pytest.mark.parametrize("end", ["restart", "crash"])
@scenario(in_broker_world, TWO)
async def test_what_was_appended_is_read_in_the_next_life(world, end) -> None:
    log = await logs_of(world).open(1)
    assert log.next_offset == 0
    await log.append(records(0, 3))
    await log.append(records(3, 2))
    assert log.next_offset == 5
    assert await all_of(log) == records(0, 5)
    await getattr(world, end)()
    logs = logs_of(world)
    assert await all_of(await logs.open(1)) == records(0, 5)
    assert await all_of(await logs.open(0)) == []


@scenario(in_broker_world, TWO)
async def test_what_is_not_needed_any_more_is_not_read(world) -> None:
    log = await logs_of(world).open(0)
    await log.append(records(0, 5))
    await log.append(records(5, 2))
    await log.trim_before(3)
    assert await all_of(log) == records(3, 4)
    await log.trim_before(7)
    assert await all_of(log) == []
    assert log.next_offset == 7


@scenario(in_broker_world, TWO)
async def test_a_trim_that_nobody_waits_for_is_done_all_the_same(world) -> None:
    log = await logs_of(world).open(0)
    await log.append(records(0, 5))
    world.calls.hold("append_all")
    trimming = asyncio.ensure_future(log.trim_before(3))
    await settled()
    trimming.cancel()
    await settled()
    world.calls.release("append_all")
    await settled()
    assert await all_of(log) == records(3, 2)


@scenario(in_broker_world, TWO)
async def test_what_is_on_its_way_when_it_is_read_comes_too(world) -> None:
    log = await logs_of(world).open(0)
    await log.append(records(0, 1))
    world.calls.hold(WRITE)
    gone = asyncio.ensure_future(log.append(records(1, 1)))
    await settled()
    gone.cancel()
    reading = asyncio.ensure_future(all_of(await logs_of(world).open(0)))
    await settled()
    assert not reading.done()
    world.calls.release(WRITE)
    assert await reading == records(0, 2)


@scenario(in_broker_world, TWO)
async def test_what_fails_on_its_way_is_not_passed_over(world) -> None:
    log = await logs_of(world).open(0)
    await log.append(records(0, 1))
    world.calls.hold(WRITE)
    appending = asyncio.ensure_future(log.append(records(1, 1)))
    await settled()
    reading = asyncio.ensure_future(all_of(log))
    await settled()
    world.calls.fail(WRITE, OSError("no disk"))
    world.calls.release(WRITE)
    for waiting in (appending, reading):
        with pytest.raises(EngineNotRunning):
            await waiting


@scenario(in_broker_world, TWO)
async def test_what_is_appended_while_it_is_read_comes_the_next_time(world) -> None:
    log = await logs_of(world).open(0)
    await log.append(records(0, 2))
    read = []
    async for record in log.read_all():
        read.append(record)
        if len(read) == 1:
            await log.append(records(2, 1))
    assert read == records(0, 2)


def test_others_have_their_turn_while_much_is_read(monkeypatch):
    monkeypatch.setattr(offsets_topic, "READ_BYTES", 1)

    async def scenario(world):
        log = await logs_of(world).open(0)
        for number in range(5):
            await log.append(records(number, 1))
        turns = []

        async def other():
            while True:
                turns.append(None)
                await asyncio.sleep(0)

        running = asyncio.ensure_future(other())
        await asyncio.sleep(0)
        before = len(turns)
        await all_of(log)
        assert len(turns) - before == 5
        running.cancel()

    in_broker_world(scenario, TWO)


@scenario(in_broker_world, TWO)
async def test_records_without_key_are_nobodys(world) -> None:
    log = await logs_of(world).open(0)
    partition = world.opened(world.parts.topics.by_name("__consumer_offsets"))
    await partition.append_own(build_batch([Record(value=b"v"), Record(key=b"k", value=b"v")]))
    assert await all_of(log) == [(b"k", b"v")]


@scenario(in_broker_world)
async def test_damage_is_never_skipped(world) -> None:
    """A group that silently lost its newest commits would read records twice."""
    log = await logs_of(world).open(0)
    await log.append(records(0, 3))
    await world.parts.engine.flush()
    lost = [one.key for one in world.world.store.list()]
    await log.append(records(3, 3))
    await world.restart()
    world.world.store.delete(lost)
    log = await logs_of(world).open(0)
    with pytest.raises(DamagedRange):
        await all_of(log)
