import asyncio

import pytest

from siltstone.model.objects import object_key
from siltstone.object_store.buckets import Buckets, UnknownBucket
from siltstone.object_store.port import ObjectNotFound, StoreTransient
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.reading.index_cache import INDEX_OVERHEAD_BYTES, IndexCache
from support.engine.batches import batch
from support.engine.committed_world import CommittedWorld, GatedCalls, settle
from support.scenarios import in_loop

CHARGE = INDEX_OVERHEAD_BYTES + 72


def world(count: int = 3) -> CommittedWorld:
    made = CommittedWorld()
    for object_id in range(count):
        made.commit(object_id, [batch(1, object_id)])
    return made


def cache_of(of: CommittedWorld, bytes_max: int = 10 * CHARGE, calls=None) -> IndexCache:
    def fail(failure: BaseException) -> None:
        raise AssertionError(failure)

    return IndexCache(
        Buckets(of.stores), calls or InlineCalls(), TaskGroup("test", fail), bytes_max, ManualClock()
    )


@in_loop
async def test_indexes_come_by_object_id_and_are_read_once() -> None:
    of = world()
    cache = cache_of(of)
    for _ in range(2):
        found = await cache.get_leading(of.objects.values())
        assert {object_id: index[0].start_offset for object_id, index in found.items()} == {
            0: 0,
            1: 1,
            2: 2,
        }
    assert len(of.store.gets) == 3
    statistics = cache.statistics()
    assert (statistics.loads, statistics.hits, statistics.indexes) == (3, 3, 3)


@in_loop
async def test_a_hundred_at_once_share_one_request() -> None:
    of = world(1)
    cache = cache_of(of)
    found = await asyncio.gather(*(cache.get_leading([of.objects[0]]) for _ in range(100)))
    assert all(one[0] is found[0][0] for one in found)
    assert len(of.store.gets) == 1


@in_loop
async def test_different_indexes_are_read_side_by_side() -> None:
    of = world(3)
    calls = GatedCalls()
    cache = cache_of(of, calls=calls)
    wanted = asyncio.ensure_future(cache.get_leading(of.objects.values()))
    await settle()
    assert calls.waiting == 3
    calls.open()
    assert len(await wanted) == 3


@in_loop
async def test_bytes_never_pass_the_limit_and_the_least_recently_used_goes() -> None:
    of = world(6)
    cache = cache_of(of, bytes_max=3 * CHARGE)
    for object_id in (0, 1, 2, 0, 3, 4):
        await cache.get_leading([of.objects[object_id]])
        assert cache.statistics().bytes_used <= 3 * CHARGE
    loads = cache.statistics().loads
    await cache.get_leading([of.objects[0]])
    assert cache.statistics().loads == loads
    await cache.get_leading([of.objects[1]])
    assert cache.statistics().loads == loads + 1


@in_loop
async def test_an_index_larger_than_the_cache_is_given_and_not_kept() -> None:
    of = world(1)
    cache = cache_of(of, bytes_max=10)
    assert len((await cache.get_leading([of.objects[0]]))[0]) == 1
    assert cache.statistics().indexes == 0
    assert cache.statistics().bytes_used == 0


@in_loop
async def test_failure_reaches_all_who_wait_and_is_forgotten() -> None:
    of = world(1)
    cache = cache_of(of)

    def fail(_key: str) -> None:
        raise StoreTransient("not now")

    of.store.before_get = fail
    results = await asyncio.gather(
        *(cache.get_leading([of.objects[0]]) for _ in range(5)), return_exceptions=True
    )
    assert [type(one) for one in results] == [StoreTransient] * 5
    assert len(of.store.gets) == 1
    of.store.before_get = lambda _: None
    assert len(await cache.get_leading([of.objects[0]])) == 1


@in_loop
async def test_a_gone_object_and_an_unknown_bucket_are_named() -> None:
    of = world(1)
    gone = of.objects[0]
    of.store.delete([object_key(0)])
    with pytest.raises(ObjectNotFound):
        await cache_of(of).get_leading([gone])
    elsewhere = CommittedWorld(bucket_ids=[0, 9]).commit(5, [batch()], bucket_id=9)
    with pytest.raises(UnknownBucket):
        await cache_of(of).get_leading([elsewhere])


@pytest.mark.parametrize("gone", [1, 2])
@in_loop
async def test_the_indexes_before_one_that_cannot_be_loaded_are_returned(gone) -> None:
    of = world(4)
    of.store.delete([object_key(gone)])
    cache = cache_of(of)
    assert list(await cache.get_leading(of.objects.values())) == list(range(gone))
    with pytest.raises(ObjectNotFound):
        await cache.get_leading([of.objects[gone], of.objects[3]])


@in_loop
async def test_an_index_that_was_forgotten_is_loaded_again() -> None:
    of = world(2)
    cache = cache_of(of)
    await cache.get_leading(of.objects.values())
    cache.forget(0)
    cache.forget(7)
    assert cache.statistics().indexes == 1
    await cache.get_leading(of.objects.values())
    assert (cache.statistics().loads, cache.statistics().indexes) == (3, 2)
    cache.forget(0)
    cache.forget(1)
    assert cache.statistics().bytes_used == 0


@in_loop
async def test_giving_up_the_wait_does_not_end_the_load() -> None:
    of = world(1)
    calls = GatedCalls()
    cache = cache_of(of, calls=calls)
    first = asyncio.ensure_future(cache.get_leading([of.objects[0]]))
    second = asyncio.ensure_future(cache.get_leading([of.objects[0]]))
    await settle()
    first.cancel()
    calls.open()
    assert len(await second) == 1
    assert first.cancelled()
