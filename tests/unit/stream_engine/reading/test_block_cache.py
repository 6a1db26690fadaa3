from siltstone.stream_engine.reading.block_cache import (
    BLOCK_OVERHEAD_BYTES,
    FINISHED_SHARE,
    Block,
    BlockCache,
)
from support.engine.batches import batch, build_object, frames


class Fetched:
    """Stands for a read-ahead: counts what becomes of its blocks."""

    def __init__(self) -> None:
        self.used = 0
        self.wasted = 0

    def block_was_used(self) -> None:
        self.used += 1

    def block_was_wasted(self) -> None:
        self.wasted += 1


CHARGE = 1000


def block(object_id: int, charge_bytes: int = CHARGE, fetched_for: Fetched | None = None) -> Block:
    of = [batch(1, object_id, 1, charge_bytes - BLOCK_OVERHEAD_BYTES - 72)]
    made = Block(object_id, build_object(of).entries[0], frames(of))
    made.fetched_for = fetched_for
    assert made.charge_bytes == charge_bytes
    return made


def cached(cache: BlockCache) -> list[int]:
    return [object_id for object_id in range(100) if (object_id, 0) in cache]


def filled(count: int, capacity: int) -> BlockCache:
    cache = BlockCache(capacity * CHARGE)
    for object_id in range(count):
        cache.put(block(object_id))
    return cache


def test_a_block_comes_back():
    cache = BlockCache(10_000)
    one = block(1)
    cache.put(one)
    assert cache.get((1, 0)) is one
    assert cache.get((2, 0)) is None
    assert cache.get((1, 0)) is one
    statistics = cache.statistics()
    assert (statistics.hits, statistics.misses, statistics.blocks) == (2, 1, 1)
    assert statistics.bytes_used == CHARGE


def test_the_least_recently_used_goes_first():
    cache = filled(5, capacity=5)
    cache.get((0, 0))
    cache.put(block(5))
    cache.put(block(6))
    assert cached(cache) == [0, 3, 4, 5, 6]


def test_bytes_never_pass_the_limit():
    cache = BlockCache(5 * CHARGE)
    for object_id in range(60):
        cache.put(block(object_id, charge_bytes=700 + 100 * (object_id % 9)))
        statistics = cache.statistics()
        assert statistics.bytes_used <= 5 * CHARGE
        assert statistics.bytes_used == sum(700 + 100 * (one % 9) for one in range(60) if (one, 0) in cache)
    assert statistics.evictions == 60 - statistics.blocks


def test_tiny_blocks_are_charged_their_overhead():
    cache = BlockCache(10 * (BLOCK_OVERHEAD_BYTES + 72))
    for object_id in range(50):
        cache.put(block(object_id, charge_bytes=BLOCK_OVERHEAD_BYTES + 72))
    assert cache.statistics().blocks == 10


def test_a_block_larger_than_the_cache_is_not_kept_and_evicts_nothing():
    cache = filled(3, capacity=3)
    fetched = Fetched()
    cache.put(block(50, charge_bytes=3 * CHARGE + 1, fetched_for=fetched))
    assert cached(cache) == [0, 1, 2]
    assert fetched.wasted == 1


def test_putting_a_block_again_changes_nothing():
    cache = filled(3, capacity=3)
    cache.put(block(1))
    assert cache.statistics().bytes_used == 3 * CHARGE


def test_finished_blocks_go_first_the_oldest_of_them_before_the_others():
    cache = filled(16, capacity=16)
    for object_id in (9, 4):
        cache.mark_finished(cache.get((object_id, 0)))
    cache.put(block(20))
    assert 9 not in cached(cache)
    cache.put(block(21))
    assert 4 not in cached(cache)
    cache.put(block(22))
    assert 0 not in cached(cache)


def test_finished_blocks_take_only_their_share():
    """A sequential reader does not push everybody else's blocks out, nor fill the cache with what nobody wants."""
    capacity = 4 * FINISHED_SHARE
    cache = filled(capacity, capacity)
    for object_id in range(10, 20):
        cache.mark_finished(cache.get((object_id, 0)))
    assert [one for one in cached(cache) if 10 <= one < 20] == [16, 17, 18, 19]
    assert cache.statistics().bytes_used == (capacity - 6) * CHARGE


def test_a_finished_block_that_is_wanted_again_is_kept_again():
    cache = filled(16, capacity=16)
    for object_id in (5, 6):
        cache.mark_finished(cache.get((object_id, 0)))
    cache.get((5, 0))
    cache.put(block(20))
    assert 5 in cached(cache)
    assert 6 not in cached(cache)


def test_finishing_an_evicted_block_is_nothing():
    cache = BlockCache(CHARGE)
    gone = block(1)
    cache.put(gone)
    cache.put(block(2))
    cache.mark_finished(gone)
    assert cached(cache) == [2]
    assert cache.statistics().bytes_used == CHARGE


def test_the_read_ahead_hears_once_of_each_block():
    cache = BlockCache(2 * CHARGE)
    fetched = Fetched()
    read, unread = block(1, fetched_for=fetched), block(2, fetched_for=fetched)
    cache.put(read)
    cache.put(unread)
    cache.mark_read(read)
    cache.mark_read(read)
    cache.put(block(3))
    cache.put(block(4))
    assert (fetched.used, fetched.wasted) == (1, 1)
    statistics = cache.statistics()
    assert (
        statistics.read_ahead_bytes_used
        == statistics.read_ahead_bytes_wasted
        == CHARGE - BLOCK_OVERHEAD_BYTES
    )
