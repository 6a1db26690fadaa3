import asyncio

import pytest

from siltstone.model.objects import object_key
from siltstone.object_formats.block_index import BlockIndex, DamagedBlock
from siltstone.object_store.bandwidth.limiter import no_limit
from siltstone.object_store.bandwidth.turns import Grade
from siltstone.object_store.buckets import Buckets, read_index
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.reading.block_cache import Block, BlockCache
from siltstone.stream_engine.reading.block_fetcher import BlockFetcher, read_blocks
from siltstone.stream_engine.reading.read_ahead import ReadAhead
from siltstone.stream_engine.reading.read_plan import BlockRequest, PlannedBlock
from siltstone.stream_engine.settings import ReadSettings
from support.engine.batches import batch
from support.engine.committed_world import CommittedWorld, GatedCalls, settle
from support.engine.replacing import replace_object
from support.scenarios import in_loop

SETTINGS = ReadSettings(
    block_cache_bytes_max=1 << 20,
    request_bytes_max=400,
    under_way_bytes_max=2000,
    read_ahead_bytes_min=400,
    read_ahead_bytes_max=1600,
)


class Fetching:
    """A stream of ten blocks of 172 bytes in one object, and a fetcher for them."""

    def __init__(self, calls=None, settings: ReadSettings = SETTINGS, cache_bytes_max: int = 1 << 20) -> None:
        self.world = CommittedWorld()
        self.world.commit(0, [batch(1, offset, 1, 100) for offset in range(10)], block_size_bytes=1)
        self.world.commit(1, [batch(1, offset, 1, 100) for offset in range(10, 12)], block_size_bytes=1)
        self.planned = [PlannedBlock(0, entry) for entry in self.index(0)]
        self.planned += [PlannedBlock(1, entry) for entry in self.index(1)]
        self.world.store.gets.clear()
        self.cache = BlockCache(cache_bytes_max)
        self.failures: list[BaseException] = []
        self.catch_up = no_limit(ManualClock())
        tasks = TaskGroup("test", self.failures.append)
        self.fetcher = BlockFetcher(
            Buckets(self.world.stores),
            self.cache,
            calls or InlineCalls(),
            tasks,
            settings,
            ManualClock(),
            self.catch_up,
        )
        self.ahead = ReadAhead(settings, ManualClock())
        self.ahead.reads_on()

    def index(self, object_id: int) -> BlockIndex:
        size_bytes = self.world.objects[object_id].size_bytes
        return read_index(self.world.store, object_key(object_id), size_bytes)

    def fetch(self, *numbers: int):
        planned = [self.planned[number] for number in numbers]
        return self.fetcher.fetch(planned, self.world.objects, Grade.CATCH_UP_READ)

    def fetch_ahead(self, *numbers: int) -> None:
        self.fetcher.fetch_ahead([self.planned[number] for number in numbers], self.world.objects, self.ahead)

    def spans(self) -> list[tuple[int, int]]:
        """The block numbers of each request so far."""
        return [(start // 172, end // 172) for _, start, end in self.world.store.gets]


async def arrived(promises) -> list[Block]:
    return [one if isinstance(one, Block) else await asyncio.shield(one) for one in promises]


@in_loop
async def test_adjacent_blocks_come_with_one_request_each_with_bytes_of_its_own() -> None:
    of = Fetching()
    blocks = await arrived(of.fetch(2, 3))
    assert [block.entry.start_offset for block in blocks] == [2, 3]
    assert of.spans() == [(2, 4)]
    assert all(len(block.data.obj) == 172 for block in blocks)


@in_loop
async def test_requests_stay_within_their_limit() -> None:
    of = Fetching()
    blocks = await arrived(of.fetch(*range(12)))
    assert [block.entry.start_offset for block in blocks] == list(range(12))
    assert of.spans() == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10), (0, 2)]
    assert of.fetcher.statistics().bytes_read == 12 * 172


@in_loop
async def test_only_what_is_neither_cached_nor_under_way_is_asked_for() -> None:
    calls = GatedCalls()
    of = Fetching(calls)
    early = of.fetch(3)
    both = of.fetch(2, 3, 4)
    assert both[1] is early[0]
    await settle()
    calls.open()
    assert [block.entry.start_offset for block in await arrived(both)] == [2, 3, 4]
    again = of.fetch(2, 3, 4)
    assert all(isinstance(one, Block) for one in again)
    assert of.spans() == [(3, 4), (2, 3), (4, 5)]
    assert of.fetcher.statistics().shared == 1


@in_loop
async def test_a_promise_keeps_its_block_although_the_cache_does_not() -> None:
    """A reader gets the block that it asked for, however small the cache is."""
    of = Fetching(cache_bytes_max=700)
    blocks = await arrived(of.fetch(*range(10)))
    assert [block.entry.start_offset for block in blocks] == list(range(10))
    assert of.fetcher.statistics().requests == 5
    assert of.cache.statistics().blocks == 1


@in_loop
async def test_bytes_under_way_never_pass_the_limit() -> None:
    """688 bytes for two blocks of 172 and the answer they are cut from: two requests fit into 2000, not three."""
    calls = GatedCalls()
    of = Fetching(calls)
    promises = of.fetch(*range(10))
    await settle()
    assert calls.waiting == 2
    assert of.fetcher.statistics().bytes_under_way == 1376
    calls.open()
    assert len(await arrived(promises)) == 10
    assert of.fetcher.statistics().bytes_under_way == 0


@in_loop
async def test_a_block_larger_than_the_limit_is_read_alone() -> None:
    small = ReadSettings(
        block_cache_bytes_max=1 << 20,
        request_bytes_max=10,
        under_way_bytes_max=10,
        read_ahead_bytes_min=10,
        read_ahead_bytes_max=10,
    )
    calls = GatedCalls()
    of = Fetching(calls, small)
    promises = of.fetch(0, 1)
    await settle()
    assert calls.waiting == 1
    calls.open()
    assert len(await arrived(promises)) == 2


@in_loop
async def test_what_is_fetched_ahead_does_without_when_there_is_no_room() -> None:
    calls = GatedCalls()
    of = Fetching(calls)
    of.fetch(0, 1)
    await settle()
    of.fetch_ahead(*range(2, 10))
    await settle()
    assert calls.waiting == 2
    assert of.ahead.until_offset == 4
    waiting = of.fetch(8)
    assert not isinstance(waiting[0], Block)
    of.fetch_ahead(9)
    assert of.ahead.until_offset == 10
    calls.open()
    await arrived(waiting)
    await settle()
    assert sorted(of.spans()) == [(0, 2), (2, 4), (8, 9), (9, 10)]


@in_loop
async def test_blocks_fetched_ahead_are_marked_until_they_are_read() -> None:
    of = Fetching()
    of.fetch_ahead(0, 1)
    await settle()
    (block, other) = await arrived(of.fetch(0, 1))
    assert block.fetched_for is of.ahead
    of.cache.mark_read(block)
    assert block.fetched_for is None
    assert of.cache.statistics().read_ahead_bytes_used == 172
    assert other.fetched_for is of.ahead
    assert of.spans() == [(0, 2)]


@in_loop
async def test_fetching_ahead_again_asks_for_nothing_twice() -> None:
    calls = GatedCalls()
    of = Fetching(calls)
    of.fetch(1)
    await settle()
    of.fetch_ahead(0, 1)
    of.fetch_ahead(0, 1)
    calls.open()
    await settle()
    assert sorted(of.spans()) == [(0, 1), (1, 2)]
    assert of.ahead.until_offset == 2


@in_loop
async def test_a_damaged_block_fails_and_those_beside_it_do_not() -> None:
    of = Fetching()
    raw = bytearray(of.world.store.get_range(object_key(0), 0, of.world.objects[0].size_bytes))
    raw[172 + 80] ^= 1
    replace_object(of.world.store, object_key(0), [bytes(raw)])
    promises = of.fetch(0, 1, 4)
    with pytest.raises(DamagedBlock, match=r"stream 1 \[1, 2\)"):
        await asyncio.shield(promises[1])
    assert [block.entry.start_offset for block in await arrived([promises[0], promises[2]])] == [0, 4]
    assert of.fetcher.statistics().bytes_under_way == 0
    assert of.cache.statistics().blocks == 2
    assert of.failures == []


def test_read_blocks_needs_no_copy_for_one_block():
    of = Fetching()
    one = of.planned[4].entry
    (block,) = read_blocks(of.world.store, BlockRequest(0, (one,)))
    assert isinstance(block.data.obj, bytes)
    assert block.entry is one


def test_blocks_are_read_with_one_request_and_each_has_its_own_memory() -> None:
    world = CommittedWorld()
    world.commit(0, [batch(1, offset, 1, 1000) for offset in range(3)], block_size_bytes=1)
    entries = tuple(read_index(world.store, object_key(0), world.objects[0].size_bytes))
    world.store.gets.clear()

    blocks = read_blocks(world.store, BlockRequest(0, entries))

    assert len(world.store.gets) == 1
    assert [block.entry for block in blocks] == list(entries)
    assert all(len(block.data.obj) == block.entry.size_bytes for block in blocks)


def test_a_damaged_block_does_not_affect_those_beside_it() -> None:
    world = CommittedWorld()
    world.commit(0, [batch(1, offset, 1, 1000) for offset in range(3)], block_size_bytes=1)
    entries = tuple(read_index(world.store, object_key(0), world.objects[0].size_bytes))
    content = bytearray(world.store.get_range(object_key(0), 0, world.objects[0].size_bytes))
    content[entries[1].position + 500] ^= 1
    replace_object(world.store, object_key(0), [bytes(content)])

    first, second, third = read_blocks(world.store, BlockRequest(0, entries))
    assert isinstance(first, Block) and isinstance(third, Block)
    assert isinstance(second, DamagedBlock)

    replace_object(world.store, object_key(0), [bytes(content[: entries[2].position + 9])])
    *_, last = read_blocks(world.store, BlockRequest(0, entries))
    assert isinstance(last, DamagedBlock) and "is cut off" in str(last)
