"""The reader of committed objects meets damage, swept objects and its own end."""

import asyncio

import msgspec
import pytest

from siltstone.model.errors import CorruptData
from siltstone.model.objects import object_key
from siltstone.object_formats.block_index import DamagedBlock
from siltstone.object_formats.object_layout import DamagedFooter
from siltstone.object_store.folder.store import FolderStore
from siltstone.object_store.port import ObjectNotFound, ObjectTruncated, StoreTransient
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.stream_engine.errors import DamagedRange
from siltstone.stream_engine.reading.committed_reader import REFRESHES_MAX, ReaderClosed
from siltstone.stream_engine.reading.read_plan import IndexNotMatched
from siltstone.stream_engine.settings import ReadSettings
from support.engine.committed_reader_tests import (
    BATCHES,
    EVERYTHING,
    one_stream_object,
    three_stream_set_objects,
)
from support.engine.committed_world import (
    CommittedWorld,
    GatedCalls,
    SteppedCalls,
    read_all,
    settle,
)
from support.engine.replacing import replace_object
from support.scenarios import in_loop


def damage(world: CommittedWorld, object_id: int, position: int) -> None:
    key = object_key(object_id)
    raw = bytearray(world.store.get_range(key, 0, world.objects[object_id].size_bytes))
    raw[position] ^= 0x20
    replace_object(world.store, key, [bytes(raw)])


@in_loop
async def test_a_damaged_block_is_named_and_never_an_empty_answer() -> None:
    world = one_stream_object()
    damage(world, 0, 2 * 1032 + 100)  # in the block of [12, 18)
    reader = world.reader()
    with pytest.raises(DamagedRange, match=r"object 0, stream 1 \[12, 18\)") as caught:
        await reader.read(1, 12, 100, EVERYTHING)
    assert isinstance(caught.value, CorruptData) and isinstance(caught.value.__cause__, DamagedBlock)
    assert await reader.read(1, 18, 24, EVERYTHING) == BATCHES[18:24]
    with pytest.raises(DamagedRange):
        await reader.read(1, 15, 100, 1)


@in_loop
async def test_what_precedes_the_damage_is_returned_and_the_read_that_begins_there_raises() -> None:
    world = one_stream_object()
    damage(world, 0, 5 * 1032 + 100)  # in the block of [30, 36)
    reader = world.reader()
    assert await reader.read(1, 0, 100, EVERYTHING) == BATCHES[:30]
    with pytest.raises(DamagedRange):
        await reader.read(1, 30, 100, EVERYTHING)


@in_loop
async def test_what_precedes_a_failure_of_the_store_is_returned() -> None:
    world = CommittedWorld()
    world.commit(0, BATCHES[:50])
    world.commit(1, BATCHES[50:])
    reader = world.reader()
    await reader.read(1, 49, 52, EVERYTHING)

    def fail(key: str) -> None:
        if key == object_key(1):
            raise StoreTransient("SlowDown")

    world.store.before_get = fail
    assert await reader.read(1, 0, 100, EVERYTHING) == BATCHES[:56]
    with pytest.raises(StoreTransient):
        await reader.read(1, 56, 100, EVERYTHING)


@pytest.mark.parametrize(("position", "error"), [(-1, DamagedFooter), (-64 - 30, CorruptData)])
def test_a_damaged_trailer_is_named(position, error):
    world = one_stream_object()
    damage(world, 0, world.objects[0].size_bytes + position)
    with pytest.raises(DamagedRange, match=object_key(0)) as caught:
        asyncio.run(world.reader().read(1, 0, 100, EVERYTHING))
    assert isinstance(caught.value.__cause__, error)


def test_a_truncated_object_is_named():
    world = one_stream_object()
    raw = world.store.get_range(object_key(0), 0, 5000)
    replace_object(world.store, object_key(0), [raw])
    with pytest.raises(DamagedRange) as caught:
        asyncio.run(world.reader().read(1, 0, 100, EVERYTHING))
    assert isinstance(caught.value.__cause__, ObjectTruncated)


def test_metadata_that_promises_more_than_the_index_holds():
    world = one_stream_object()
    promised = msgspec.structs.replace(world.objects[0].ranges[0], end_offset=120)
    world.objects[0] = msgspec.structs.replace(world.objects[0], ranges=(promised,))
    reader = world.reader()
    assert asyncio.run(reader.read(1, 90, 120, EVERYTHING)) == BATCHES[90:]
    with pytest.raises(DamagedRange, match="offset 100 of stream 1") as caught:
        asyncio.run(reader.read(1, 100, 120, EVERYTHING))
    assert isinstance(caught.value.__cause__, IndexNotMatched)
    assert (caught.value.start_offset, caught.value.end_offset) == (100, 120)


@in_loop
async def test_a_failing_store_is_the_readers_to_retry() -> None:
    world = one_stream_object()
    reader = world.reader()

    def fail(_key: str) -> None:
        raise StoreTransient("SlowDown")

    world.store.before_get = fail
    with pytest.raises(StoreTransient):
        await reader.read(1, 0, 100, EVERYTHING)
    world.store.before_get = lambda _: None
    assert await reader.read(1, 0, 100, EVERYTHING) == BATCHES


def compact(world: CommittedWorld) -> None:
    for object_id in list(world.objects):
        world.destroy(object_id)
    world.commit(77, BATCHES)


@pytest.mark.parametrize("read_before", [0, 1, 20, 31, 50])
@in_loop
async def test_objects_swept_since_the_image_was_read_are_found_in_the_newest(read_before) -> None:
    world = three_stream_set_objects()
    reader = world.reader()
    before = await read_all(reader, 1, 0, read_before, 1000)
    compact(world)
    after = await read_all(reader, 1, before[-1].end_offset if before else 0, 100, 1000)
    assert before + after == BATCHES
    assert world.refreshes == 1


def test_an_object_swept_between_its_index_and_its_blocks():
    async def scenario():
        world = three_stream_set_objects()
        reader = world.reader()
        gets = 0

        def sweep(_key: str) -> None:
            nonlocal gets
            gets += 1
            if gets == 4:  # after three indexes
                world.store.before_get = lambda _: None
                compact(world)

        world.store.before_get = sweep
        assert await reader.read(1, 0, 100, EVERYTHING) == BATCHES
        assert world.refreshes == 1
        assert reader.statistics().refreshes == 1

    asyncio.run(scenario())


@in_loop
async def test_an_object_that_the_newest_image_still_names_is_missing() -> None:
    world = one_stream_object()
    reader = world.reader()
    world.store.delete([object_key(0)])
    with pytest.raises(DamagedRange, match="offsets 10 to 99 of stream 1") as caught:
        await reader.read(1, 10, 100, EVERYTHING)
    assert isinstance(caught.value, CorruptData)
    assert isinstance(caught.value.__cause__, ObjectNotFound)
    assert world.refreshes == REFRESHES_MAX


@in_loop
async def test_closing_ends_the_waits_and_refuses_new_reads() -> None:
    world = one_stream_object()
    reader = world.reader(calls=GatedCalls())
    reads = [asyncio.ensure_future(reader.read(1, start, 100, 100)) for start in (0, 50)]
    await settle()
    await reader.close()
    results = await asyncio.gather(*reads, return_exceptions=True)
    assert [type(one) for one in results] == [ReaderClosed, ReaderClosed]
    with pytest.raises(ReaderClosed):
        await reader.read(1, 0, 100, 100)


@pytest.mark.timeout(20)
@in_loop
async def test_a_read_whose_index_has_just_come_fetches_no_block_after_the_closing() -> None:
    world = one_stream_object()
    calls = SteppedCalls()
    reader = world.reader(calls=calls)
    read = asyncio.ensure_future(reader.read(1, 0, 6, EVERYTHING))
    await settle()
    calls.step()
    closing = asyncio.ensure_future(reader.close())
    with pytest.raises(ReaderClosed):
        await read
    await closing
    assert world.block_gets == 0


@pytest.mark.parametrize("index_is_cached", [False, True])
@in_loop
async def test_a_cancelled_read_does_not_end_the_request_others_wait_for(index_is_cached) -> None:
    world = one_stream_object()
    calls = SteppedCalls()
    reader = world.reader(calls=calls)
    first, second = (asyncio.ensure_future(reader.read(1, 0, 6, EVERYTHING)) for _ in range(2))
    await settle()
    if index_is_cached:
        calls.step()
        await settle()
    first.cancel()
    await settle()
    while not second.done():
        calls.step()
        await settle()
    assert await second == BATCHES[:6]
    assert world.block_gets == 1


@in_loop
async def test_a_bug_in_a_background_task_ends_the_reader_with_a_reason() -> None:
    world = one_stream_object()
    reader = world.reader()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    reader._cache.put = broken
    with pytest.raises(ReaderClosed, match="ZeroDivisionError"):
        await reader.read(1, 0, 6, EVERYTHING)
    with pytest.raises(ReaderClosed, match="ZeroDivisionError"):
        await reader.read(1, 0, 6, EVERYTHING)


@in_loop
async def test_over_a_folder_with_threads(tmp_path) -> None:
    world = three_stream_set_objects()
    folder = FolderStore(tmp_path, ManualClock(), seeded_randomness(1))
    for summary in world.store.list():
        folder.put(summary.key, [world.store.get_range(summary.key, 0, summary.size_bytes)])
    world.stores[0] = folder
    calls = ThreadedCalls("read", 3)
    reader = world.reader(ReadSettings(), calls)
    reads = await asyncio.gather(*(read_all(reader, 1, 0, 100, 700) for _ in range(5)))
    assert reads == [BATCHES] * 5
    await reader.close()
    calls.close()
