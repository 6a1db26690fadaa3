import pytest

from siltstone.model.limits import TAIL_CACHE_RECORD_OVERHEAD_BYTES as OVERHEAD
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.stream_engine.tail.cache_block import CacheBlock, CacheBlockState, CachedBatch, charge_of
from siltstone.stream_engine.tail.tail_cache import TailCache
from support.engine.batches import batch


def cached(stream_id: int, offset: int, count: int = 1, payload_bytes: int = 100) -> CachedBatch:
    one = batch(stream_id, offset, count, payload_bytes)
    return CachedBatch(one, encode_frame_header(one))


def put(cache: TailCache, one: CachedBatch, position: int = 1) -> None:
    cache.reserve(one.charge_bytes)
    cache.put(one, position)


def test_a_batch_is_charged_its_payload_and_an_overhead():
    assert charge_of(100) == 100 + OVERHEAD
    assert cached(1, 0).charge_bytes == charge_of(100)


def test_room_counts_reserved_and_uncommitted_bytes():
    cache = TailCache(3 * charge_of(100))
    cache.reserve(charge_of(100))
    cache.reserve(charge_of(100))
    assert cache.has_room_for(charge_of(100))
    assert not cache.has_room_for(charge_of(101))
    cache.put(cached(1, 0), 1)
    assert cache.has_room_for(charge_of(100)), "a put moves the reservation, it does not add to it"
    assert not cache.has_room_for(charge_of(101))


def test_a_commit_makes_room_and_keeps_the_block_for_readers_until_the_room_is_needed():
    cache = TailCache(2 * charge_of(100))
    put(cache, cached(1, 0))
    put(cache, cached(1, 1))
    block = cache.seal()
    assert not cache.has_room_for(1)
    cache.commit(block)
    assert cache.has_room_for(2 * charge_of(100))
    assert len(cache.suffix(1, 0, 2)) == 2
    put(cache, cached(2, 0))
    assert cache.suffix(1, 0, 2) == ()
    assert cache.statistics().bytes_used == charge_of(100)


def test_blocks_that_are_not_committed_are_never_evicted():
    cache = TailCache(2 * charge_of(100))
    put(cache, cached(1, 0))
    cache.seal()
    put(cache, cached(1, 1))
    cache.reserve(
        charge_of(100)
    )  # more than there is room for: the engine would not, and still nothing is lost
    assert [one.base_offset for one in cache.suffix(1, 0, 2)] == [0, 1]


def test_the_oldest_committed_block_goes_first():
    cache = TailCache(3 * charge_of(100))
    for offset in range(3):
        put(cache, cached(1, offset))
        cache.commit(cache.seal())
    put(cache, cached(1, 3))
    assert [one.base_offset for one in cache.suffix(1, 0, 4)] == [1, 2, 3]


def test_whether_a_commit_is_still_to_come():
    cache = TailCache(10_000)
    put(cache, cached(1, 0))
    assert not cache.is_uploading
    block = cache.seal()
    assert cache.is_uploading
    cache.commit(block)
    assert not cache.is_uploading


def test_statistics():
    cache = TailCache(10_000)
    put(cache, cached(1, 0))
    block = cache.seal()
    put(cache, cached(2, 0))
    cache.commit(block)
    statistics = cache.statistics()
    assert statistics.bytes_used == 2 * charge_of(100)
    assert statistics.bytes_uncommitted == charge_of(100)
    assert statistics.bytes_max == 10_000
    assert statistics.blocks == 2
    assert statistics.streams == 2


def test_a_block_knows_its_size_its_streams_and_its_last_position():
    block = CacheBlock()
    assert block.is_empty
    block.put(cached(1, 0, 2, 100), 10)
    block.put(cached(2, 5, 1, 50), 20)
    block.put(cached(1, 2, 1, 1), 30)
    assert block.size_bytes == 151 + 3 * 72
    assert block.end_position == 30
    assert {stream_id: len(of) for stream_id, of in block.streams.items()} == {1: 2, 2: 1}


def test_a_hole_in_a_stream_of_a_block_is_a_bug():
    block = CacheBlock()
    block.put(cached(1, 0), 1)
    with pytest.raises(AssertionError):
        block.put(cached(1, 2), 2)


def test_the_life_of_a_block():
    block = CacheBlock()
    with pytest.raises(AssertionError):
        block.seal()
    block.put(cached(1, 0), 1)
    with pytest.raises(AssertionError):
        block.commit()
    block.seal()
    assert block.state is CacheBlockState.SEALED
    with pytest.raises(AssertionError):
        block.seal()
    block.commit()
    assert block.state is CacheBlockState.COMMITTED


def test_readers_are_given_what_the_tail_of_their_stream_has():
    cache = TailCache(10_000)
    for offset in range(3):
        put(cache, cached(1, offset))
    assert [one.base_offset for one in cache.window(1, 1, 3, 10_000)] == [1, 2]
    assert [one.base_offset for one in cache.window(1, 0, 3, 100)] == [0]
    assert cache.bytes_from(1, 1) == 200
    assert (cache.window(2, 0, 1, 100), cache.bytes_from(2, 0), cache.suffix(2, 0, 1)) == (None, None, ())


def test_a_stream_has_uncommitted_batches_until_all_its_blocks_are_committed():
    cache = TailCache(10_000)
    assert not cache.has_uncommitted(1)
    put(cache, cached(1, 0))
    assert cache.has_uncommitted(1) and not cache.has_uncommitted(2)
    first = cache.seal()
    put(cache, cached(2, 0))
    second = cache.seal()
    assert cache.has_uncommitted(1) and cache.has_uncommitted(2)
    cache.commit(second)
    assert cache.has_uncommitted(1) and not cache.has_uncommitted(2)
    cache.commit(first)
    assert not cache.has_uncommitted(1)


def test_a_committed_block_behind_one_that_is_not_stays():
    """Blocks are evicted in the order of their records, or a reader would find a hole."""
    cache = TailCache(2 * charge_of(100))
    put(cache, cached(1, 0))
    cache.seal()
    put(cache, cached(1, 1))
    cache.commit(cache.seal())
    cache.reserve(1)
    assert [one.base_offset for one in cache.suffix(1, 0, 2)] == [0, 1]


def test_no_more_is_evicted_than_the_room_that_is_needed():
    cache = TailCache(3 * charge_of(100))
    for offset in range(3):
        put(cache, cached(1, offset))
        cache.commit(cache.seal())
    cache.reserve(0)
    assert cache.statistics().blocks == 4
    cache.reserve(1)
    assert cache.statistics().blocks == 3
    cache.reserve(charge_of(100) - 1)
    assert cache.statistics().blocks == 3


def test_what_an_earlier_start_left_is_carried_into_the_active_block():
    block = CacheBlock()
    for one in (cached(1, 0), cached(1, 1), cached(2, 0)):
        block.put(one, 7)
    cache = TailCache(10_000)
    cache.carry(block)
    assert (cache.active.end_position, cache.statistics().bytes_uncommitted) == (7, 3 * charge_of(100))
    assert cache.has_room_for(10_000 - 3 * charge_of(100))
    assert len(cache.suffix(1, 0, 2)) == 2 and len(cache.suffix(2, 0, 1)) == 1


def test_a_stream_is_forgotten_with_its_last_batch():
    cache = TailCache(2 * charge_of(100))
    put(cache, cached(1, 0))
    put(cache, cached(2, 0))
    cache.commit(cache.seal())
    put(cache, cached(2, 1))
    assert cache.statistics().streams == 1
    assert cache.statistics().bytes_used == charge_of(100)


def test_an_empty_cache():
    statistics = TailCache(10).statistics()
    assert (statistics.bytes_used, statistics.bytes_uncommitted, statistics.blocks, statistics.streams) == (
        0,
        0,
        1,
        0,
    )
    assert TailCache(10).has_room_for(10) and not TailCache(10).has_room_for(11)


def test_committed_blocks_leave_at_once_when_that_is_asked_and_others_stay():
    cache = TailCache(100 * charge_of(100))
    put(cache, cached(1, 0))
    first = cache.seal()
    put(cache, cached(1, 1))
    second = cache.seal()
    put(cache, cached(2, 0))
    cache.commit(second)
    cache.evict_committed()
    assert cache.window(1, 0, 2, 1000) is not None, "the older block is still being uploaded"
    cache.commit(first)
    cache.evict_committed()
    assert cache.window(1, 0, 2, 1000) is None
    assert cache.window(2, 0, 1, 1000) is not None, "what is not committed is read here alone"
    assert cache.statistics().bytes_used == charge_of(100)
