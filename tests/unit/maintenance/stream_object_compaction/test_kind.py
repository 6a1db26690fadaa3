"""Whole runs on a store in memory: T09, T12, what stays, what is asked for, what others do meanwhile. After each, every
surviving record is compared byte for byte and the check is asked."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from siltstone.maintenance.in_process_runner import InProcessRunner
from siltstone.maintenance.pipeline.kind import Outcome, UnitReport
from siltstone.maintenance.pipeline.running import RunReport
from siltstone.maintenance.pipeline.scope import Budget, Scope
from siltstone.maintenance.pipeline.watch import Told, Watch
from siltstone.maintenance.planning.stream_objects.settings import StreamObjectCompactionSettings
from siltstone.maintenance.runner import RunFailed, Task
from siltstone.maintenance.stream_object_compaction import kind as kind_module
from siltstone.maintenance.stream_object_compaction.kind import (
    JOB_KIND,
    StreamObjectCompaction,
    StreamObjectPlan,
)
from siltstone.maintenance.stream_object_compaction.unit import decode_unit
from siltstone.maintenance.sweep import sweep
from siltstone.metadata.commands import CancelJob, StartJob
from siltstone.metadata.entities import JobState
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, GRACE_PERIOD_MS
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState, object_key
from support.compaction_world import CompactionWorld
from support.faulty_store import Fault
from support.objects import index_of
from support.stream_object_world import SMALL, add_stream_object, joined_up

SO, SSO = ObjectKind.STREAM_OBJECT, ObjectKind.STREAM_SET_OBJECT


def settings(**changes: float) -> StreamObjectCompactionSettings:
    return msgspec.structs.replace(SMALL, **changes)


def new_objects(world: CompactionWorld, before: set[int]) -> dict[tuple[int, int], tuple[int, ...]]:
    """(start, end) of each new stream object → its block's starts."""
    made = {}
    for object_id in world.ids(SO) - before:
        (held,) = world.metadata.image.objects[object_id].ranges
        blocks = index_of(world.bytes_of(object_id))
        made[held.start_offset, held.end_offset] = tuple(entry.start_offset for entry in blocks)
    return made


class Interrupting:
    """A runner that lets something happen when the tasks are done."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens

    def run(self, task: Task, units: Sequence[bytes], on_progress: object = None) -> list[bytes]:
        results = InProcessRunner().run(task, units)
        self._happens()
        return results

    def close(self) -> None:
        return None


# -- T09 ------------------------------------------------------------------------------------------------

RECORD = 1024 + 72


def t09(world: CompactionWorld) -> list[int]:
    """Stream 0 stands for 233; blocks of three records are one batch. Something else holds [0, 10) and [18, 30)."""
    world.upload({0: [(0, 10, 100)]})
    first = add_stream_object(world, 0, (10, 13, 3 * RECORD), (13, 16, 3 * RECORD))
    second = add_stream_object(world, 0, (16, 17, RECORD), (17, 18, RECORD))
    world.upload({0: [(18, 30, 100)]})
    third = add_stream_object(world, 0, (30, 31, RECORD))
    fourth = add_stream_object(world, 0, (31, 32, RECORD), (32, 33, RECORD))
    return [first, second, third, fourth]


@pytest.mark.parametrize(
    ("start", "merged_block_bytes_max", "expected"),
    [
        pytest.param(
            14, 1_000_000, {(13, 18): (13,), (30, 33): (30,)}, id="a trimmed block is left out"
        ),
        pytest.param(17, 1_000_000, {(30, 33): (30,)}, id="a trimmed object is not ours, its neighbour stays"),
        pytest.param(14, 5_000, {(13, 18): (13, 17), (30, 33): (30,)}, id="entries joined up to 5000 bytes"),
        pytest.param(14, 1, {(13, 18): (13, 16, 17), (30, 33): (30, 31, 32)}, id="entries left as they are"),
        pytest.param(0, 1_000_000, {(10, 18): (10,), (30, 33): (30,)}, id="nothing trimmed"),
    ],
)  # fmt: skip
def test_t09_physical_merge(
    world: CompactionWorld,
    start: int,
    merged_block_bytes_max: int,
    expected: dict[tuple[int, int], tuple[int, ...]],
) -> None:
    old = t09(world)
    world.trim(0, start)
    before = world.records()
    report = joined_up(world, settings(merged_block_bytes_max=merged_block_bytes_max))
    assert [each.outcome for each in report.units] == [Outcome.DONE] * len(expected)
    assert new_objects(world, set(old)) == expected
    left = {17: {old[0], old[1]}}.get(start, set())
    assert world.ids(SO) & set(old) == left, "merged ones are gone, others stand"
    assert world.records() == before
    world.assert_sound()


def test_t09_records_and_sizes(world: CompactionWorld) -> None:
    t09(world)
    world.trim(0, 14)
    joined_up(world)
    (object_id,) = {each for each in world.ids(SO) if _range(world, each).start_offset == 13}
    (entry,) = index_of(world.bytes_of(object_id))
    assert (entry.record_count, entry.size_bytes) == (5, 3 * RECORD + 2 * RECORD)
    assert _range(world, object_id).size_bytes == 5 * RECORD
    assert world.metadata.image.objects[object_id].size_bytes == len(world.bytes_of(object_id))


def _range(world: CompactionWorld, object_id: int) -> ObjectRange:
    return world.metadata.image.objects[object_id].ranges[0]


def test_t12_offsets_beyond_31_bits(world: CompactionWorld) -> None:
    """Two blocks that span more than 2**31 offsets become one entry, and every offset is found."""
    far = 2**31 + 5
    add_stream_object(world, 0, (0, far, 1_500))
    add_stream_object(world, 0, (far, 3 * far, 100), (3 * far, 2**40, 1_500))
    before = world.records()
    joined_up(world)
    (object_id,) = world.ids(SO)
    (entry,) = index_of(world.bytes_of(object_id))
    assert (entry.start_offset, entry.end_offset, entry.record_count) == (0, 2**40, 2**40)
    assert world.records() == before
    world.assert_sound()


# -- what passes through a process ------------------------------------------------------------------------


def test_bytes_of_large_objects_stay_in_the_store(world: CompactionWorld) -> None:
    old = {add_stream_object(world, 0, (10 * at, 10 * at + 10, 2_000)) for at in range(5)}
    before = world.records()
    world.store.history.clear()
    (done,) = joined_up(world).units
    calls = [name for name, _ in world.store.history]
    assert calls.count("copy_part") == 5
    assert (calls.count("upload_part"), calls.count("put")) == (1, 0)
    assert calls.count("get_range") == 5, "their indexes"
    assert done.bytes_read == 0
    assert done.bytes_written < 200, "index and footer"
    assert "5 stream objects became one, 9.9 KiB; 9.8 KiB copied inside the store" in done.text
    assert (done.objects_before, done.objects_after, done.bytes_freed) == (5, 1, 4 * 136)
    assert done.peak_memory_bytes > 1024 * 1024
    assert not world.ids(SO) & old
    assert world.records() == before


def test_small_parts_pass_through(world: CompactionWorld) -> None:
    for at, size in enumerate([2_000, 300, 300, 2_000]):
        add_stream_object(world, 0, *((4 * at + i, 4 * at + i + 1, size // 4 + 75) for i in range(4)))
    before = world.records()
    (done,) = joined_up(world).units
    assert done.bytes_read == 2 * (300 + 4 * 75), "both small ones, and nothing of the large"
    assert world.records() == before
    world.assert_sound()


def test_only_small_ones_are_put_in_one_request(world: CompactionWorld) -> None:
    for at in range(6):
        add_stream_object(world, 0, (at, at + 1, 150))
    before = world.records()
    world.store.history.clear()
    (done,) = joined_up(world).units
    calls = [name for name, _ in world.store.history]
    assert (calls.count("put"), calls.count("start_multipart"), calls.count("copy_part")) == (1, 0, 0)
    assert done.bytes_read == 6 * 150
    assert world.records() == before
    world.assert_sound()


def test_same_plan_same_bytes_whoever_runs_it(world: CompactionWorld) -> None:
    class Twice:
        def run(self, task: Task, units: Sequence[bytes], on_progress: object = None) -> list[bytes]:
            runner = InProcessRunner(4)
            first = [decode(each) for each in runner.run(task, [*units, *units])]
            again = runner.run(task, units)
            assert first[: len(units)] == first[len(units) :] == [decode(each) for each in again]
            return again

        def close(self) -> None:
            return None

    for at, size in enumerate([1_200, 300, 1_500, 200, 250]):
        add_stream_object(world, 0, (at, at + 1, size))
        add_stream_object(world, 1, (at, at + 1, size // 3))
    before = world.records()
    report = joined_up(world, runner=Twice())
    assert [each.outcome for each in report.units] == [Outcome.DONE, Outcome.DONE]
    assert world.records() == before
    world.assert_sound()


def decode(result: bytes) -> object:
    decoded = msgspec.msgpack.decode(result)
    decoded.pop("peak_memory_bytes", None)
    return decoded


def test_many_parts_are_shared_out_among_tasks(world: CompactionWorld) -> None:
    seen: list[int] = []

    class Counting(InProcessRunner):
        def run(self, task: Task, units: Sequence[bytes], on_progress: object = None) -> list[bytes]:
            seen.extend(len(unit.copied) + len(unit.read) for unit in map(decode_unit, units))
            return super().run(task, units)

    for at in range(40):
        add_stream_object(world, 0, (at, at + 1, 1_000 if at % 3 else 500))
    before = world.records()
    (done,) = joined_up(world, runner=Counting()).units
    assert done.outcome is Outcome.DONE
    assert len(seen) > 1 and max(seen) == 16
    assert world.records() == before
    world.assert_sound()


# -- plans ----------------------------------------------------------------------------------------------


def plan_of(
    world: CompactionWorld, scope: Scope | None = None, used: StreamObjectCompactionSettings = SMALL
) -> StreamObjectPlan:
    kind = StreamObjectCompaction(used)
    return kind.plan(world.context, scope or Scope(), Watch(kind.name, world.clock))


def test_the_plan_reads_the_image_alone(world: CompactionWorld) -> None:
    for at in range(3):
        add_stream_object(world, 0, (at, at + 1, 600 if at else 2_000))
    version = world.metadata.image.version
    world.store.history.clear()
    plan = plan_of(world)
    (unit,) = plan.units
    assert (unit.name, unit.stream_id, unit.topic) == ("stream-0-0", 0, None)
    assert unit.reason == "3 stream objects touch and have settled, the largest holds 62% of their 3.1 KiB"
    assert (unit.bytes_read, unit.objects_before, unit.objects_after) == (1_200, 3, 1)
    assert unit.detail == {"level": "major", "copied": "2.0 KiB"}
    assert world.store.history == []
    assert world.metadata.refresh().version == version


def test_forced_waits_for_nothing(world: CompactionWorld) -> None:
    for at, size in enumerate([5_000, 100]):
        add_stream_object(world, 0, (at, at + 1, size))
    used = settings(settled_ms=60_000, largest_share_max=0.6)
    assert plan_of(world, used=used).units == ()
    assert "committed less than 1 minutes ago" in plan_of(world, used=used).unplanned[0].reason
    assert len(plan_of(world, Scope(is_forced=True), used).units) == 1


def test_streams_of_no_topic_are_left_to_runs_of_everything(world: CompactionWorld) -> None:
    for at in range(2):
        add_stream_object(world, 0, (at, at + 1, 100))
    assert plan_of(world, Scope(topics=frozenset({"flights"}))).units == ()


def test_nothing_is_left_to_do(world: CompactionWorld) -> None:
    t09(world)
    assert joined_up(world).units
    again = joined_up(world)
    assert (again.units, again.job_id, again.has_remaining) == ((), None, False)


def test_a_budget_postpones(world: CompactionWorld) -> None:
    for stream in (0, 1):
        for at in range(2):
            add_stream_object(world, stream, (at, at + 1, 100))
    report = joined_up(world, budget=Budget(bytes_max=1))
    assert [each.name for each in report.units] == ["stream-0-0"]
    assert report.postponed == ("stream-1-0",)


def test_a_deleted_stream_is_left(world: CompactionWorld) -> None:
    for stream in (0, 1):
        for at in range(3):
            add_stream_object(world, stream, (at, at + 1, 100))
    world.delete_stream(1)
    report = joined_up(world)
    assert [each.name for each in report.units] == ["stream-0-0"]
    world.assert_sound()


# -- what others do meanwhile -----------------------------------------------------------------------------


def two_streams(world: CompactionWorld) -> set[int]:
    made = set()
    for stream in (0, 1):
        for at, size in enumerate([1_200, 300, 1_500]):
            made.add(
                add_stream_object(
                    world, stream, (10 * at, 10 * at + 5, size), (10 * at + 5, 10 * at + 10, 100)
                )
            )
    return made  # fmt: skip


def outcomes(report: RunReport) -> dict[str, Outcome]:
    return {each.name: each.outcome for each in report.units}


def test_trimmed_while_it_was_copied(world: CompactionWorld) -> None:
    two_streams(world)
    report = joined_up(world, runner=Interrupting(lambda: world.trim(0, 17)))
    assert outcomes(report) == {"stream-0-0": Outcome.DONE, "stream-1-0": Outcome.DONE}
    assert [start for start, _, _ in world.records()[0]] == [15, 20, 25]
    world.assert_sound()


def test_trimmed_wholly_while_it_was_copied(world: CompactionWorld) -> None:
    two_streams(world)
    joined_up(world, runner=Interrupting(lambda: world.trim(0, 30)))
    assert 0 not in world.records()
    assert len(world.ids(SO)) == 1
    world.assert_sound()


def test_trimmed_between_plan_and_wave_is_not_needed(world: CompactionWorld) -> None:
    two_streams(world)
    plan = plan_of(world)
    world.trim(0, 10)
    reports = carried_out(world, plan)
    assert [each.outcome for each in reports] == [Outcome.NOT_NEEDED, Outcome.DONE]
    assert [each.name for each in plan_of(world).units] == ["stream-0-10"], "what is left is another group"


def carried_out(world: CompactionWorld, plan: StreamObjectPlan) -> list[UnitReport]:
    job_id = world.metadata.execute(StartJob(JOB_KIND, "a test", 60_000))
    names = sorted(unit.name for unit in plan.units)
    watch = Watch(JOB_KIND, world.clock)
    return [*plan.carry_out(world.context, InProcessRunner, job_id, names, watch)]


@pytest.mark.parametrize("when", ["between plan and wave", "while it was copied"])
def test_deleted(world: CompactionWorld, when: str) -> None:
    two_streams(world)
    if when == "while it was copied":
        report = joined_up(world, runner=Interrupting(lambda: world.delete_stream(0)))
        found = outcomes(report)
    else:
        plan = plan_of(world)
        world.delete_stream(0)
        found = {each.name: each.outcome for each in carried_out(world, plan)}
    assert found == {"stream-0-0": Outcome.NOT_NEEDED, "stream-1-0": Outcome.DONE}
    assert set(world.records()) == {1}
    world.assert_sound()


def test_a_refused_commit_cleans_up(world: CompactionWorld) -> None:
    two_streams(world)
    kept = world.bucket_keys()
    joined_up(world, runner=Interrupting(lambda: world.delete_stream(0)))
    (new,) = world.ids(SO)
    assert world.bucket_keys() - kept == {object_key(new)}
    assert list(world.store.store.list_multipart()) == []


def test_appended_while_it_was_copied(world: CompactionWorld) -> None:
    two_streams(world)
    added: list[int] = []
    happens = Interrupting(lambda: added.append(add_stream_object(world, 0, (30, 40, 500))))
    assert set(outcomes(joined_up(world, runner=happens)).values()) == {Outcome.DONE}
    assert set(added) < world.ids(SO)
    assert [start for start, _, _ in world.records()[0]] == [0, 5, 10, 15, 20, 25, 30]
    world.assert_sound()


def test_replaced_by_another_driver(world: CompactionWorld) -> None:
    """Its lease had passed: the other did the same, and this one's commit is refused."""
    two_streams(world)
    before = world.records()

    def overtake() -> None:
        world.clock.advance_ms(SMALL.lease_ms + 1)
        joined_up(world)

    report = joined_up(world, runner=Interrupting(overtake))
    assert report.is_cancelled or report.trouble or set(outcomes(report).values()) == {Outcome.NOT_NEEDED}
    assert world.records() == before
    assert len(world.ids(SO)) == 2
    assert list(world.store.store.list_multipart()) == []
    world.assert_sound()


def test_a_cancelled_job_stops_and_what_was_committed_stands(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind_module, "GROUPS_PER_WAVE", 1)
    two_streams(world)
    before = world.records()

    def cancel_the_second(told: Told) -> None:
        if told.step == "copy" and len(world.ids(SO)) == 4:
            world.metadata.execute(CancelJob(max(world.metadata.image.jobs), "by hand"))
            watch.cancel("by hand")

    watch = Watch(JOB_KIND, world.clock, on_told=cancel_the_second)
    report = joined_up(world, watch=watch)
    assert report.is_cancelled
    assert outcomes(report) == {"stream-0-0": Outcome.DONE}
    assert report.postponed == ("stream-1-0",)
    assert world.records() == before
    assert list(world.store.store.list_multipart()) == []
    assert [job.state for job in world.metadata.refresh().jobs.values()] == [JobState.FAILED]


def test_when_time_is_over_no_wave_is_begun(world: CompactionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_module, "GROUPS_PER_WAVE", 1)
    two_streams(world)
    watch = Watch(JOB_KIND, world.clock, seconds_max=1)
    report = joined_up(world, watch=watch, runner=Interrupting(lambda: world.clock.advance_ms(2_000)))
    assert outcomes(report) == {"stream-0-0": Outcome.DONE}
    assert report.postponed == ("stream-1-0",)
    assert not report.is_cancelled


# -- what goes wrong --------------------------------------------------------------------------------------


def test_an_index_that_cannot_be_read_fails_its_group_alone(world: CompactionWorld) -> None:
    old = two_streams(world)
    before = world.records()
    world.damage(min(old), -100)
    report = joined_up(world)
    assert outcomes(report) == {"stream-0-0": Outcome.FAILED, "stream-1-0": Outcome.DONE}
    assert f"object {min(old)}: its index cannot be read" in report.failed[0].text
    world.damage(min(old), -100)
    assert world.records() == before, "as it was before the byte was flipped"
    again = joined_up(world)
    assert (again.units, again.postponed) == ((), ("stream-0-0",)), "it is set aside for a while"


def test_a_damaged_block_that_passes_through_is_named(world: CompactionWorld) -> None:
    two_streams(world)
    small = sorted(world.ids(SO))[1]
    world.damage(small, 10)
    report = joined_up(world)
    assert outcomes(report) == {"stream-0-0": Outcome.FAILED, "stream-1-0": Outcome.DONE}
    assert f"DamagedBlock: block at 0 of object {small}" in report.failed[0].text
    assert list(world.store.store.list_multipart()) == []


def test_a_damaged_block_that_is_copied_stays_recognisable(world: CompactionWorld) -> None:
    """Nobody looked at its bytes; its checksum came along."""
    old = two_streams(world)
    world.damage(min(old), 10)
    report = joined_up(world, settings(merged_block_bytes_max=1))
    assert set(outcomes(report).values()) == {Outcome.DONE}
    with pytest.raises(Exception, match="checksum does not match"):
        world.records()


@pytest.mark.parametrize("call", ["complete_multipart", "copy_part", "put", "start_multipart", "upload_part"])
@pytest.mark.parametrize("fault", [Fault.DENIED, Fault.BEFORE, Fault.AFTER])
def test_a_request_that_fails_fails_its_group_alone(world: CompactionWorld, call: str, fault: Fault) -> None:
    two_streams(world)
    for stream in (2, 3):
        for at in range(2):
            add_stream_object(world, stream, (at, at + 1, 100))
    before = world.records()
    world.store.fail_next(fault, call=call)
    report = joined_up(world)
    assert sorted(outcomes(report).values(), key=str) == [*[Outcome.DONE] * 3, Outcome.FAILED]
    assert call in report.failed[0].text
    assert world.records() == before
    assert call == "start_multipart" or list(world.store.store.list_multipart()) == []
    world.assert_sound()


class Poisoned:
    """Gives up whenever a unit of stream 0 is among those it is given, and does not say which."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, task: Task, units: Sequence[bytes], on_progress: object = None) -> list[bytes]:
        self.runs += 1
        results = InProcessRunner().run(task, units)
        if any(0 in decode_unit(unit).source_ids for unit in units):
            raise RunFailed("a worker was lost")
        return results

    def close(self) -> None:
        return None


def test_a_runner_that_gives_up_is_asked_for_each_group_alone(world: CompactionWorld) -> None:
    two_streams(world)
    before = world.records()
    runner = Poisoned()
    report = joined_up(world, runner=runner)
    assert outcomes(report) == {"stream-0-0": Outcome.FAILED, "stream-1-0": Outcome.DONE}
    assert report.failed[0].text == "a worker was lost"
    assert runner.runs == 3
    assert world.records() == before
    assert list(world.store.store.list_multipart()) == []
    world.assert_sound()


def test_what_was_replaced_is_swept_and_nothing_else(world: CompactionWorld) -> None:
    two_streams(world)
    world.store.fail_next(Fault.AFTER, call="complete_multipart")
    joined_up(world)
    before = world.records()
    world.clock.advance_ms(COMPACTION_TIME_LIMIT_MS)
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    objects = world.metadata.refresh().objects
    assert {held.state for held in objects.values()} == {ObjectState.COMMITTED}
    assert world.bucket_keys() == {object_key(each) for each in objects}
    assert world.records() == before
