"""Waves: concurrent work of others, failures, buckets, and a driver that dies at every step of a run. The old objects
are still served, another driver completes the work, and nothing is left over."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
import pytest

from siltstone.carrying import engine
from siltstone.carrying.pipeline.kind import Attempt, Outcome, Plan, Scope, UnitReport
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.watch import StepProgress, Watch
from siltstone.maintenance.stream_object_compaction.kind import JOB_KIND, StreamObjectCompaction
from siltstone.maintenance.stream_object_compaction.task_input import CODEC
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import (
    CancelJob,
    Command,
    StartJob,
)
from siltstone.metadata.entities import JobState
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, GRACE_PERIOD_MS
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, RunFailed, Task
from support.engine.faulty_store import Fault, FaultyStore
from support.engine.objects import read_object
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.interrupting import Interrupting
from support.maintenance.opened_stores import failing, stores_opened
from support.maintenance.stream_object_world import SMALL, add_stream_object, joined_up

SO = ObjectKind.STREAM_OBJECT
T = TypeVar("T")


def settings(**changes: float) -> StreamObjectCompactionSettings:
    return msgspec.structs.replace(SMALL, **changes)


def plan_of(
    world: CompactionWorld, scope: Scope | None = None, used: StreamObjectCompactionSettings = SMALL
) -> Plan:
    kind = StreamObjectCompaction(used)
    return kind.plan(world.context, scope or Scope(), Watch(kind.name, world.clock))


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


def carried_out(world: CompactionWorld, plan: Plan) -> list[UnitReport]:
    job_id = world.metadata.execute(StartJob(JOB_KIND, "a test", 60_000))
    names = sorted(unit.name for unit in plan.units)
    attempt = Attempt(world.context, InProcessRunner, job_id, Watch(JOB_KIND, world.clock))
    return [*StreamObjectCompaction(SMALL).carry_out(plan, names, attempt)]


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


def test_a_cancelled_job_stops_and_what_was_committed_stands(world: CompactionWorld) -> None:
    two_streams(world)
    before = world.records()

    def cancel_the_second(told: StepProgress) -> None:
        if told.step == "copy" and len(world.ids(SO)) == 4:
            world.metadata.execute(CancelJob(max(world.metadata.image.jobs), "by hand"))
            watch.cancel("by hand")

    watch = Watch(JOB_KIND, world.clock, on_step_progress=cancel_the_second)
    report = joined_up(world, watch=watch, groups_per_wave=1)
    assert report.is_cancelled
    assert outcomes(report) == {"stream-0-0": Outcome.DONE}
    assert report.postponed == ("stream-1-0",)
    assert world.records() == before
    assert list(world.store.store.list_multipart()) == []
    assert [job.state for job in world.metadata.refresh().jobs.values()] == [JobState.FAILED]


def test_when_time_is_over_no_wave_is_begun(world: CompactionWorld) -> None:
    two_streams(world)
    watch = Watch(JOB_KIND, world.clock, seconds_max=1)
    late = Interrupting(lambda: world.clock.advance_ms(2_000))
    report = joined_up(world, watch=watch, runner=late, groups_per_wave=1)
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
    assert f"DamagedBlock: the block at 0 of object {small}" in report.failed[0].text
    assert list(world.store.store.list_multipart()) == []


def test_a_damaged_block_that_is_copied_stays_recognisable(world: CompactionWorld) -> None:
    """Nobody looked at its bytes; its checksum came along."""
    old = two_streams(world)
    world.damage(min(old), 10)
    report = joined_up(world, settings(merged_block_bytes_max=1))
    assert set(outcomes(report).values()) == {Outcome.DONE}
    with pytest.raises(Exception, match="checksum does not match"):
        world.records()


@pytest.mark.parametrize(
    ("call", "fault"), failing("complete_multipart", "copy_part", "put", "start_multipart", "upload_part")
)
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
    """Gives up whenever an input of stream 0 is among those it is given, and does not say which."""

    def __init__(self) -> None:
        self.runs = 0

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: object = None, label: str = ""
    ) -> list[bytes]:
        self.runs += 1
        results = InProcessRunner().run(task, inputs)
        if any(0 in CODEC.decode_input(given).source_ids for given in inputs):
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


# -- buckets ------------------------------------------------------------------------------------------------


def test_objects_become_one_in_the_bucket_they_lie_in(world: CompactionWorld) -> None:
    second = MemoryStore(world.clock, "second-bucket")
    world.context = MaintenanceContext(
        world.metadata, Buckets({0: world.store, 1: second}), world.clock, world.context.rng
    )
    for at in range(6):
        bucket_id = 0 if at < 3 else 1
        store = None if at < 3 else second
        add_stream_object(world, 0, (at, at + 1, 1_500), bucket_id=bucket_id, store=store)
    with stores_opened(second):
        report = joined_up(world)
    assert [each.outcome for each in report.units] == [Outcome.DONE, Outcome.DONE]
    held = [world.metadata.image.objects[each.object_id] for each in world.metadata.image.streams[0].ranges]
    assert [each.bucket_id for each in held] == [0, 1]
    for each, store, offsets in zip(held, (world.store.store, second), ([0, 1, 2], [3, 4, 5]), strict=True):
        batches = read_object(store.get_range(object_key(each.object_id), 0, each.size_bytes))
        assert [batch.base_offset for batch in batches] == offsets
    world.assert_sound()


def test_a_bucket_that_is_not_in_the_settings_fails_its_groups_alone(world: CompactionWorld) -> None:
    second = MemoryStore(world.clock, "unknown-bucket")
    for at in range(2):
        add_stream_object(world, 0, (at, at + 1, 1_500), bucket_id=1, store=second)
        add_stream_object(world, 1, (at, at + 1, 1_500))
    report = joined_up(world)
    assert {each.name: each.outcome for each in report.units} == {
        "stream-0-0": Outcome.FAILED,
        "stream-1-0": Outcome.DONE,
    }
    assert "bucket 1, which is not in the settings" in report.failed[0].text


# -- a driver that dies ---------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for SIGKILL."""


class Life:
    """Ends at step ``last``, before its effect or after it; from then on nothing has any."""

    def __init__(self, last: int, *, is_done: bool) -> None:
        self._last = last
        self._is_done = is_done
        self.steps: list[str] = []

    def step(self, name: str, effect: Callable[[], T]) -> T:
        self.steps.append(name)
        if len(self.steps) < self._last:
            return effect()
        if len(self.steps) == self._last and self._is_done:
            effect()
        raise Killed


class MortalStore(FaultyStore):
    life: Life

    def _call(self, name: str, effect: Callable[[], T], partial: Callable[[], object] = lambda: None) -> T:
        return self.life.step(name, effect)


def filled() -> CompactionWorld:
    world = CompactionWorld()
    for stream, sizes in enumerate([(1_500, 300, 1_200), (100, 100, 100)]):
        for at, size in enumerate(sizes):
            add_stream_object(world, stream, (10 * at, 10 * at + 10, size))
    world.upload({2: [(0, 5, 100)]})
    return world


def run_until_killed(world: CompactionWorld, life: Life, patch: pytest.MonkeyPatch) -> bool:
    """Whether it was; the driver and its tasks share one life."""
    assert isinstance(world.store.store, MemoryStore)
    store = MortalStore(world.store.store)
    store.life = life
    other = world.another_context()
    execute = other.metadata.execute

    def mortal(command: Command[T]) -> T:
        return life.step(type(command).__name__, lambda: execute(command))

    patch.setattr(other.metadata, "execute", mortal)
    context = MaintenanceContext(other.metadata, Buckets({0: store}), world.clock, other.rng)
    victim = CompactionWorld.__new__(CompactionWorld)
    victim.__dict__ |= {**world.__dict__, "context": context, "metadata": other.metadata}
    with stores_opened(store):
        try:
            joined_up(victim)
        except Killed:
            return True
    return False


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_killed_at_every_step(monkeypatch: pytest.MonkeyPatch, is_done: bool) -> None:
    killed_in: list[str] = []
    while True:
        world = filled()
        before = world.records()
        life = Life(len(killed_in) + 1, is_done=is_done)
        if not run_until_killed(world, life, monkeypatch):
            break
        killed_in.append(life.steps[len(killed_in)])
        assert world.records() == before, life.steps
        world.assert_sound()
        finish(world)
        assert world.records() == before, life.steps
    assert {
        "CommitCompaction", "FinishJob", "PrepareObjects", "StartJob",
        "complete_multipart", "copy_part", "get_range", "put", "start_multipart", "upload_part",
    } <= set(killed_in)  # fmt: skip
    assert killed_in.count("CommitCompaction") == 2


def finish(world: CompactionWorld) -> None:
    """Others continue: the work is done, and when all time limits have passed the bucket holds what is committed."""
    world.clock.advance_ms(SMALL.lease_ms + 1)
    with stores_opened(world.store):
        joined_up(world)
    image = world.metadata.refresh()
    assert [len(image.streams[each].ranges) for each in (0, 1, 2)] == [1, 1, 1]
    world.clock.advance_ms(COMPACTION_TIME_LIMIT_MS)
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    objects = world.metadata.refresh().objects
    assert {each.state for each in objects.values()} == {ObjectState.COMMITTED}
    assert world.bucket_keys() == {object_key(each) for each in objects}
    assert list(world.store.store.list_multipart()) == []
    world.assert_sound()


def test_a_bucket_is_asked_once_for_all_units_of_a_wave(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counted(context: MaintenanceContext, bucket_ids: Iterable[int]) -> dict[int, str]:
        asked.extend(bucket_ids)
        return {}

    two_streams(world)
    monkeypatch.setattr(engine, "why_not_writable", counted)
    assert set(outcomes(joined_up(world)).values()) == {Outcome.DONE}
    assert asked == [0]
