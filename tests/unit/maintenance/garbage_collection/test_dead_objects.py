"""GC1, T10: what holds nothing live is destroyed unread."""

from collections.abc import Callable

import pytest

from siltstone.carrying import committing
from siltstone.carrying.pipeline.kind import Attempt, Budget, Outcome, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.garbage_collection.dead_objects import DeadObjects
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import (
    CommitUpload,
    CreateTopic,
    NewObject,
    OpenStream,
    PrepareObjects,
    StartJob,
)
from siltstone.metadata.refusals import CoverageNotMatched
from siltstone.model.limits import GRACE_PERIOD_MS, HOUR_MS, JOB_LEASE_MS
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState, object_key
from support.maintenance.collecting_world import all_dead_destroyed
from support.maintenance.compaction_world import CompactionWorld
from support.metadata.faulty_log import Fault

SSO, SO = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT
FOUR = {stream: [(0, 10, 100)] for stream in range(4)}


def no_runner() -> object:
    raise AssertionError("nothing is read, so nothing is run")


def many_stream_objects(world: CompactionWorld, stream_id: int, count: int) -> int:
    """Of one record each, ids contiguous; in the metadata alone."""
    first = world.metadata.execute(PrepareObjects(count, HOUR_MS, node_id=0, node_epoch=1))
    made = tuple(
        NewObject(first + at, 100, (ObjectRange(stream_id, first + at, at, at + 1, 50, 0),))
        for at in range(count)
    )
    world.metadata.execute(CommitUpload(0, 1, None, made))
    return first


def test_gc1_a_stream_set_object_that_is_trimmed_past(world: CompactionWorld) -> None:
    (dead,) = world.upload(FOUR)
    alive, *_ = world.upload({stream: [(10, 20, 100)] for stream in range(4)})
    for stream in range(4):
        world.trim(stream, 10)
    before = world.records()
    world.store.history.clear()
    report = all_dead_destroyed(world.context)
    assert world.store.history == [], "not a byte is read"
    (done,) = report.units
    assert (done.outcome, done.bytes_read, done.bytes_written) == (Outcome.DONE, 0, 0)
    assert done.bytes_freed == len(world.bytes_of(dead))
    assert world.metadata.image.objects[dead].state is ObjectState.DESTROYED
    assert (world.ids(SSO), world.records()) == ({alive}, before)
    sweep(world.context)
    assert object_key(dead) in world.bucket_keys(), "gone only after the grace period"
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    assert object_key(dead) not in world.bucket_keys()
    world.assert_sound()


def test_t10_in_batches_of_a_thousand(world: CompactionWorld) -> None:
    world.make_streams(1)
    assert many_stream_objects(world, 0, 1500) == 0
    world.trim(0, 1450)
    plan = DeadObjects().plan(world.context, Scope(), Watch("dead-objects", world.clock))
    assert [[each.object_id for each in batch] for batch in plan.work.values()] == [
        [*range(1000)],
        [*range(1000, 1450)],
    ]
    assert [unit.name for unit in plan.units] == ["objects 0 to 999", "objects 1000 to 1449"]
    report = all_dead_destroyed(world.context)
    assert [unit.objects_before for unit in report.units] == [1000, 450]
    assert world.ids(SO) == {*range(1450, 1500)}
    assert all_dead_destroyed(world.context).units == ()


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete"])
def test_g34_whatever_the_policy(world: CompactionWorld, policy: str) -> None:
    topic = world.metadata.execute(CreateTopic(0, 1, "t", "0" * 32, 1, configs={"cleanup.policy": policy}))
    stream = topic.partitions[0].data_stream_id
    world.metadata.execute(OpenStream(0, 1, stream, 0))
    world.upload({stream: [(0, 10, 100)]})
    world.trim(stream, 10)
    assert [unit.name for unit in all_dead_destroyed(world.context).units] == ["object 0"]
    assert world.ids(SSO) == set()


def test_deleted_streams(world: CompactionWorld) -> None:
    world.upload(FOUR)
    for stream in range(4):
        assert not all_dead_destroyed(world.context).units
        world.delete_stream(stream)
    assert all_dead_destroyed(world.context).units
    assert (world.ids(SSO), dict(world.metadata.image.streams)) == (set(), {})


def test_by_topic(world: CompactionWorld) -> None:
    streams = []
    for number, name in enumerate(("one", "two")):
        topic = world.metadata.execute(CreateTopic(0, 1, name, f"{number:032}", 1))
        streams.append(topic.partitions[0].data_stream_id)
        world.metadata.execute(OpenStream(0, 1, streams[-1], 0))
        world.upload({streams[-1]: [(0, 10, 100)]})
        world.trim(streams[-1], 10)
    all_dead_destroyed(world.context, topics=frozenset({"two"}))
    (left,) = world.ids(SSO)
    assert world.metadata.image.objects[left].ranges[0].stream_id == streams[0]


def act_between(world: CompactionWorld, act: Callable[[], object]):
    kind = DeadObjects()
    watch = Watch(kind.name, world.clock)
    plan = kind.plan(world.context, Scope(), watch)
    act()
    attempt = Attempt(world.context, no_runner, job(world), watch)  # type: ignore[arg-type]
    return kind.carry_out(plan, [unit.name for unit in plan.units], attempt)


def job(world: CompactionWorld) -> int:
    return world.metadata.execute(StartJob("dead-objects", "test", HOUR_MS))


def test_what_others_destroyed_meanwhile_is_left_out(world: CompactionWorld) -> None:
    world.upload({0: [(0, 10, 100)]}, {1: [(0, 10, 100)]})
    world.trim(0, 10)
    world.trim(1, 10)
    some = act_between(world, lambda: all_dead_destroyed(world.another_context()))
    assert [each.outcome for each in some] == [Outcome.NOT_NEEDED]


def test_a_batch_that_is_refused_each_time_fails_with_the_reason(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CoverageNotMatched("stream 0: no new object holds the live range [0, 10); plan again")

    world.upload({0: [(0, 10, 100)]})
    world.trim(0, 10)
    monkeypatch.setattr(committing, "check_coverage", refuse)
    (report,) = act_between(world, lambda: None)
    assert (report.outcome, report.text) == (
        Outcome.FAILED,
        "stream 0: no new object holds the live range [0, 10); plan again",
    )


def test_one_that_others_destroyed_does_not_keep_the_batch_from_being(world: CompactionWorld) -> None:
    world.upload({0: [(0, 10, 100)]})
    world.make_streams(1)
    many_stream_objects(world, 1, 1)
    world.trim(0, 10)
    world.trim(1, 1)
    reports = act_between(world, lambda: world.delete_stream(1))
    assert [(each.outcome, each.objects_before) for each in reports] == [(Outcome.DONE, 1)]
    assert world.ids(SSO) == world.ids(SO) == set()


def test_an_unknown_outcome_is_asked_again(world: CompactionWorld) -> None:
    world.upload({0: [(0, 10, 100)]})
    world.trim(0, 10)
    reports = act_between(world, lambda: None)
    world.log.faults.extend([Fault.DONE])
    assert [each.outcome for each in reports] == [Outcome.DONE]
    assert world.ids(SSO) == set()


def test_nothing_new_is_begun_when_the_time_is_over(world: CompactionWorld) -> None:
    world.make_streams(1)
    many_stream_objects(world, 0, 1001)
    world.trim(0, 1001)
    kind = DeadObjects()
    watch = Watch(kind.name, world.clock, seconds_max=0.0)
    report = run(world.context, kind, no_runner, Scope(), Budget(seconds_max=0.001), watch)  # type: ignore[arg-type]
    assert [unit.name for unit in report.units] == ["objects 0 to 999"]
    assert report.postponed == ("object 1000",)


def test_a_plan_says_how_many_objects_and_how_many_bytes(world: CompactionWorld) -> None:
    world.make_streams(1)
    many_stream_objects(world, 0, 3)
    world.trim(0, 2)
    kind = DeadObjects()
    (unit,) = kind.plan(world.context, Scope(), Watch(kind.name, world.clock)).units
    assert (unit.name, unit.objects_before, unit.objects_after) == ("objects 0 to 1", 2, 0)
    assert unit.reason == "2 objects with nothing live: 200 B"
    (report,) = all_dead_destroyed(world.context).units
    assert (report.text, report.bytes_freed) == ("2 objects destroyed, 200 B", 200)
    assert kind.lease_ms == JOB_LEASE_MS and DeadObjects(7).lease_ms == 7


def test_who_looks_on_hears_how_far_it_is(world: CompactionWorld) -> None:
    world.make_streams(1)
    many_stream_objects(world, 0, 1001)
    world.trim(0, 1001)
    told: list[tuple[str, int, int]] = []
    kind = DeadObjects()
    watch = Watch(
        kind.name, world.clock, on_step_progress=lambda each: told.append((each.step, each.done, each.total))
    )
    run(world.context, kind, no_runner, Scope(), Budget(), watch)  # type: ignore[arg-type]
    assert told == [("destroy", 0, 2), ("destroy", 1, 2)]
