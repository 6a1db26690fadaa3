"""Brokers read the copies of an object: damaged, missing and silent ones are passed over (B11)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.model.objects import object_key
from siltstone.object_store.copies import Copies
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectNotFound, ObjectStore
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.errors import DamagedRange
from siltstone.stream_engine.reading.copies import COPY_ANSWERS_MS_MAX, read_any
from support.engine.batches import batch
from support.engine.committed_world import CommittedWorld
from support.engine.engine_world import settled
from support.engine.replacing import replace_object

END = 12


def world_with_copies() -> CommittedWorld:
    """Makes object 0 of 12 batches, in buckets 0 and 1."""
    world = CommittedWorld((0, 1))
    made = world.commit(0, [batch(1, offset) for offset in range(END)], 300)
    key = object_key(0)
    world.stores[1].put(key, [world.stores[0].get_range(key, 0, made.size_bytes)])
    world.objects[0] = replace(made, copies=(1,))
    return world


def read(world: CommittedWorld) -> list[int]:
    async def main() -> list[int]:
        reader = world.reader()
        try:
            found = []
            while len(found) < END:
                found += [each.base_offset for each in await reader.read(1, len(found), END, 10**6)]
            return found
        finally:
            await reader.close()

    return asyncio.run(asyncio.wait_for(main(), 60))


def flip(world: CommittedWorld, bucket_id: int, *positions: int) -> None:
    store, key = world.stores[bucket_id], object_key(0)
    raw = bytearray(store.get_range(key, 0, store.head(key).size_bytes))
    for position in positions:
        raw[position] ^= 0xFF
    replace_object(store, key, [raw])


def test_b11_a_block_that_is_flipped_is_read_from_the_other_copy() -> None:
    world = world_with_copies()
    flip(world, 0, 100)
    assert read(world) == [*range(END)]


def test_b11_a_copy_that_was_deleted_by_hand() -> None:
    world = world_with_copies()
    world.stores[0].delete([object_key(0)])
    assert read(world) == [*range(END)]


def test_b11_an_index_that_is_damaged_is_read_from_the_other_copy() -> None:
    world = world_with_copies()
    flip(world, 0, -80)
    assert read(world) == [*range(END)]


def test_other_blocks_of_two_copies_are_damaged() -> None:
    """Blocks are requested together, but each is read from a copy in which it is right."""
    world = world_with_copies()
    flip(world, 0, 100)
    flip(world, 1, 1_000)
    assert read(world) == [*range(END)]
    flip(world, 1, 100)
    with pytest.raises(DamagedRange):
        read(world)


def in_turn(stores: list[ObjectStore], call: Callable[[ObjectStore], Any], hang: ObjectStore) -> Any:
    """Reads while one store does not answer."""
    clock = ManualClock()

    class Calls:
        async def run(self, call: Callable[..., Any], store: ObjectStore) -> Any:
            if store is hang:
                await asyncio.get_running_loop().create_future()
            return call(store)

    async def main() -> Any:
        copies = Copies([*enumerate(stores)])
        reading = asyncio.create_task(read_any(copies, Calls(), clock, call))  # type: ignore[arg-type]
        await settled()
        clock.advance_ms(COPY_ANSWERS_MS_MAX)
        return await reading

    return asyncio.run(asyncio.wait_for(main(), 60))


def test_a_copy_that_does_not_answer_in_time_is_passed_over() -> None:
    silent, well = MemoryStore(ManualClock(), "silent"), MemoryStore(ManualClock(), "well")
    well.put("ab/objects/1", [b"silt"])
    assert in_turn([silent, well], lambda store: store.get_range("ab/objects/1", 0, 4), silent) == b"silt"


def test_the_failure_of_the_first_copy_is_raised_when_there_is_none_left() -> None:
    one, other = MemoryStore(ManualClock(), "one"), MemoryStore(ManualClock(), "other")

    async def main() -> None:
        class Calls:
            async def run(self, call: Callable[..., Any], store: ObjectStore) -> Any:
                return call(store)

        copies = Copies([(0, one), (1, other)])
        await read_any(copies, Calls(), ManualClock(), lambda store: store.head("ab/objects/1"))  # type: ignore[arg-type]

    with pytest.raises(ObjectNotFound, match="one"):
        asyncio.run(main())
