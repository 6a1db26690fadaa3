"""What a round leaves behind when it does not come to its commit, or may not begin."""

import pytest

from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.tasks.runner import InProcessRunner, RunFailed
from siltstone.metadata.store_id import put_store_id
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.bucket_identity import BucketOfAnotherStore, mark
from siltstone.runtime.randomness import seeded_randomness
from support.engine.faulty_store import Fault
from support.maintenance.compacting import compact, planned_round
from support.maintenance.compaction_sources import F1
from support.maintenance.compaction_world import CompactionWorld, scaled

SETTINGS = CompactionSettings(
    split_size_bytes=400, memory_bytes=1200, part_bytes_min=1, merged_block_bytes_max=1_000_000
)


def test_rule_5_a_round_that_failed_deletes_no_object(world: CompactionWorld) -> None:
    """Attempts of its tasks may still run and put them again after they were deleted: the sweep comes when their time
    limit has passed."""
    world.upload(*scaled(F1, 4))
    iterations = planned_round(world.context, SETTINGS)
    reads_before = 3 + len(iterations.iteration(0).reads)
    world.store.fail_next(*([None] * reads_before), Fault.BEFORE, call="get_range")
    world.store.history.clear()
    with pytest.raises(RunFailed):
        compact(world.context, InProcessRunner(), SETTINGS)
    written = {
        object_key(each.object_id)
        for each in world.metadata.image.objects.values()
        if each.state is ObjectState.PREPARED
    } & world.bucket_keys()
    calls = [name for name, _ in world.store.history]
    assert len(written) == calls.count("put") > 0
    assert "delete" not in calls


def test_a_round_neither_prepares_nor_uploads_into_a_bucket_of_another_store(world: CompactionWorld) -> None:
    """Its objects are named by ids that the other store has given, too."""
    world.upload(*scaled(F1, 4))
    world.metadata.execute(put_store_id(seeded_randomness(1)))
    mark(world.store, "f" * 32)
    keys = world.bucket_keys()
    with pytest.raises(BucketOfAnotherStore):
        compact(world.context, InProcessRunner(), SETTINGS)
    assert world.bucket_keys() == keys
    assert {each.state for each in world.metadata.image.objects.values()} == {ObjectState.COMMITTED}
