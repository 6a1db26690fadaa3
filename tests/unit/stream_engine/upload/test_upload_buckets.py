"""B04, B05, B06, B08 and B09 as the upload pipeline sees them, in virtual time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from siltstone.metadata.buckets import SetBucketState
from siltstone.model.buckets import BucketState
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.health import WITHOUT_SUCCESS_MS
from siltstone.object_store.port import StoreDenied, StoreTransient
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.upload.upload_buckets import RETURN_AFTER_MS
from support.engine.upload_world import NODE, World
from support.scenarios import scenario


def in_world(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(scenario(World()), 60)

    asyncio.run(main())


@scenario(in_world)
async def test_b04_a_put_that_fails_is_repeated_in_another_bucket_and_its_id_released(world: World) -> None:
    world.stores[0].trouble = StoreTransient("it went away")
    world.submit()
    assert await world.passing(lambda: world.end == 1) <= 20_000
    assert world.buckets_of(ObjectState.COMMITTED) == [1]
    assert world.buckets_of(ObjectState.DESTROYED) == [0]
    assert not world.failures


@scenario(in_world)
async def test_b05_a_put_that_was_given_up_and_landed_is_destroyed_and_the_other_is_read(
    world: World,
) -> None:
    world.stores[0].is_silent = True
    world.submit()
    assert WITHOUT_SUCCESS_MS <= await world.passing(lambda: world.end == 1) <= 20_000
    (landed,), (kept,) = ([each.key for each in store.list()] for store in world.stores)
    by_key = {object_key(object_id): each for object_id, each in world.image.objects.items()}
    assert by_key[landed].state is ObjectState.DESTROYED and by_key[landed].bucket_id == 0
    assert by_key[kept].state is ObjectState.COMMITTED and by_key[kept].bucket_id == 1


@scenario(in_world)
async def test_b06_writes_return_to_the_first_bucket_a_minute_after_it_takes_writes_again(
    world: World,
) -> None:
    tasks = TaskGroup("test", world.failures.append)
    tasks.start(
        "probe", world.pipeline.upload_buckets.probe_from_time_to_time(world, NODE, tasks)  # type: ignore[arg-type]
    )  # fmt: skip
    world.stores[0].trouble = StoreTransient("out")
    world.submit()
    await world.passing(lambda: world.end == 1)
    out_until_ms = world.clock.monotonic_ms() + 5 * 60_000
    await world.passing(lambda: world.clock.monotonic_ms() >= out_until_ms)
    world.stores[0].trouble = None

    breaker = world.buckets.breaker(0)
    await world.passing(lambda: not breaker.is_open)
    world.submit()
    await world.passing(lambda: world.end == 2)
    assert world.buckets_of(ObjectState.COMMITTED) == [1, 1], "a bucket that comes and goes moves no writes"
    closed_ms = world.clock.monotonic_ms()
    await world.passing(lambda: world.clock.monotonic_ms() >= closed_ms + RETURN_AFTER_MS)
    world.submit()
    await world.passing(lambda: world.end == 3)
    assert world.buckets_of(ObjectState.COMMITTED) == [1, 1, 0]
    await tasks.cancel()
    assert not world.failures


@scenario(in_world)
async def test_b08_a_bucket_that_denies_writes_gets_one_error_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.stores[0].trouble = StoreDenied("read only")
    with caplog.at_level(logging.ERROR):
        for end in (1, 2, 3):
            world.submit()
            await world.passing(lambda end=end: world.end == end)  # type: ignore[misc]
    assert world.buckets_of(ObjectState.COMMITTED) == [1, 1, 1]
    assert world.stores[0].puts == 1, "the bucket is not tried with each object"
    (line,) = [each.message for each in caplog.records]
    assert "takes no writes" in line and "read only" in line


@scenario(in_world)
async def test_b09_with_all_buckets_out_uploads_wait_and_go_on_by_themselves(world: World) -> None:
    for store in world.stores:
        store.trouble = StoreTransient("out")
    world.submit()
    begun_ms = world.clock.monotonic_ms()
    await world.passing(lambda: world.clock.monotonic_ms() >= begun_ms + 60_000)
    assert world.end == 0 and world.pipeline.statistics().outage is not None
    world.stores[1].trouble = None
    await world.passing(lambda: world.end == 1)
    assert not world.failures


@scenario(in_world)
async def test_a_bucket_that_stops_being_writable_gets_no_more_objects(world: World) -> None:
    world.client.execute(SetBucketState(0, BucketState.READ_ONLY))
    world.submit()
    await world.passing(lambda: world.end == 1)
    assert world.buckets_of(ObjectState.COMMITTED) == [1] and world.stores[0].puts == 0
