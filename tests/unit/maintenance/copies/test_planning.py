"""The plan: which objects lack copies, and which buckets are listed."""

from siltstone.maintenance.copies.planning import LISTED_PREFIX, listings_due, objects_short
from siltstone.metadata.buckets import SetBucketState, SetWriteStrategy
from siltstone.metadata.commands import PutKey
from siltstone.model.buckets import BucketState, WriteStrategy
from siltstone.model.limits import DAY_MS
from support.maintenance.copied_world import CopiedWorld


def short(world: CopiedWorld) -> dict[int, tuple[int, ...]]:
    return {each.metadata.object_id: each.targets for each in objects_short(world.metadata.refresh())}


def test_objects_get_as_many_copies_as_the_strategy_says_in_its_order(world: CopiedWorld) -> None:
    one, two = world.upload({0: [(0, 5, 300)]}, {0: [(5, 9, 300)]})
    assert short(world) == {one: (1,), two: (1,)}
    world.set_strategy(3, 2)
    assert short(world) == {one: (1, 2), two: (1, 2)}
    world.metadata.execute(SetBucketState(1, BucketState.READ_ONLY))
    assert short(world) == {one: (2,), two: (2,)}, "as many as there are"
    world.metadata.execute(SetWriteStrategy(WriteStrategy()))
    assert short(world) == {}


def test_what_holds_nothing_live_or_is_relocated_anyhow_gets_none(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})
    world.metadata.execute(SetBucketState(0, BucketState.DRAINING))
    assert short(world) == {}
    world.metadata.execute(SetBucketState(0, BucketState.WRITABLE))
    assert short(world) == {one: (1,)}
    world.delete_stream(0)
    world.upload({1: [(0, 5, 300)]})
    assert one not in short(world) or world.found(one).ranges


def test_each_bucket_is_listed_once_a_day(world: CopiedWorld) -> None:
    def due(**options: bool) -> list[int]:
        return [*listings_due(world.metadata.refresh(), now_ms, **options)]

    now_ms = world.metadata.now_ms()
    assert due() == [0, 1, 2]
    world.metadata.execute(PutKey(f"{LISTED_PREFIX}1", str(now_ms).encode()))
    assert due() == [0, 2] and due(is_forced=True) == [0, 1, 2]
    now_ms += DAY_MS
    assert due() == [0, 1, 2]
