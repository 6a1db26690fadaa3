"""The kind copies from plan to commit: B11, B14, B24 and B26."""

from typing import Any

import pytest

from siltstone.carrying.pipeline.kind import Outcome, Scope
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.copies.kind import CopyRepair
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import CommitCompaction, CommitUpload, NewObject, PrepareObjects, StartJob
from siltstone.metadata.copies import AddCopies
from siltstone.model.limits import DAY_MS, GRACE_PERIOD_MS, HOUR_MS
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_formats.object_layout import ranges_of_entries
from siltstone.offline.tasks import whole_copies
from support.engine.faulty_store import Fault
from support.maintenance.compaction_world import encode
from support.maintenance.copied_world import SETTINGS, CopiedWorld
from support.maintenance.interrupting import Interrupting


def outcomes(report: RunReport) -> dict[str, Outcome]:
    return {each.name: each.outcome for each in report.units}


def of_objects(report: RunReport) -> list[Outcome]:
    return [each.outcome for each in report.units if each.name.startswith("object")]


@pytest.mark.parametrize("part_bytes", [10**8, 400])
def test_an_object_that_lacks_a_copy_gets_one_with_the_same_bytes(
    world: CopiedWorld, part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_copies, "READ_REQUEST_BYTES_MAX", part_bytes)
    one, two = world.upload({0: [(0, 5, 300), (5, 10, 900)], 1: [(0, 5, 700)]}, {0: [(10, 12, 80)]})
    report = world.repaired()
    assert of_objects(report) == [Outcome.DONE, Outcome.DONE]
    assert world.places(one) == world.places(two) == (0, 1)
    assert world.copy(one, 0) == world.copy(one, 1) and world.copy(two, 0) == world.copy(two, 1)
    world.assert_sound()
    assert world.repaired().units == ()


def test_waves_are_small(world: CopiedWorld) -> None:
    ids = world.upload(*({0: [(at, at + 1, 200)]} for at in range(3)))
    seen: list[list[tuple[int, ...]]] = []
    between = Interrupting(lambda: seen.append([world.places(each) for each in ids]))
    world.repaired(runner=between, wave_objects_max=1)
    assert [sum(len(each) == 2 for each in one) for one in seen] == [0, 1, 2]


def test_a_plan_says_why_and_writes_nothing(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})
    version = world.metadata.refresh().version
    plan = CopyRepair(SETTINGS).plan(world.context, Scope(), Watch("copies", world.clock))
    reasons = {each.name: each.reason for each in plan.units}
    assert reasons[f"object {one}"] == "it is in 1 bucket, and gets a copy in bucket 1"
    assert "once a day" in reasons["listing of bucket 2"] and world.metadata.refresh().version == version


def test_b11_a_copy_deleted_by_hand_is_found_by_the_listing_and_put_back(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})
    world.repaired()
    before = world.copy(one, 0)
    world.lose(one, 0)
    world.clock.advance_ms(DAY_MS)
    report = world.repaired()
    assert outcomes(report)["listing of bucket 0"] is Outcome.DONE and report.has_remaining
    assert world.places(one) == (1,), "it counts no more"
    world.repaired()
    assert world.places(one) == (1, 0) and world.copy(one, 0) == before
    world.assert_sound()


def test_b11_a_copy_of_the_wrong_size_is_replaced(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})
    world.repaired()
    before = world.copy(one, 1)
    world.lose(one, 1)
    world.stores[1].store.put(object_key(one), [b"short"])
    world.repaired(is_forced=True)
    assert world.places(one) == (0,)
    world.repaired()
    assert world.places(one) == (0, 1) and world.copy(one, 1) == before


def test_the_only_place_of_an_object_is_left_to_the_check(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})
    world.lose(one, 0)
    world.repaired(is_forced=True)
    assert of_objects(world.repaired(is_forced=True)) == [Outcome.FAILED] and world.places(one) == (0,)


def test_a_damaged_block_is_not_copied_but_read_from_another_copy(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)], 1: [(0, 5, 300)]})
    world.repaired()
    whole = world.copy(one, 1)
    world.flip(one, 0, 100)
    world.set_strategy(3, 2)
    assert of_objects(world.repaired()) == [Outcome.DONE]
    assert world.places(one) == (0, 1, 2) and world.copy(one, 2) == whole
    (two,) = world.upload({0: [(5, 9, 300)]})
    world.flip(two, 0, 100)
    assert of_objects(world.repaired()) == [Outcome.FAILED], "there is no other copy"
    assert object_key(two) not in world.keys_of(1)


def test_b26_an_object_destroyed_while_it_was_copied_leaves_no_copy(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})

    def vanish() -> None:
        world.delete_stream(0)
        _drop(world, one)
        world.clock.advance_ms(GRACE_PERIOD_MS)
        world.lose(one, 1)  # as if the copy were still on its way
        sweep(world.context)
        world.stores[1].store.put(object_key(one), [b"late"])

    report = world.repaired(runner=Interrupting(vanish))
    assert of_objects(report) == [Outcome.NOT_NEEDED]
    assert one not in world.metadata.refresh().objects and object_key(one) not in world.keys_of(1)


def _drop(world: CopiedWorld, object_id: int) -> None:
    job = world.metadata.execute(StartJob("dead-objects", "test", HOUR_MS, ""))
    world.metadata.execute(CommitCompaction(job, (object_id,)))


def test_a_copy_whose_command_has_no_known_outcome_stays_and_is_deleted_with_its_object(
    world: CopiedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})
    execute = world.metadata.execute

    def silent(command: Any) -> Any:
        if isinstance(command, AddCopies):
            raise CommitUnknown("no answer")
        return execute(command)

    monkeypatch.setattr(world.metadata, "execute", silent)
    report = world.repaired()
    monkeypatch.undo()
    assert of_objects(report) == [] and "it may have been applied" in report.trouble, "as of every kind"
    assert world.found(one).uncertain == (1,) and object_key(one) in world.keys_of(1)
    world.delete_stream(0)
    _drop(world, one)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    assert object_key(one) not in world.keys_of(0) | world.keys_of(1)


def committed_late(world: CopiedWorld) -> int:
    """An object prepared for three buckets and committed in two: the third copy lands after the commit (B24)."""
    world.make_streams(1)
    built = encode({0: [(0, 5, 300)]})
    object_id = world.metadata.execute(PrepareObjects(1, HOUR_MS, 0, 0, 1, copies=(1, 2)))
    for number in (0, 1):
        world.stores[number].store.put(object_key(object_id), built.buffers)
    new = NewObject(object_id, built.size_bytes, ranges_of_entries(built.entries, object_id), (0, 1))
    world.metadata.execute(CommitUpload(0, 1, new))
    world.stores[2].store.put(object_key(object_id), built.buffers)
    return object_id


def test_b24_a_copy_that_landed_after_the_commit_is_deleted_with_its_object(world: CopiedWorld) -> None:
    object_id = committed_late(world)
    world.assert_sound()
    world.delete_stream(0)
    _drop(world, object_id)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    assert not any(object_key(object_id) in world.keys_of(number) for number in range(3))
    assert object_id not in world.metadata.refresh().objects


def test_b24_a_copy_that_landed_after_the_commit_is_used(world: CopiedWorld) -> None:
    object_id = committed_late(world)
    world.set_strategy(3)
    report = world.repaired()
    assert world.places(object_id) == (0, 1, 2)
    assert of_objects(report) == [Outcome.DONE]


def test_b14_an_object_stays_destroyed_while_a_copys_bucket_is_out(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})
    world.repaired()
    world.delete_stream(0)
    _drop(world, one)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    world.stores[1].fail_next(Fault.DENIED, call="delete")
    report = sweep(world.context)
    assert report.objects_deleted == 0 and any("bucket 1" in each for each in report.passed_over)
    assert world.found(one).state is ObjectState.DESTROYED and object_key(one) in world.keys_of(1)
    assert sweep(world.context).objects_deleted == 1
    assert one not in world.metadata.refresh().objects and object_key(one) not in world.keys_of(1)


def test_a_bucket_that_takes_no_writes_fails_its_copies_only(world: CopiedWorld) -> None:
    (one,) = world.upload({0: [(0, 5, 300)]})
    world.stores[1].fail_next(*[Fault.DENIED] * 3, call="put")
    assert of_objects(world.repaired()) == [Outcome.FAILED]
    world.stores[1].calm()
    world.repaired(is_forced=True)
    assert world.places(one) == (0, 1)
