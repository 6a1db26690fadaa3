"""B10 and B13 as the upload pipeline sees them, in virtual time: copies are put side by side, and committed when enough
are there."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

import pytest

from siltstone.metadata.buckets import AddBucket, SetBucketState, SetWriteStrategy
from siltstone.metadata.commands import ExpireObjects
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.buckets import BucketState, StrategyType, WriteStrategy
from siltstone.model.limits import DAY_MS
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.health import WITHOUT_SUCCESS_MS
from siltstone.object_store.port import StoreDenied, StoreTransient
from support.engine.upload_world import Bucket, World


class Replicated(World):
    def __init__(self, copies: int, copies_min: int = 0, buckets: int = 2) -> None:
        super().__init__()
        for number in range(2, buckets):
            self.stores.append(Bucket(self.clock, str(number)))
            self.buckets._stores[number] = self.stores[-1]
            self.client.execute(AddBucket(f"memory:{number}"))
            self.client.execute(SetBucketState(number, BucketState.WRITABLE))
        strategy = WriteStrategy(StrategyType.REPLICATION, (), copies, copies_min)
        self.client.execute(SetWriteStrategy(strategy))

    @property
    def committed(self) -> list[ObjectMetadata]:
        found = sorted(self.image.objects.items())
        return [each for _, each in found if each.state is ObjectState.COMMITTED]

    def places(self) -> list[tuple[int, ...]]:
        return [each.bucket_ids for each in self.committed]

    def keys(self) -> list[list[str]]:
        return [[each.key for each in store.list()] for store in self.stores]


def play(world_of: Callable[[], Replicated], scenario: Callable[[Replicated], Awaitable[None]]) -> None:
    async def main() -> None:
        world = world_of()
        await asyncio.wait_for(scenario(world), 60)
        await world.pipeline.abort()
        assert not world.failures

    asyncio.run(main())


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.ERROR):
        yield lambda: [each.message for each in caplog.records]


def test_an_object_is_in_every_bucket_before_it_is_committed() -> None:
    async def scenario(world: Replicated) -> None:
        world.submit()
        await world.passing(lambda: world.end == 1)
        assert world.places() == [(0, 1)]
        key = object_key(world.committed[0].object_id)
        assert world.keys() == [[key], [key]]
        assert world.stores[0].get_range(key, 0, 10) == world.stores[1].get_range(key, 0, 10)

    play(lambda: Replicated(2), scenario)


def test_b13_with_all_copies_wanted_writes_stop_and_the_text_names_the_bucket(
    errors: Callable[[], list[str]],
) -> None:
    async def scenario(world: Replicated) -> None:
        world.stores[1].trouble = StoreTransient("cable cut")
        world.submit()
        await world.passing(lambda: world.pipeline.outage is not None)
        outage = world.pipeline.outage
        assert outage is not None and "bucket 1 (memory:1) takes no writes" in outage.cause
        assert "in 2 buckets" in outage.cause and "cable cut" in outage.cause
        later = world.clock.monotonic_ms() + 60_000
        await world.passing(lambda: world.clock.monotonic_ms() >= later)
        assert world.end == 0 and world.places() == []
        world.stores[1].trouble = None
        await world.passing(lambda: world.end == 1)
        assert world.places() == [(0, 1)] and world.pipeline.outage is None

    play(lambda: Replicated(2), scenario)
    assert any("Nothing is uploaded until it does" in each for each in errors())


def test_b10_what_could_not_be_put_is_asked_for_again_in_the_same_bucket_only() -> None:
    async def scenario(world: Replicated) -> None:
        world.stores[1].trouble = StoreTransient("uncertain")
        world.submit()
        await world.passing(lambda: world.stores[1].puts >= 3)
        world.stores[1].trouble = None
        await world.passing(lambda: world.end == 1)
        assert world.stores[0].puts == 1, "where it stands it is not put again"
        assert len(world.image.objects) == 1, "under one id"

    play(lambda: Replicated(2), scenario)


def test_b10_the_commit_names_the_copies_that_stand_once_the_others_are_given_up(
    errors: Callable[[], list[str]],
) -> None:
    async def scenario(world: Replicated) -> None:
        world.stores[0].is_silent = True
        world.submit()
        took_ms = await world.passing(lambda: world.end == 1)
        assert WITHOUT_SUCCESS_MS <= took_ms <= 20_000
        (one,) = world.committed
        assert (one.bucket_ids, one.uncertain) == ((1, 2), (0,))
        world.submit()
        assert await world.passing(lambda: world.end == 2) < 1_000, "the next one does not wait for it"
        assert world.places() == [(1, 2), (1, 2)]

    play(lambda: Replicated(3, 2, buckets=3), scenario)
    assert [each for each in errors() if "New objects have 2 copies until it does" in each]


def test_with_a_bucket_to_spare_the_object_goes_there_under_another_id() -> None:
    async def scenario(world: Replicated) -> None:
        world.stores[0].trouble = StoreDenied("read only")
        world.submit()
        assert await world.passing(lambda: world.end == 1) < 20_000
        assert world.places() == [(1, 2)]
        released = [each for each in world.image.objects.values() if each.state is ObjectState.DESTROYED]
        assert [each.every_bucket_id for each in released] == [(0, 1)], "deleted in both"

    play(lambda: Replicated(2, buckets=3), scenario)


def test_one_copy_is_enough_if_the_store_says_so() -> None:
    async def scenario(world: Replicated) -> None:
        world.stores[0].trouble = StoreDenied("read only")
        for end in (1, 2):
            world.submit()
            await world.passing(lambda end=end: world.end == end)  # type: ignore[misc]
        assert world.places() == [(1,), (1,)]

    play(lambda: Replicated(2, 1), scenario)


def test_objects_given_up_during_an_outage_are_deleted_in_every_bucket() -> None:
    async def scenario(world: Replicated) -> None:
        world.stores[1].trouble = StoreTransient("out")
        world.submit()
        await world.passing(lambda: len(world.keys()[0]) == 1)
        world.clock.advance_ms(DAY_MS)
        world.client.execute(ExpireObjects(10))
        assert [each.every_bucket_id for each in world.image.objects.values()][:1] == [(0, 1)]
        world.stores[1].trouble = None
        await world.passing(lambda: world.end == 1)
        assert world.places() == [(0, 1)]

    play(lambda: Replicated(2), scenario)


def test_fewer_buckets_than_copies_wait_and_say_what_to_do() -> None:
    async def scenario(world: Replicated) -> None:
        world.pipeline.upload_buckets._guards = {0: object()}  # type: ignore[dict-item]  # bucket 1 is not checked yet
        world.submit()
        await world.passing(lambda: world.pipeline.outage is not None)
        outage = world.pipeline.outage
        assert outage is not None and "each object has to be in 2 buckets" in outage.cause
        world.pipeline.upload_buckets._guards = {}
        await world.passing(lambda: world.end == 1)

    play(lambda: Replicated(2), scenario)
