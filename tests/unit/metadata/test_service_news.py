"""A service reads when its log gives notice, seldom while nothing happens, and ten times a second when no notices
come."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import PutKey
from siltstone.metadata.service import FOLLOW_INTERVAL_MS, HEARD_INTERVAL_MS, READS_APART_MS, MetadataService
from siltstone.metadata.store.memory import MemoryLog
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.scenarios import scenario


class ToldLog:
    """A log whose test gives the notices."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.is_heard = True
        self.reads = 0

    def listen(self, on_news: Callable[[], None]) -> "ToldLog":
        self.tell = on_news
        return self

    def read_after(self, *asked: int) -> list[tuple[int, bytes]]:
        self.reads += 1
        return self.log.read_after(*asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        memory = MemoryLog()
        self.log = ToldLog(memory)
        self.other = MetadataClient(memory, self.clock, seeded_randomness(2))
        self.service = MetadataService(
            MetadataClient(self.log, self.clock, seeded_randomness(1)), InlineCalls(), self.clock
        )

    async def passes(self, duration_ms: float) -> None:
        for _ in range(int(duration_ms / 10)):
            await turns()
            self.clock.advance_ms(10)
        await turns()

    async def reads_in(self, duration_ms: float) -> int:
        before = self.log.reads
        await self.passes(duration_ms)
        return self.log.reads - before

    def append(self, key: str) -> None:
        self.other.execute(PutKey(key, b""))


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(story: Callable[[World], Awaitable[None]]) -> None:
    async def told() -> None:
        world = World()
        await world.service.start()
        await world.passes(HEARD_INTERVAL_MS + 2 * READS_APART_MS)
        await story(world)
        await world.service.close()

    asyncio.run(told())


@scenario(run)
async def test_a_notice_is_followed_at_once(world: World) -> None:
    world.append("a")
    assert "a" not in world.service.image.keys
    world.log.tell()
    await turns()
    assert "a" in world.service.image.keys


@scenario(run)
async def test_an_entry_without_a_notice_is_found_within_a_second(world: World) -> None:
    world.append("a")
    await world.passes(HEARD_INTERVAL_MS)
    assert "a" in world.service.image.keys


@scenario(run)
async def test_notices_that_come_all_the_time_are_read_at_intervals(world: World) -> None:
    before = world.log.reads
    for _ in range(100):
        world.log.tell()
        await world.passes(10)
    assert 10 <= world.log.reads - before <= 1_000 / READS_APART_MS + 1


@pytest.mark.parametrize(
    ("is_heard", "interval_ms"), [(True, HEARD_INTERVAL_MS), (False, FOLLOW_INTERVAL_MS)]
)
def test_how_often_is_read_without_a_notice(is_heard: bool, interval_ms: int) -> None:
    async def story(world: World) -> None:
        world.log.is_heard = is_heard
        world.log.tell()
        await turns()
        reads = await world.reads_in(10_000)
        assert reads == pytest.approx(10_000 / interval_ms, rel=0.15)

    run(story)


@scenario(run)
async def test_newer_than_ends_with_the_next_image_or_after_its_time(world: World) -> None:
    version = world.service.image.version
    waiting = asyncio.ensure_future(world.service.newer_than(version, 5_000))
    await world.passes(HEARD_INTERVAL_MS)
    assert not waiting.done()
    world.append("a")
    world.log.tell()
    await turns()
    assert waiting.done()
    await world.service.newer_than(version, 5_000)
    waiting = asyncio.ensure_future(world.service.newer_than(version + 1, 500))
    await world.passes(500)
    assert waiting.done()
