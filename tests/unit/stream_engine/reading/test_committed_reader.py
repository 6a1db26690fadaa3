import asyncio

import msgspec
import pytest

from siltstone.metadata.lookup import OffsetOutOfRange
from siltstone.metadata.refusals import StreamNotExist
from siltstone.model.objects import object_key
from siltstone.stream_engine.errors import DamagedRange
from support.engine.batches import batch
from support.engine.committed_reader_tests import (
    BATCHES,
    EVERYTHING,
    one_stream_object,
    three_stream_set_objects,
)
from support.engine.committed_world import (
    SMALL_READS,
    CommittedWorld,
    GatedCalls,
    SteppedCalls,
    read_all,
    settle,
)
from support.scenarios import in_loop


@pytest.mark.parametrize("world", [one_stream_object(), one_stream_object(1), three_stream_set_objects()])
@pytest.mark.parametrize(
    ("start", "end", "bytes_max", "taken"),
    [
        (0, 100, EVERYTHING, range(100)),
        (0, 100, 250, range(2)),
        (0, 100, 200, range(2)),
        (0, 100, 0, range(1)),
        (29, 32, EVERYTHING, range(29, 32)),
        (99, 100, 1, range(99, 100)),
        (7, 7, 100, range(0)),
        (95, 1000, EVERYTHING, range(95, 100)),
        (100, 1000, EVERYTHING, range(0)),
        (28, 100, 500, range(28, 33)),
    ],
)
def test_exactly_the_batches_asked_for(world, start, end, bytes_max, taken):
    read = asyncio.run(world.reader().read(1, start, end, bytes_max))
    assert read == BATCHES[taken.start : taken.stop]


@pytest.mark.parametrize("world", [one_stream_object(), one_stream_object(1), three_stream_set_objects()])
@pytest.mark.parametrize("bytes_max", [1, 250, 5000, EVERYTHING])
def test_a_consumer_gets_everything_once_and_in_order(world, bytes_max):
    assert asyncio.run(read_all(world.reader(), 1, 0, 100, bytes_max)) == BATCHES


def test_the_first_batch_holds_the_start_and_the_last_may_end_after_the_end():
    world = CommittedWorld()
    batches = [batch(1, 0, 10), batch(1, 10, 10), batch(1, 20, 10)]
    world.commit(0, batches)
    assert asyncio.run(world.reader().read(1, 15, 21, EVERYTHING)) == batches[1:]


def test_an_image_that_does_not_cover_the_start_gives_nothing():
    world = CommittedWorld()
    world.commit(0, BATCHES[:10])
    world.commit(1, BATCHES[20:])
    reader = world.reader()
    assert asyncio.run(reader.read(1, 5, 100, EVERYTHING)) == BATCHES[5:10]
    assert asyncio.run(reader.read(1, 10, 100, EVERYTHING)) == []


def test_removed_offsets_are_covered_and_lead_to_what_is_left():
    world = CommittedWorld()
    kept = [batch(1, 10, 5), batch(1, 15, 2, offsets=35)]
    world.commit(0, kept)
    world.commit(1, [batch(1, 50, 5)])
    reader = world.reader()
    assert [one.base_offset for one in asyncio.run(reader.read(1, 30, 55, EVERYTHING))] == [15, 50]
    assert reader.covers(1, 12, 55) and reader.covers(1, 12, 50)
    assert not reader.covers(1, 12, 56) and not reader.covers(1, 55, 60)


def test_what_does_not_exist_or_is_trimmed_is_refused():
    world = one_stream_object()
    world.start_offsets[1] = 40
    reader = world.reader()
    with pytest.raises(StreamNotExist):
        asyncio.run(reader.read(2, 0, 10, 100))
    with pytest.raises(OffsetOutOfRange):
        asyncio.run(reader.read(1, 39, 100, 100))
    assert asyncio.run(reader.read(1, 40, 100, 100)) == BATCHES[40:41]


def test_objects_are_read_from_the_bucket_the_metadata_names():
    world = CommittedWorld(bucket_ids=[0, 4])
    world.commit(0, BATCHES[:50], bucket_id=4)
    world.commit(1, BATCHES[50:], bucket_id=0)
    assert asyncio.run(world.reader().read(1, 0, 100, EVERYTHING)) == BATCHES
    assert {key for key, _, _ in world.stores[4].gets} == {object_key(0)}
    assert {key for key, _, _ in world.stores[0].gets} == {object_key(1)}


def test_t12_offsets_further_apart_than_32_bits():
    """T12, the reader's part: any offset of blocks that span more than 2**31 offsets returns its record."""
    batches = [batch(1, 0, offsets=2**31), batch(1, 2**31, offsets=2**33), batch(1, 2**31 + 2**33)]
    world = CommittedWorld()
    world.commit(0, batches, block_size_bytes=1)
    for offset, expected in [(0, 0), (2**31 - 1, 0), (2**31, 1), (2**32, 1), (2**31 + 2**33, 2)]:
        read = asyncio.run(world.reader().read(1, offset, offset + 1, EVERYTHING))
        assert read == [batches[expected]]


@in_loop
async def test_payloads_are_views_of_cached_blocks() -> None:
    reader = one_stream_object().reader()
    first = await reader.read(1, 0, 3, EVERYTHING)
    second = await reader.read(1, 0, 3, EVERYTHING)
    assert all(isinstance(one.payload, memoryview) for one in first)
    assert first[0].payload.obj is first[1].payload.obj is second[0].payload.obj


@in_loop
async def test_a_hundred_reads_of_one_block_share_one_request() -> None:
    world = one_stream_object()
    reader = world.reader()
    reads = await asyncio.gather(*(reader.read(1, 20, 21, EVERYTHING) for _ in range(100)))
    assert reads == [BATCHES[20:21]] * 100
    assert world.block_gets == 1
    assert len(world.store.gets) == 2
    assert reader.statistics().fetches.shared == 99


@in_loop
async def test_a_cached_block_costs_no_request() -> None:
    world = one_stream_object()
    reader = world.reader()
    await reader.read(1, 20, 21, EVERYTHING)
    await reader.read(1, 19, 22, EVERYTHING)
    assert len(world.store.gets) == 2
    assert reader.statistics().blocks.hits == 1


def test_a_large_read_takes_few_requests():
    """17,200 bytes at 4 KiB a request, of four blocks of 1032 bytes at the most."""
    world = one_stream_object()
    asyncio.run(world.reader().read(1, 0, 100, EVERYTHING))
    assert world.block_gets == 6


def test_reads_of_a_slow_stream_take_little_they_do_not_need():
    world = one_stream_object()
    asyncio.run(world.reader().read(1, 50, 51, 1))
    (_, start, end) = world.store.gets[1]
    assert end - start == 1032


@in_loop
async def test_indexes_and_blocks_of_many_small_objects_are_read_side_by_side() -> None:
    world = CommittedWorld()
    for number in range(20):
        world.commit(number, BATCHES[number * 5 : number * 5 + 5])
    calls = GatedCalls()
    reader = world.reader(calls=calls)
    read = asyncio.ensure_future(reader.read(1, 0, 100, EVERYTHING))
    await settle()
    assert calls.waiting == 20
    calls.open()
    assert await read == BATCHES


@in_loop
async def test_bytes_under_way_stay_within_their_limit_however_many_read() -> None:
    world = one_stream_object()
    settings = msgspec.structs.replace(SMALL_READS, under_way_bytes_max=4500)
    reader = world.reader(settings, calls := SteppedCalls())
    reads = [asyncio.ensure_future(reader.read(1, start, start + 6, EVERYTHING)) for start in range(0, 96, 6)]
    peak = 0
    while not all(one.done() for one in reads):
        await settle()
        peak = max(peak, reader.statistics().fetches.bytes_under_way)
        calls.step()
    assert peak == 4 * 1032
    assert [one for read in await asyncio.gather(*reads) for one in read] == BATCHES[:96]
    assert reader.statistics().fetches.bytes_under_way == 0


@in_loop
async def test_the_caches_stay_within_their_limits_while_much_more_is_read() -> None:
    world = CommittedWorld()
    batches = [batch(1, offset, 1, 3000) for offset in range(200)]
    for number in range(50):
        world.commit(number, batches[number * 4 : number * 4 + 4])
    settings = msgspec.structs.replace(SMALL_READS, index_cache_bytes_max=5 * (512 + 4 * 72))
    reader = world.reader(settings)
    start = 0
    while start < 200:
        read = await reader.read(1, start, 200, 10_000)
        assert read == batches[start : start + 3]
        start = read[-1].end_offset
        statistics = reader.statistics()
        assert statistics.blocks.bytes_used <= settings.block_cache_bytes_max
        assert statistics.indexes.bytes_used <= settings.index_cache_bytes_max
        assert statistics.indexes.indexes <= 5
    assert reader.statistics().blocks.evictions > 100


@in_loop
async def test_a_sequential_reader_finds_its_blocks_there() -> None:
    world = one_stream_object()
    reader = world.reader()
    misses = []
    for start in range(0, 100, 5):
        assert await reader.read(1, start, 100, 500) == BATCHES[start : start + 5]
        await settle()
        misses.append(reader.statistics().blocks.misses)
    assert misses[5] == misses[-1]
    assert reader.statistics().blocks.read_ahead_bytes_used > 10_000


@in_loop
async def test_read_ahead_runs_on_into_the_next_object() -> None:
    world = three_stream_set_objects()
    reader = world.reader()
    await read_all(reader, 1, 0, 28, 300)
    await settle()
    gets = len(world.store.gets)
    assert await reader.read(1, 30, 40, 300) == BATCHES[30:33]
    assert len(world.store.gets) == gets


@in_loop
async def test_a_sequential_reader_does_not_push_out_what_others_use() -> None:
    world = CommittedWorld()
    batches = [batch(1, offset, 1, 900) for offset in range(300)]
    world.commit(0, batches)
    world.commit(1, [batch(2, 0)])
    reader = world.reader()
    await reader.read(2, 0, 1, EVERYTHING)
    assert await read_all(reader, 1, 0, 300, 2000) == batches
    gets = len(world.store.gets)
    await reader.read(2, 0, 1, EVERYTHING)
    assert len(world.store.gets) == gets


@in_loop
async def test_a_reader_that_jumps_fetches_nothing_ahead() -> None:
    world = one_stream_object()
    reader = world.reader()
    for start in (0, 50, 20, 80):
        await reader.read(1, start, start + 1, EVERYTHING)
        await settle()
    assert world.block_gets == 4


@in_loop
async def test_blocks_evicted_unread_end_the_read_ahead() -> None:
    """Forty readers whose windows together are five times the cache: the waste ends, the answers stay right."""
    world = CommittedWorld()
    for stream_id in range(40):
        world.commit(stream_id, [batch(stream_id, offset, 1, 900) for offset in range(40)])
    reader = world.reader()
    wasted = []
    for start in range(0, 40, 2):
        for stream_id in range(40):
            read = await reader.read(stream_id, start, 40, 1800)
            assert [one.base_offset for one in read] == [start, start + 1]
            await settle(3)
        blocks = reader.statistics().blocks
        wasted.append(blocks.read_ahead_bytes_wasted)
        assert blocks.bytes_used <= SMALL_READS.block_cache_bytes_max
    assert wasted[10] > 0
    assert wasted[-1] == wasted[-5]


@in_loop
async def test_read_ahead_that_fails_is_the_business_of_the_read_that_needs_it() -> None:
    world = CommittedWorld()
    world.commit(0, BATCHES[:50])
    world.commit(1, BATCHES[50:])
    world.store.delete([object_key(1)])
    reader = world.reader()
    assert await read_all(reader, 1, 0, 50, 1000) == BATCHES[:50]
    await settle()
    with pytest.raises(DamagedRange):
        await reader.read(1, 50, 100, 1000)
