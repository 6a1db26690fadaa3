"""Whose a bucket is: a node that starts, and one to whose store a bucket is added (B15, B18)."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from random import Random

import pytest

from siltstone.metadata.buckets import AddBucket, RemoveBucket, SetBucketState, bucket_list_of
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store_id import put_store_id
from siltstone.model.buckets import BucketState
from siltstone.model.objects import object_key
from siltstone.object_store.bucket_identity import (
    BucketExchanged,
    BucketOfAnotherStore,
    mark,
    marked_identity,
)
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.health import PROBE_PREFIX
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.server.bucket_identity import (
    ADDED_INTERVAL_MS,
    REFUSED_INTERVAL_MS,
    claim_added_buckets,
    claim_bucket,
    claim_buckets,
    refuse_place,
    release_place,
)

OTHER_STORE = "f" * 32
_WORLDS = itertools.count()


class World:
    """A store in memory. ``place``: a bucket in memory, which every process of this test finds by its URL."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.client = MetadataClient(MemoryLog(), self.clock, Random(1))
        self.store_id = self.client.execute(put_store_id(Random(1))).decode()
        self._mine = next(_WORLDS)

    def place(self, name: str) -> MemoryStore:
        return MemoryStore.named(self.name_of(name), self.clock)

    def name_of(self, name: str) -> str:
        return f"world-{self._mine}-{name}"

    def buckets(self, **places: str) -> Buckets:
        """``_0="a"``: bucket 0 is at place ``a``."""
        opened = Buckets({int(key[1:]): self.place(name) for key, name in places.items()})
        opened.follow(lambda: bucket_list_of(self.client.image))
        return opened

    def claim(self, **places: str) -> dict[int, BucketGuard]:
        return claim_buckets(self.buckets(**places), self.client)


@pytest.fixture
def world() -> World:
    return World()


def test_a_start_marks_each_bucket_with_its_number_and_lists_it(world: World) -> None:
    guards = world.claim(_0="a", _1="b")
    assert sorted(guards) == [0, 1]
    assert [marked_identity(world.place(name)).bucket_id for name in "ab"] == [None, 1]  # type: ignore[union-attr]
    listed = bucket_list_of(world.client.image)
    assert [(each.id, each.state) for each in listed.buckets] == [
        (0, BucketState.WRITABLE), (1, BucketState.READ_ONLY),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "places", [{"_0": "b", "_1": "a"}, {"_0": "a", "_1": "a"}, {"_0": "b"}, {"_0": "a", "_2": "b"}]
)
def test_b18_urls_that_were_swapped_are_refused_and_nothing_is_written(
    world: World, places: dict[str, str]
) -> None:
    world.claim(_0="a", _1="b")
    before = {name: [each.key for each in world.place(name).list()] for name in "ab"}
    version = world.client.image.version
    with pytest.raises(BucketOfAnotherStore, match="Nothing was written"):
        world.claim(**places)
    assert {name: [each.key for each in world.place(name).list()] for name in "ab"} == before
    assert world.client.refresh().version == version


def test_b18_two_numbers_on_one_place_are_refused_at_the_first_start(world: World) -> None:
    with pytest.raises(BucketExchanged, match="buckets 0 and 1 are both at memory:world"):
        world.claim(_0="a", _1="a")
    assert not list(world.place("a").list())


def added(world: World, name: str) -> int:
    return world.client.execute(AddBucket(world.place(name).url)).id


def test_a_bucket_that_is_added_is_marked_and_guarded(world: World) -> None:
    world.claim(_0="a")
    bucket_id = added(world, "b")
    claim_bucket(world.buckets(_0="a", _1="b"), world.client, bucket_id)
    assert marked_identity(world.place("b")).bucket_id == 1  # type: ignore[union-attr]


def in_a_node(world: World, buckets: Buckets, scenario: Callable[[dict[int, BucketGuard]], object]) -> None:
    async def passes(duration_ms: float) -> None:
        world.clock.advance_ms(duration_ms)
        for _ in range(20):
            await asyncio.sleep(0)

    async def main() -> None:
        guards = claim_buckets(buckets, world.client)
        claiming = asyncio.ensure_future(
            claim_added_buckets(buckets, world.client, guards, InlineCalls(), world.clock)
        )
        await passes(0)
        for wait_ms in scenario(guards):  # type: ignore[attr-defined]
            await passes(wait_ms)
        claiming.cancel()

    asyncio.run(main())


def test_b15_a_node_takes_a_bucket_once_it_is_writable(world: World) -> None:
    def scenario(guards: dict[int, BucketGuard]):
        bucket_id = added(world, "b")
        yield 2 * ADDED_INTERVAL_MS
        assert bucket_id not in guards, "it may be another store's yet"
        world.client.execute(SetBucketState(bucket_id, BucketState.WRITABLE))
        yield ADDED_INTERVAL_MS
        assert bucket_id in guards

    in_a_node(world, world.buckets(_0="a"), scenario)


def test_a_bucket_that_is_refused_is_said_once_and_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    mark(world.place("b"), OTHER_STORE)

    def scenario(guards: dict[int, BucketGuard]):
        bucket_id = added(world, "b")
        world.client.execute(SetBucketState(bucket_id, BucketState.WRITABLE))
        yield ADDED_INTERVAL_MS
        for _ in range(3):
            yield REFUSED_INTERVAL_MS
        assert bucket_id not in guards
        world.place("b").delete(["siltstone-store.json"])
        yield REFUSED_INTERVAL_MS
        assert bucket_id in guards

    in_a_node(world, world.buckets(_0="a"), scenario)
    said = [each.getMessage() for each in caplog.records if "bucket 1" in each.getMessage()]
    assert len(said) == 2 and OTHER_STORE in said[0] and said[1].startswith("bucket 1 was added: memory:")


def test_a_place_is_refused_before_it_is_listed(world: World) -> None:
    world.claim(_0="a")
    refuse_place(world.place("new"), world.store_id)
    mark(world.place("other"), OTHER_STORE)
    world.place("unmarked").put(object_key(7), [b"an object"])
    for name, words in [
        ("a", "is bucket 0 already"),
        ("other", OTHER_STORE),
        ("unmarked", "holds objects of a store"),
    ]:
        with pytest.raises(BucketOfAnotherStore, match=words):
            refuse_place(world.place(name), world.store_id)


def test_a_bucket_that_was_removed_is_not_written_to_and_its_place_can_be_used_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    buckets = world.buckets(_0="a")

    def scenario(guards: dict[int, BucketGuard]):
        first = added(world, "b")
        world.client.execute(SetBucketState(first, BucketState.WRITABLE))
        yield ADDED_INTERVAL_MS
        assert first in guards
        guards[first].note(world.client.image)
        world.client.execute(SetBucketState(first, BucketState.DRAINING))
        world.client.execute(RemoveBucket(first))
        yield ADDED_INTERVAL_MS
        assert first not in guards
        world.place("b").put("notes.txt", [b"of somebody"])
        world.place("b").put(PROBE_PREFIX + "of a node that died", [b"."])
        assert release_place(world.place("b")) == 1
        assert [each.key for each in world.place("b").list()] == ["notes.txt"]
        again = added(world, "b")
        world.client.execute(SetBucketState(again, BucketState.WRITABLE))
        yield ADDED_INTERVAL_MS
        assert again in guards and again != first, caplog.text

    in_a_node(world, buckets, scenario)
    claim_buckets(world.buckets(_0="a", _1="b"), world.client)
    assert "bucket 1 was removed from the store: its URL in the settings is not used" in caplog.text
