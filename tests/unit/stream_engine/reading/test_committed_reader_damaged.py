"""What is served of a stream when one of its objects is damaged: everything before the damage, and what follows it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from siltstone.model.errors import Unavailable
from siltstone.model.objects import object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_store.buckets import read_index
from siltstone.object_store.port import ObjectStore, StoreDenied, StoreTransient
from siltstone.stream_engine.errors import DamagedRange
from siltstone.stream_engine.reading.committed_reader import BucketNotThere, CommittedReader
from support.engine.batches import batch
from support.engine.committed_world import CommittedWorld, read_all
from support.engine.replacing import replace_object
from support.scenarios import in_loop

BATCHES = [batch(1, offset, 1, 100) for offset in range(90)]
OBJECT_OFFSETS = 30
"""Offsets of each of three objects; a block has six of them."""
EVERYTHING = 1 << 40

Change = Callable[[bytearray], bytearray]


def flipped(position: int) -> Change:
    def flip(raw: bytearray) -> bytearray:
        raw[position] ^= 0x20
        return raw

    return flip


def cut(size: int) -> Change:
    return lambda raw: raw[:size]


DAMAGES: dict[str, tuple[Change | None, int, int]] = {
    "first block": (flipped(100), 0, 6),
    "a block in the middle": (flipped(2 * 1032 + 100), 12, 18),
    "last block": (flipped(4 * 1032 + 100), 24, 30),
    "index": (flipped(-64 - 30), 0, 30),
    "footer": (flipped(-1), 0, 30),
    "truncated in the footer": (cut(-1), 0, 30),
    "truncated in a block": (cut(2 * 1032 + 100), 0, 30),
    "truncated to nothing": (cut(0), 0, 30),
    "missing": (None, 0, 30),
}
"""What happens to the object, and which of its offsets then cannot be read."""


def three_objects() -> CommittedWorld:
    world = CommittedWorld()
    for number in range(3):
        batches = BATCHES[number * OBJECT_OFFSETS : (number + 1) * OBJECT_OFFSETS]
        world.commit(number, batches)
        index = read_index(world.store, object_key(number), world.objects[number].size_bytes)
        assert [entry.end_offset - entry.start_offset for entry in index] == [6] * 5
    return world


def damage(world: CommittedWorld, number: int, change: Change | None) -> bytes:
    """Returns the object as it was."""
    key = object_key(number)
    intact = world.store.get_range(key, 0, world.objects[number].size_bytes)
    world.store.delete([key])
    if change is not None:
        replace_object(world.store, key, [bytes(change(bytearray(intact)))])
    return intact


async def served(
    reader: CommittedReader, start: int, bytes_max: int, *other: type[Exception]
) -> list[RecordBatch]:
    """As a consumer reads that does not know of the damage, up to the damage."""
    batches: list[RecordBatch] = []
    with suppress(DamagedRange, *other):
        while start < 90:
            batches += (read := await reader.read(1, start, 90, bytes_max))
            start = read[-1].end_offset
    return batches


async def refused(reader: CommittedReader, start: int, bytes_max: int = EVERYTHING) -> DamagedRange:
    with pytest.raises(DamagedRange) as caught:
        await reader.read(1, start, 90, bytes_max)
    return caught.value


@pytest.mark.parametrize("bytes_max", [1, 250, 5_000, EVERYTHING])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", DAMAGES)
def test_everything_before_the_damage_and_everything_behind_it_is_served(kind, number, bytes_max):
    change, first, last = DAMAGES[kind]
    start, end = number * OBJECT_OFFSETS + first, number * OBJECT_OFFSETS + last

    async def scenario():
        world = three_objects()
        damage(world, number, change)
        reader = world.reader()
        assert await served(reader, 0, bytes_max) == BATCHES[:start]
        found = await refused(reader, start, bytes_max)
        assert (found.stream_id, found.start_offset, found.end_offset) == (1, start, end)
        assert (found.object_id, found.bucket_id) == (number, 0)
        assert await served(reader, end, bytes_max) == BATCHES[end:]

    asyncio.run(scenario())


@pytest.mark.parametrize("bytes_max", [1, 250, 5_000, EVERYTHING])
@pytest.mark.parametrize("kind", DAMAGES)
def test_one_read_that_begins_before_the_damage_is_never_refused(kind, bytes_max):
    """A client may ask for more than there is before the damage."""
    change, first, _ = DAMAGES[kind]

    async def scenario():
        for offset in range(OBJECT_OFFSETS + first):
            world = three_objects()
            damage(world, 1, change)
            read = await world.reader().read(1, offset, 90, bytes_max)
            assert read and read == BATCHES[offset : offset + len(read)]

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", DAMAGES)
def test_an_object_that_was_put_back_is_read_at_once(kind):
    change, first, _ = DAMAGES[kind]
    start = OBJECT_OFFSETS + first

    async def scenario():
        world = three_objects()
        intact = damage(world, 1, change)
        reader = world.reader()
        for _ in range(3):
            await refused(reader, start)
        replace_object(world.store, object_key(1), [intact])
        assert await reader.read(1, start, 90, EVERYTHING) == BATCHES[start:]

    asyncio.run(scenario())


@in_loop
async def test_of_a_truncated_object_whose_index_is_known_the_blocks_before_its_end_are_served() -> None:
    """They are fetched with one request, of which the bucket has the first part only."""
    world = three_objects()
    reader = world.reader()
    await reader.read(1, 59, 60, 1)
    damage(world, 1, cut(2 * 1032 + 100))
    assert await served(reader, 0, EVERYTHING) == BATCHES[:42]
    found = await refused(reader, 42)
    assert (found.start_offset, found.end_offset) == (42, 48)
    assert "is cut off" in found.what_is_wrong


@in_loop
async def test_the_index_of_another_object_in_its_place_is_not_remembered() -> None:
    world, other = three_objects(), CommittedWorld()
    other.commit(1, [batch(2, offset, 1, 100) for offset in range(30, 60)])
    foreign = other.store.get_range(object_key(1), 0, other.objects[1].size_bytes)
    intact = damage(world, 1, lambda _: bytearray(foreign))
    reader = world.reader()
    found = await refused(reader, 30)
    assert (found.start_offset, found.end_offset) == (30, 60)
    replace_object(world.store, object_key(1), [intact])
    assert await reader.read(1, 30, 90, EVERYTHING) == BATCHES[30:]


def test_damage_on_the_way_is_cured_by_reading_again():
    async def scenario():
        world = three_objects()
        intact = damage(world, 0, flipped(100))
        gets = 0

        def cure(_key: str) -> None:
            nonlocal gets
            gets += 1
            if gets == 3:  # after an index and a damaged block
                replace_object(world.store, object_key(0), [intact])

        world.store.before_get = cure
        assert await world.reader().read(1, 0, 1, EVERYTHING) == BATCHES[:1]

    asyncio.run(scenario())


@in_loop
async def test_a_damaged_object_that_was_compacted_away_is_no_damage() -> None:
    world = three_objects()
    reader = world.reader()
    damage(world, 1, flipped(100))
    for object_id in list(world.objects):
        world.destroy(object_id)
    world.commit(77, BATCHES)
    assert await read_all(reader, 1, 30, 90, 1_000) == BATCHES[30:]


@pytest.mark.parametrize("trouble", [StoreTransient("SlowDown"), StoreDenied("403 ExpiredToken")])
@pytest.mark.parametrize("number", [0, 1])
@in_loop
async def test_a_bucket_that_refuses_is_not_damage(trouble, number) -> None:
    world = three_objects()

    def fail(key: str) -> None:
        if key == object_key(number):
            raise trouble

    world.store.before_get = fail
    reader = world.reader()
    before = number * OBJECT_OFFSETS
    assert await read_all(reader, 1, 0, before, EVERYTHING) == BATCHES[:before]
    with pytest.raises(type(trouble)):
        await reader.read(1, before, 90, EVERYTHING)
    world.store.before_get = lambda _: None
    assert await reader.read(1, before, 90, EVERYTHING) == BATCHES[before:]


@pytest.mark.parametrize("is_there", [True, False])
@in_loop
async def test_an_object_is_missing_only_if_its_bucket_is_there(is_there) -> None:
    world = three_objects()
    world.store.delete([object_key(1)])
    asked = []

    def look(store: ObjectStore) -> bool:
        asked.append(store)
        return is_there

    reader = world.reader(is_there=look)
    assert await served(reader, 0, EVERYTHING, BucketNotThere) == BATCHES[:30]
    with pytest.raises(DamagedRange if is_there else BucketNotThere) as caught:
        await reader.read(1, 30, 90, EVERYTHING)
    assert asked and set(asked) == {world.store}
    assert isinstance(caught.value, Unavailable) is not is_there


@in_loop
async def test_the_error_names_offsets_object_and_bucket() -> None:
    world = CommittedWorld(bucket_ids=[0, 4])
    world.commit(12, BATCHES[:30], bucket_id=4)
    world.stores[4].delete([object_key(12)])
    with pytest.raises(DamagedRange) as caught:
        await world.reader().read(1, 3, 30, EVERYTHING)
    assert str(caught.value) == (
        f"offsets 3 to 29 of stream 1 cannot be read from object 12 ({object_key(12)} in bucket 4): "
        f"{caught.value.what_is_wrong}; run siltstone check"
    )
