"""Copies into another bucket: every byte, then the commit; after any failure the object is still where it was."""

import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.carrying.pipeline.running import RunReport
from siltstone.maintenance.relocation import planning
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.buckets import RemoveBucket
from siltstone.metadata.refusals import BucketInUse
from siltstone.model.buckets import BucketState
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, GRACE_PERIOD_MS
from siltstone.model.objects import object_key
from support.engine.faulty_store import Fault
from support.maintenance.drained_world import SETTINGS, DrainedWorld
from support.maintenance.interrupting import Interrupting
from support.maintenance.opened_stores import failing
from support.maintenance.stream_object_world import add_stream_object


def filled(world: DrainedWorld) -> tuple[int, int]:
    """The ids of a stream set object of two streams, and of a stream object."""
    (whole,) = world.upload({0: [(0, 5, 300), (5, 10, 500)], 1: [(0, 5, 300)]})
    return whole, add_stream_object(world, 1, (5, 9, 400), (9, 20, 800))


def outcomes(report: RunReport) -> list[Outcome]:
    return [each.outcome for each in report.units]


@pytest.mark.parametrize("part_bytes", [10**8, 400])
def test_a_copy_has_the_bytes_of_its_object_and_takes_its_place(
    world: DrainedWorld, part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "READ_REQUEST_BYTES_MAX", part_bytes)
    ids = filled(world)
    before, records = [world.bytes_of(each) for each in ids], world.records()
    kinds = [world.metadata.image.objects[each].kind for each in ids]
    data_times = [world.metadata.image.objects[each].data_time_ms for each in ids]
    world.drain()
    report = world.relocated()
    assert outcomes(report) == [Outcome.DONE, Outcome.DONE]
    assert all("copied from bucket 0 to 1" in each.text for each in report.units)
    copies = sorted(world.of_bucket(1))
    assert [world.bytes_of(each) for each in copies] == before
    assert [world.metadata.image.objects[each].kind for each in copies] == kinds
    assert [world.metadata.image.objects[each].data_time_ms for each in copies] == data_times
    assert world.of_bucket(0) == set() and world.records() == records
    world.assert_sound()
    assert world.relocated().units == ()


def test_a_drained_bucket_can_be_removed_when_its_objects_have_been_swept(world: DrainedWorld) -> None:
    filled(world)
    records = world.records()
    world.drain()
    world.relocated()
    with pytest.raises(BucketInUse):
        world.metadata.execute(RemoveBucket(0))
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    assert world.bucket_keys() == set()
    world.metadata.execute(RemoveBucket(0))
    assert world.records() == records


def test_waves_are_small_and_each_is_committed(world: DrainedWorld) -> None:
    filled(world)
    world.drain()
    seen: list[set[int]] = []
    world.relocated(runner=Interrupting(lambda: seen.append(world.of_bucket(1))), wave_objects_max=1)
    assert [len(each) for each in seen] == [0, 1]
    assert len(world.of_bucket(1)) == 2


def test_what_is_drained_no_more_stays(world: DrainedWorld) -> None:
    _, alone = filled(world)
    world.drain()
    back = Interrupting(lambda: world.set_state(0, BucketState.WRITABLE))
    report = world.relocated(runner=back, wave_objects_max=1)
    assert outcomes(report) == [Outcome.DONE, Outcome.NOT_NEEDED]
    assert world.of_bucket(0) == {alone}


def test_a_stream_deleted_while_its_object_was_copied(world: DrainedWorld) -> None:
    filled(world)
    world.drain()
    report = world.relocated(runner=Interrupting(lambda: world.delete_stream(1)))
    assert outcomes(report) == [Outcome.DONE, Outcome.NOT_NEEDED]
    assert set(world.records()) == {0}
    world.assert_sound()


def test_records_trimmed_while_their_object_was_copied_stay_trimmed(world: DrainedWorld) -> None:
    filled(world)
    world.drain()
    world.relocated(runner=Interrupting(lambda: world.trim(0, 5)))
    assert [start for start, _, _ in world.records()[0]] == [5]
    world.assert_sound()


def test_another_driver_was_faster(world: DrainedWorld) -> None:
    filled(world)
    records = world.records()
    world.drain()

    def overtake() -> None:
        world.clock.advance_ms(SETTINGS.lease_ms + 1)
        world.relocated()

    report = world.relocated(runner=Interrupting(overtake))
    assert report.is_cancelled or report.trouble or set(outcomes(report)) == {Outcome.NOT_NEEDED}
    assert world.records() == records and len(world.of_bucket(1)) == 2
    world.assert_sound()


# -- what goes wrong --------------------------------------------------------------------------------------


def test_a_damaged_block_is_not_copied_and_named(world: DrainedWorld) -> None:
    _, alone = filled(world)
    world.damage(alone, 10)
    world.drain()
    report = world.relocated()
    assert outcomes(report) == [Outcome.DONE, Outcome.FAILED]
    assert f"DamagedBlock: the block at 0 of object {alone}" in report.failed[0].text
    assert world.of_bucket(0) == {alone}


def test_an_index_that_cannot_be_read_fails_its_object_alone(world: DrainedWorld) -> None:
    whole, _ = filled(world)
    world.damage(whole, -100)
    world.drain()
    report = world.relocated()
    assert sorted(outcomes(report), key=str) == [Outcome.DONE, Outcome.FAILED]
    assert f"object {whole}: its index cannot be read" in report.failed[0].text
    assert world.of_bucket(0) == {whole}


@pytest.mark.parametrize(
    ("call", "fault"), failing("complete_multipart", "put", "start_multipart", "upload_part")
)
def test_a_request_that_fails_fails_its_object_alone_and_the_next_run_copies_it(
    world: DrainedWorld, call: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "READ_REQUEST_BYTES_MAX", 10**8 if call == "put" else 400)
    filled(world)
    records = world.records()
    world.drain()
    world.second.fail_next(fault, call=call)
    report = world.relocated()
    assert sorted(outcomes(report), key=str) == [Outcome.DONE, Outcome.FAILED]
    assert call in report.failed[0].text
    assert world.records() == records
    world.assert_sound()
    world.clock.advance_ms(COMPACTION_TIME_LIMIT_MS)
    assert outcomes(world.relocated()) == [Outcome.DONE]
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    assert world.records() == records
    assert {each.key for each in world.second.store.list()} == {
        object_key(each) for each in world.of_bucket(1)
    }


@pytest.mark.parametrize("which", ["source", "target"])
def test_a_bucket_that_is_out_fails_all_and_loses_nothing(world: DrainedWorld, which: str) -> None:
    filled(world)
    records = world.records()
    world.drain()
    out = world.store if which == "source" else world.second
    out.fault_rate, out.faults = 1.0, (Fault.BEFORE,)
    report = world.relocated()
    out.calm()
    assert not report.done
    assert report.trouble or {each.outcome for each in report.units} == {Outcome.FAILED}
    assert world.records() == records and world.of_bucket(1) == set()
