"""When the version of the metadata is marked in the bucket (rule 11)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import PutKey
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.memory import MemoryLog
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.metadata_mark import BucketGuard, MetadataMark, marks_in
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.stream_engine.version_marks import MARK_INTERVAL_MS, VersionMarks
from support.engine.engine_world import settled
from support.engine.faulty_store import Fault, FaultyStore
from support.scenarios import scenario


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bucket = FaultyStore(MemoryStore(self.clock))
        client = MetadataClient(MemoryLog(), self.clock, seeded_randomness(1))
        self.metadata = MetadataService(client, InlineCalls(), self.clock)
        guard = BucketGuard(self.bucket, "ab" * 16, lambda: MetadataMark(0, 0), client.append_id_at)
        self.marks = VersionMarks({0: guard}, self.metadata, InlineCalls(), self.clock)

    async def change(self, value: bytes) -> None:
        await self.metadata.execute(PutKey("key", value, overwrite=True))

    def versions(self) -> list[int]:
        return [mark.version for mark in marks_in(self.bucket.store)]

    def puts(self) -> int:
        return [name for name, _ in self.bucket.history].count("put")


def in_world(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        await world.metadata.start()
        await scenario(world)
        await world.metadata.close()

    asyncio.run(main())


@scenario(in_world)
async def test_a_version_is_marked_once(world: World) -> None:
    await world.change(b"1")
    for _ in range(3):
        await world.marks.mark()
    assert (world.versions(), world.puts()) == ([1], 1)
    await world.change(b"2")
    await world.marks.mark()
    assert (world.versions(), world.puts()) == ([2], 2)


@scenario(in_world)
async def test_it_marks_at_once_and_then_when_the_metadata_has_changed(world: World) -> None:
    await world.change(b"1")
    marking = asyncio.ensure_future(world.marks.from_time_to_time())
    await settled()
    assert world.versions() == [1]
    await world.change(b"2")
    world.clock.advance_ms(MARK_INTERVAL_MS - 1)
    await settled()
    assert world.versions() == [1]
    world.clock.advance_ms(1)
    await settled()
    assert world.versions() == [2]
    world.clock.advance_ms(10 * MARK_INTERVAL_MS)
    await settled()
    assert world.puts() == 2
    marking.cancel()


@scenario(in_world)
async def test_a_mark_that_fails_is_reported_and_made_the_next_time(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.change(b"1")
    world.bucket.fail_next(Fault.DENIED)
    with caplog.at_level(logging.WARNING):
        await world.marks.mark()
    assert "could not be marked in bucket 0" in caplog.text
    assert world.versions() == []
    await world.marks.mark()
    assert world.versions() == [1]


@scenario(in_world)
async def test_without_a_guard_nothing_is_marked(world: World) -> None:
    await VersionMarks({}, world.metadata, InlineCalls(), world.clock).mark()
    assert world.bucket.history == []
