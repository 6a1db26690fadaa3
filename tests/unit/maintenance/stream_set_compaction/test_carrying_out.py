"""What a round leaves behind when it does not come to its commit, or may not begin."""

import pytest

from siltstone.maintenance.stream_set_compaction.carrying_out import SourcesUnusable, TaskInputs
from siltstone.maintenance.stream_set_compaction.task_input import IterationInput
from siltstone.metadata.store_id import put_store_id
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.object_store.bucket_identity import mark
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, RunFailed, TaskFailure
from siltstone.runtime.randomness import seeded_randomness
from support.engine.faulty_store import Fault
from support.maintenance.compacting import RoundNotDone, compact, planned_round
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
    with pytest.raises(RoundNotDone, match="belongs to store"):
        compact(world.context, InProcessRunner(), SETTINGS)
    assert world.bucket_keys() == keys
    assert {each.state for each in world.metadata.image.objects.values()} == {ObjectState.COMMITTED}


def test_inputs_are_encoded_when_they_are_read() -> None:
    made: list[int] = []

    def make(number: int) -> IterationInput:
        made.append(number)
        raise LookupError(number)

    inputs = TaskInputs(3, make)
    assert len(inputs) == 3 and made == []
    for at, number in ((0, 0), (2, 2), (-1, 2)):
        with pytest.raises(LookupError):
            inputs[at]
        assert made.pop() == number
    with pytest.raises(LookupError):
        inputs[1:]
    assert made == [1]
    with pytest.raises(IndexError):
        inputs[3]


def test_sources_that_could_not_be_read_are_named_once_unless_they_are_gone(world: CompactionWorld) -> None:
    world.upload({0: [(0, 10, 100)]})
    (there,) = world.ids(ObjectKind.STREAM_SET_OBJECT)
    of_there, again, of_gone, of_none = (
        TaskFailure(reason=reason, object_id=object_id)
        for reason, object_id in (("cut", there), ("cut", there), ("gone", there + 7), ("no memory", None))
    )
    unusable = SourcesUnusable([of_there, again, of_gone, of_none])
    assert str(unusable) == "cut; cut; gone; no memory"
    assert unusable.failures == (again, of_gone, of_none)
    assert unusable.still_committed(world.metadata.image) == [again, of_none]
