"""A fetch waits until it is worth answering, and leaves nothing behind (item 28)."""

import asyncio
import gc
import weakref

import pytest

from siltstone.broker.fetching import long_poll as module
from siltstone.broker.fetching import long_poll as waiting
from siltstone.broker.fetching.damaged_reads import DamagedReads
from siltstone.broker.fetching.gathering import Gathering
from siltstone.broker.fetching.long_poll import OpenWaits, long_poll
from siltstone.broker.fetching.wanted import WantedPartition
from siltstone.kafka_protocol.error_code import ErrorCode
from support.broker.broker_world import READ, WRITE, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of
from support.scenarios import scenario

SIZE = len(batch_of(value_bytes=100))


@pytest.fixture
def looks(monkeypatch):
    """One entry for each time that all partitions are looked at."""
    counted = []

    class Counted(Gathering):
        async def gather(self, wanted):
            counted.append(len(wanted))
            return await super().gather(wanted)

    monkeypatch.setattr(module, "Gathering", Counted)
    return counted


class Poll:
    """A fetch of partitions [0, n) of a topic, from their high watermarks on unless said otherwise."""

    def __init__(self, world, topic, offsets, *, bytes_min=1, wait_ms=500, bytes_max=1 << 20, limit=1 << 20):
        wanted = [
            WantedPartition(topic, topic.name, topic.topic_id, index, offset, limit, -1, -1, -1)
            for index, offset in enumerate(offsets)
        ]
        self._world = world
        self.waits = OpenWaits()
        self.task = asyncio.ensure_future(
            long_poll(
                world.parts.partitions, DamagedReads(world.parts.partitions.damage), world.clock, self.waits, wanted,
                bytes_min=bytes_min, bytes_max=bytes_max, wait_ms_max=wait_ms,
            )
        )  # fmt: skip

    @property
    def is_waiting(self) -> bool:
        return not self.task.done()

    async def sizes(self) -> list[int]:
        return [row.size_bytes for row in (await self.task).found]

    async def errors(self) -> list[ErrorCode]:
        return [row.error for row in (await self.task).found]


async def opened(world, partitions=1):
    topic = await world.topic(partitions=partitions)
    for index in range(partitions):
        await world.partition(topic, index)
    return topic


async def append(world, topic, index=0, value_bytes=100):
    await world.opened(topic, index).append(batch_of(value_bytes=value_bytes), topic.config, 13).durable
    await settled()


def watchers(world, topic) -> int:
    return sum(world.opened(topic, index).streams.data.watchers for index in range(topic.partition_count))


@scenario(in_broker_world)
async def test_an_append_ends_the_wait(world, looks) -> None:
    topic = await opened(world)
    poll = Poll(world, topic, [0])
    await settled()
    assert poll.is_waiting
    await append(world, topic)
    assert await poll.sizes() == [SIZE]
    assert looks == [1, 1]
    assert watchers(world, topic) == 0


@scenario(in_broker_world)
async def test_a_broker_that_closes_answers_with_what_there_is(world) -> None:
    topic = await opened(world)
    poll = Poll(world, topic, [0], bytes_min=2 * SIZE)
    await append(world, topic)
    assert poll.is_waiting
    poll.waits.end()
    assert await poll.sizes() == [SIZE]
    assert watchers(world, topic) == 0


@scenario(in_broker_world)
async def test_and_waits_for_nothing_from_then_on(world) -> None:
    topic = await opened(world)
    poll = Poll(world, topic, [0])
    poll.waits.end()
    assert await poll.sizes() == [0]


@scenario(in_broker_world)
async def test_what_was_on_its_way_when_the_wait_began_ends_it(world) -> None:
    topic = await opened(world)
    world.calls.hold(WRITE)
    world.opened(topic).append(batch_of(value_bytes=100), topic.config, 13)
    await settled()
    poll = Poll(world, topic, [0])
    await settled()
    assert poll.is_waiting
    world.calls.release(WRITE)
    await settled()
    assert not poll.is_waiting
    assert await poll.sizes() == [SIZE]


@scenario(in_broker_world)
async def test_min_bytes_of_all_partitions_together_and_no_look_before(world, looks) -> None:
    topic = await opened(world, partitions=3)
    poll = Poll(world, topic, [0, 0, 0], bytes_min=4 * SIZE)
    for index in (0, 2, 0):
        await append(world, topic, index)
        assert poll.is_waiting
    assert looks == [3]
    await append(world, topic, 1)
    assert await poll.sizes() == [2 * SIZE, SIZE, SIZE]
    assert looks == [3, 3]


@scenario(in_broker_world)
async def test_what_is_there_already_counts(world) -> None:
    topic = await opened(world, partitions=2)
    await append(world, topic, 0)
    poll = Poll(world, topic, [0, 0], bytes_min=SIZE + 1)
    await settled()
    assert poll.is_waiting
    await append(world, topic, 1)
    assert await poll.sizes() == [SIZE, SIZE]


@pytest.mark.parametrize("wait_ms", [1, 500, 2**31 - 1])
@scenario(in_broker_world)
async def test_after_max_wait_there_is_what_there_is(world, wait_ms) -> None:
    topic = await opened(world)
    await append(world, topic)
    poll = Poll(world, topic, [0], bytes_min=2 * SIZE, wait_ms=wait_ms)
    await settled()
    await world.pass_ms(wait_ms - 1)
    assert poll.is_waiting
    await world.pass_ms(1)
    assert await poll.sizes() == [SIZE]
    assert watchers(world, topic) == 0


@pytest.mark.parametrize(
    ("bytes_min", "wait_ms"), [(0, 500), (-1, 500), (1, 0), (1, -1), (-(2**31), -(2**31))]
)
@scenario(in_broker_world)
async def test_who_does_not_want_to_wait_does_not(world, bytes_min, wait_ms, looks) -> None:
    topic = await opened(world)
    assert await Poll(world, topic, [0], bytes_min=bytes_min, wait_ms=wait_ms).sizes() == [0]
    assert looks == [1]


@scenario(in_broker_world)
async def test_nothing_wanted_is_answered_at_once(world) -> None:
    assert await Poll(world, await world.topic(), []).sizes() == []


@pytest.mark.parametrize("bytes_max", [SIZE, 1, 0, -5])
@scenario(in_broker_world)
async def test_more_than_may_be_given_is_not_waited_for(world, bytes_max) -> None:
    topic = await opened(world)
    await append(world, topic)
    poll = Poll(world, topic, [0], bytes_min=10**6, bytes_max=bytes_max)
    assert await poll.sizes() == [SIZE]


@scenario(in_broker_world)
async def test_an_error_ends_the_wait_at_once(world) -> None:
    topic = await opened(world, partitions=2)
    poll = Poll(world, topic, [0, 7])
    assert await poll.errors() == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


@scenario(in_broker_world)
async def test_a_topic_that_is_deleted_ends_the_wait(world) -> None:
    topic = await opened(world, partitions=2)
    poll = Poll(world, topic, [0, 0])
    await settled()
    await world.parts.partitions.delete_topic(topic)
    assert await poll.errors() == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


@scenario(in_broker_world)
async def test_a_trim_beyond_the_reader_ends_the_wait(world) -> None:
    topic = await opened(world)
    await append(world, topic)
    poll = Poll(world, topic, [0], bytes_min=2 * SIZE)
    await settled()
    await world.parts.partitions.trim(world.opened(topic), 1)
    assert await poll.errors() == [ErrorCode.OFFSET_OUT_OF_RANGE]


@scenario(in_broker_world)
async def test_a_trim_behind_the_reader_does_not(world) -> None:
    topic = await opened(world)
    await append(world, topic)
    poll = Poll(world, topic, [1])
    await settled()
    await world.parts.partitions.trim(world.opened(topic), 1)
    await settled()
    assert poll.is_waiting
    await append(world, topic)
    assert await poll.sizes() == [SIZE]
    assert (await poll.task).found[0].log_start_offset == 1


@scenario(in_broker_world)
async def test_a_failed_engine_lets_the_wait_end_by_itself(world, looks) -> None:
    topic = await opened(world)
    poll = Poll(world, topic, [0])
    await settled()
    world.calls.fail(WRITE, OSError("no disk"))
    world.opened(topic).append(batch_of(), topic.config, 13)
    await settled()
    assert poll.is_waiting
    await world.pass_ms(500)
    assert await poll.sizes() == [0]
    assert looks == [1, 1]


# -- while objects are being read --------------------------------------------------------------------------------


async def one_in_objects_one_in_memory(world):
    """Partition 0 has a batch in an object, partition 1 one in memory."""
    topic = await opened(world, partitions=2)
    await append(world, topic, 0)
    await world.restart()
    topic = world.parts.topics.by_name(topic.name)
    for index in range(2):
        await world.partition(topic, index)
    world.calls.hold(READ)
    return topic


@scenario(in_broker_world)
async def test_what_is_appended_while_objects_are_read_is_not_missed(world) -> None:
    topic = await one_in_objects_one_in_memory(world)
    poll = Poll(world, topic, [0, 0], bytes_min=2 * SIZE)
    await settled()
    await append(world, topic, 1)
    world.calls.release(READ)
    assert await poll.sizes() == [SIZE, SIZE]


@scenario(in_broker_world)
async def test_what_becomes_durable_after_objects_were_read_is_not_missed(world) -> None:
    topic = await one_in_objects_one_in_memory(world)
    poll = Poll(world, topic, [0, 0], bytes_min=2 * SIZE)
    await settled()
    world.calls.hold(WRITE)
    world.opened(topic, 1).append(batch_of(value_bytes=100), topic.config, 13)
    await settled()
    world.calls.release(READ)
    await settled()
    assert poll.is_waiting
    world.calls.release(WRITE)
    await settled()
    assert not poll.is_waiting
    assert await poll.sizes() == [SIZE, SIZE]


@scenario(in_broker_world)
async def test_the_high_watermark_told_is_not_below_what_is_given(world) -> None:
    topic = await one_in_objects_one_in_memory(world)
    poll = Poll(world, topic, [0, 0])
    await settled()
    await append(world, topic, 0)
    world.calls.release(READ)
    rows = (await poll.task).found
    assert rows[0].size_bytes in (SIZE, 2 * SIZE)
    assert rows[0].high_watermark == rows[0].size_bytes // SIZE


@scenario(in_broker_world)
async def test_a_topic_deleted_while_another_is_read_from_objects(world) -> None:
    topic = await one_in_objects_one_in_memory(world)
    other = await world.topic("other")
    await world.partition(other)
    wanted = [
        WantedPartition(each, each.name, each.topic_id, 0, 0, 1_000, -1, -1, -1) for each in (other, topic)
    ]
    poll = asyncio.ensure_future(
        long_poll(
            world.parts.partitions,
            DamagedReads(world.parts.partitions.damage),
            world.clock,
            OpenWaits(),
            wanted,
            bytes_min=10**6,
            bytes_max=10**7,
            wait_ms_max=500,
        )
    )
    await settled()
    await world.parts.partitions.delete_topic(other)
    world.calls.release(READ)
    rows = (await poll).found
    assert [row.error for row in rows] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert [row.size_bytes for row in rows] == [0, SIZE]


@scenario(in_broker_world)
async def test_a_trim_while_objects_are_read(world) -> None:
    topic = await one_in_objects_one_in_memory(world)
    poll = Poll(world, topic, [0, 0], bytes_min=2 * SIZE)
    await settled()
    await world.parts.partitions.trim(world.opened(topic, 0), 1)
    world.calls.release(READ)
    assert await poll.errors() == [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE]
    assert (await poll.task).found[0].log_start_offset == 1


# -- what stays behind -------------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_a_connection_that_is_lost_leaves_nothing_behind(world) -> None:
    topic = await opened(world, partitions=3)
    due_ms = world.clock.monotonic_ms() + 12_345
    poll = Poll(world, topic, [0, 0, 0], wait_ms=12_345)
    await settled()
    (timer,) = [ringing for at_ms, _, ringing in world.clock._sleepers if at_ms == due_ms]
    assert watchers(world, topic) == 3
    poll.task.cancel()
    await settled()
    assert watchers(world, topic) == 0
    assert timer.cancelled()


@pytest.mark.parametrize("how", ["append", "time", "lost"])
def test_no_garbage_is_left_for_the_collector(how, monkeypatch):
    watches = []

    class Noted(waiting.NewsWatch):
        def __init__(self, *asked):
            super().__init__(*asked)
            watches.append(weakref.ref(self))

    monkeypatch.setattr(waiting, "NewsWatch", Noted)

    async def scenario(world):
        topic = await opened(world, partitions=2)
        gc.collect()
        gc.disable()
        try:
            poll = Poll(world, topic, [0, 0])
            await settled()
            if how == "append":
                await append(world, topic)
            elif how == "time":
                await world.pass_ms(500)
            else:
                poll.task.cancel()
                await settled()
            del poll
            await world.pass_ms(10**4)  # cancelled timers are forgotten when they are due
            assert [watch() for watch in watches] == [None]
        finally:
            gc.enable()

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_a_thousand_partitions_are_watched_and_forgotten(world, looks) -> None:
    topic = await opened(world, partitions=1_000)
    poll = Poll(world, topic, [0] * 1_000)
    await settled()
    assert watchers(world, topic) == 1_000
    await append(world, topic, 777)
    sizes = await poll.sizes()
    assert [index for index, size in enumerate(sizes) if size] == [777]
    assert looks == [1_000] * 2
    assert watchers(world, topic) == 0


@scenario(in_broker_world)
async def test_partitions_that_are_closed_are_opened_together(world) -> None:
    topic = await world.topic(partitions=20)
    version = world.parts.metadata.image.version
    assert await Poll(world, topic, [0] * 20, wait_ms=0).sizes() == [0] * 20
    assert world.parts.metadata.image.version == version + 1
    assert world.parts.partitions.statistics().open == 20
