"""Staged objects that nobody needs any more are deleted a day later; those of an unfinished batch stay."""

import pytest

from siltstone.metadata.sinks import (
    STAGING_KEPT_MS,
    BeginSinkBatch,
    CommitSinkBatch,
    SinkBatch,
    SinkState,
    batch_folder,
)
from siltstone.metadata.store_id import put_store_id
from siltstone.object_store.bucket_identity import BucketOfAnotherStore, mark
from siltstone.runtime.randomness import seeded_randomness
from siltstone.sinking.staged_sweep import StagedSweepReport, has_sinks, sweep_staged
from support.maintenance.maintained_store import MaintainedStore


@pytest.fixture
def world() -> MaintainedStore:
    return MaintainedStore()


def begin(world: MaintainedStore, sink_id: str, batch_id: int) -> None:
    batch = SinkBatch("relay", "query", batch_id, SinkState.INTENT, "driver", 1, "", 0, 0, "value binary")
    world.metadata.execute(BeginSinkBatch(sink_id, batch, world.clock.now_ms()))


def left(world: MaintainedStore) -> list[str]:
    return [each.key for each in world.store.list()]


def test_what_is_younger_than_a_day_and_what_is_not_staged_stays(world: MaintainedStore) -> None:
    world.store.put("00/objects/x", [b"1"])
    world.store.put(f"{batch_folder('out', 0)}a", [b"12345"])
    world.clock.advance_ms(STAGING_KEPT_MS)
    nothing = sweep_staged(world.context, 0)
    assert (nothing.objects, nothing.size_bytes) == (0, 0)
    world.store.put(f"{batch_folder('out', 0)}b", [b"1"])
    world.clock.advance_ms(1)
    assert sweep_staged(world.context, 0) == StagedSweepReport(1, 5)
    assert left(world) == ["00/objects/x", f"{batch_folder('out', 0)}b"]
    assert sweep_staged(world.context, 0, kept_ms=0) == StagedSweepReport(1, 1)


def test_an_unfinished_batch_keeps_its_folder_and_no_other(world: MaintainedStore) -> None:
    for sink_id, batch_id in (("out", 1), ("out", 11), ("other", 1), ("over", 1)):
        world.store.put(f"{batch_folder(sink_id, batch_id)}part", [b"1"])
    begin(world, "out", 1)
    begin(world, "over", 1)
    world.metadata.execute(CommitSinkBatch("over", 1, "driver", ()))
    world.clock.advance_ms(10 * STAGING_KEPT_MS)
    assert sweep_staged(world.context, 0).objects == 3
    assert left(world) == ["staging/out/1/part"]
    world.metadata.execute(CommitSinkBatch("out", 1, "driver", ()))
    assert sweep_staged(world.context, 0).objects == 1


def test_a_batch_that_begins_while_the_objects_are_listed_keeps_them(world: MaintainedStore) -> None:
    world.store.put(f"{batch_folder('out', 1)}part", [b"1"])
    world.clock.advance_ms(2 * STAGING_KEPT_MS)
    world.store.after = lambda name, key: begin(world, "out", 1) if name == "list" else None
    assert sweep_staged(world.another_context(), 0).objects == 0


def test_many_objects_are_deleted_in_several_requests(world: MaintainedStore) -> None:
    for number in range(7):
        world.store.put(f"staging/out/0/{number}", [b"1"])
    world.clock.advance_ms(STAGING_KEPT_MS + 1)
    assert sweep_staged(world.context, 0, keys_max=3) == StagedSweepReport(7, 7)
    assert [len(keys) for keys in world.store.details("delete")] == [3, 3, 1]  # type: ignore[arg-type]
    assert left(world) == []


def test_nothing_is_deleted_from_the_bucket_of_another_store(world: MaintainedStore) -> None:
    world.store.put("staging/out/0/a", [b"1"])
    world.clock.advance_ms(STAGING_KEPT_MS + 1)
    world.metadata.execute(put_store_id(seeded_randomness(1)))
    mark(world.store, "f" * 32)
    with pytest.raises(BucketOfAnotherStore):
        sweep_staged(world.context, 0)
    assert "staging/out/0/a" in left(world)


def test_a_store_without_sinks_is_known_without_a_listing(world: MaintainedStore) -> None:
    assert not has_sinks(world.context)
    begin(world, "out", 1)
    assert has_sinks(world.context)
