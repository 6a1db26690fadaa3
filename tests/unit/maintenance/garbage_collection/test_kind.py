"""Whole collections on a store in memory. After each, every surviving record is compared byte for byte."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from siltstone.carrying import committing
from siltstone.carrying.pipeline.kind import Attempt, Budget, Outcome, Plan, Scope
from siltstone.carrying.pipeline.set_aside import all_set_aside
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.garbage_collection.kind import NO_PARTNER, NO_ROOM
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import AlterTopicConfigs, CreateTopic, OpenStream, StartJob
from siltstone.metadata.refusals import CoverageNotMatched, JobNotRunning
from siltstone.model.limits import GRACE_PERIOD_MS, HOUR_MS, MIB, SET_ASIDE_MS_MAX
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.object_store.bandwidth.limiter import STEP_MS
from siltstone.offline.settings import GcSettings, Level
from siltstone.offline.tasks.runner import InProcessRunner, Task
from siltstone.runtime.tasks import OnProgress
from support.maintenance.collecting_world import (
    ANY_SIZE,
    YOUNG,
    all_dead_destroyed,
    collected,
    collection,
    settings,
)
from support.maintenance.compacting import compact
from support.maintenance.compaction_world import CompactionWorld, Spec

SSO, SO = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT
MINOR, MAJOR = Level.MINOR, Level.MAJOR


def two_streams(first: int, size_bytes: int = 1000, kept: int = 200) -> Spec:
    """Stream ``first`` has most of the bytes, the next one ``kept`` of them."""
    return {first: [(0, 10, size_bytes - kept)], first + 1: [(0, 10, kept)]}


def planned(
    world: CompactionWorld, level: Level = MAJOR, settings: GcSettings = ANY_SIZE, quota_bytes: int = 0
) -> Plan:
    kind = collection(level, settings)
    context = msgspec.structs.replace(world.context, quota_bytes=quota_bytes)
    return kind.plan(context, Scope(), Watch(kind.name, world.clock))


class Interrupting(InProcessRunner):
    """A runner that calls a function when the tasks are done. ``runs`` counts its runs."""

    def __init__(self, happens: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._happens = happens
        self.runs = 0

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        self.runs += 1
        results = super().run(task, inputs)
        self._happens()
        return results


# -- what is rewritten ------------------------------------------------------------------------------------


def test_a_sparse_object_is_rewritten_by_itself(world: CompactionWorld) -> None:
    (sparse,) = world.upload(two_streams(0))
    world.upload(two_streams(2))
    world.trim(0, 10)
    before = world.records()
    report = collected(world.context)
    (done,) = report.units
    assert (done.outcome, done.objects_before, done.objects_after) == (Outcome.DONE, 1, 1)
    assert world.metadata.image.objects[sparse].state is ObjectState.DESTROYED
    assert done.bytes_read == 200
    assert done.bytes_freed == 800 + 72, "the block and its index entry"
    assert world.records() == before
    world.assert_sound()
    assert collected(world.context).units == (), "nothing is left to do"


def test_stream_objects_with_a_dead_beginning(world: CompactionWorld) -> None:
    world.upload({0: [(100, 110, 90)]})  # a stream object fills [0, 100)
    (filler,) = world.ids(SO)
    assert collected(world.context).units == ()
    world._commit({0: [(110, 120, 700), (120, 130, 100)]}, SO, 0)
    world.trim(0, 120)
    all_dead_destroyed(world.context)
    before = world.records()
    (done,) = collected(world.context).units
    assert (done.name, done.outcome, done.bytes_freed) == ("stream-0-110", Outcome.DONE, 700 + 72)
    assert (done.bytes_read, "100 B copied inside the store" in done.text) == (0, True)
    (rest,) = world.ids(SO)
    held = world.metadata.image.objects[rest].ranges[0]
    assert (held.start_offset, held.end_offset) == (120, 130)
    assert (world.records(), filler == rest) == (before, False)
    world.assert_sound()


def test_gc2_gc19_a_ratio_of_exactly_a_fifth_is_not_minor(world: CompactionWorld) -> None:
    """A compacted stream with four fifths of the bytes was deleted, beside a stream that is kept for ever."""
    world.upload(two_streams(0, size_bytes=100_000 - 208, kept=20_000))  # 208 of index and footer
    world.trim(0, 10)
    (ratio,) = [each.ratio for members in planned(world).work.units.values() for each in members]
    assert ratio == 0.2
    assert collected(world.context, collection(MINOR)).units == ()
    assert len(collected(world.context, collection(MAJOR)).units) == 1


def test_gc19_the_total_is_smaller_after_the_grace_period(world: CompactionWorld) -> None:
    keyed = topic_stream(world, "keyed", {"cleanup.policy": "compact"})
    kept = topic_stream(world, "kept", {"retention.ms": "-1"})
    world.upload({keyed: [(0, 10, 8000)], kept: [(0, 10, 2000)]})
    total = bucket_bytes(world)
    before = world.records()
    report = compact(world.context, InProcessRunner(), YOUNG)
    assert (report.objects_before, report.stream_objects) == (1, 1), "split off without a partner"
    assert world.records() == before
    world.trim(keyed, 10)  # key compaction has removed all of its records
    all_dead_destroyed(world.context)
    swept(world)
    assert bucket_bytes(world) < total * 0.25
    world.assert_sound()


def test_gc20_what_comes_out_is_grouped_by_retention_class(world: CompactionWorld) -> None:
    short = topic_stream(world, "short", {"retention.ms": "60000"})
    keyed = topic_stream(world, "keyed", {"cleanup.policy": "compact"})
    longs = [topic_stream(world, f"long{at}", {"retention.ms": "-1"}) for at in range(2)]
    gone = topic_stream(world, "gone", {})
    world.upload({gone: [(0, 10, 9000)], short: [(0, 10, 300)], keyed: [(0, 10, 100)]})
    world.upload({gone: [(10, 20, 9000)], **{each: [(0, 10, 300)] for each in longs}})
    world.trim(gone, 20)
    before = world.records()
    collected(world.context)
    objects = world.metadata.image.objects
    together = [{held.stream_id for held in objects[each].ranges} for each in world.ids(SSO)]
    alone = sorted(held.stream_id for each in world.ids(SO) for held in objects[each].ranges)
    assert (together, alone, world.records()) == ([set(longs)], sorted([short, keyed]), before)


def test_gc5_small_ones_are_put_together(world: CompactionWorld) -> None:
    world.upload(*({stream: [(0, 10, 500)]} for stream in range(5)))
    before = world.records()
    report = collected(world.context, collection(MINOR, GcSettings()))
    (done,) = report.units
    assert (done.objects_before, done.objects_after) == (5, 1)
    assert world.records() == before
    again = planned(world, MINOR, settings=GcSettings())
    assert not again.units and [each.reason for each in again.unplanned] == [NO_PARTNER]


def test_small_ones_of_many_classes_are_not_made_more(world: CompactionWorld) -> None:
    streams = [topic_stream(world, f"t{at}", {"retention.ms": str(10**at)}) for at in (3, 7, 8)]
    world.upload({each: [(0, 10, 500)] for each in streams[:2]}, {streams[2]: [(0, 10, 500)]})
    plan = planned(world, MINOR, settings=GcSettings())
    assert not plan.units
    assert "not reduce the number of objects" in plan.unplanned[0].reason


def test_rounds_are_bounded_and_each_is_committed_by_itself(world: CompactionWorld) -> None:
    for first in range(0, 10, 2):
        world.upload(two_streams(first))
        world.trim(first, 10)
    kind = collection(settings=settings(round_bytes=400))
    watch = Watch(kind.name, world.clock)
    report = collected(world.context, kind, budget=Budget(bytes_max=1))
    assert (len(report.units), len(report.postponed)) == (1, 2), "as many as the budget allows, one at least"
    assert len(kind.plan(world.context, Scope(), watch).units) == 2
    assert len(collected(world.context, kind).units) == 2
    world.assert_sound()


def test_no_more_objects_are_looked_into_than_the_limit(world: CompactionWorld) -> None:
    for first in range(0, 6, 2):
        world.upload(two_streams(first, kept=200 + first))
        world.trim(first, 10)
    plan = planned(world, settings=settings(objects_max=2))
    assert plan.has_remaining
    (members,) = plan.work.units.values()
    assert [each.object_id for each in members] == [0, 1], "the smallest ratio first"
    assert not planned(world, settings=settings(objects_max=3)).has_remaining


def test_forced_everything_with_a_dead_block(world: CompactionWorld) -> None:
    world.upload({0: [(0, 10, 100), (10, 20, 900)]}, {1: [(0, 10, 1000)]})
    world.trim(0, 10)
    assert collected(world.context).units == ()
    (done,) = collected(world.context, is_forced=True).units
    assert (done.outcome, done.objects_before) == (Outcome.DONE, 1)
    assert collected(world.context, is_forced=True).units == ()


def test_by_topic(world: CompactionWorld) -> None:
    streams = [topic_stream(world, name, {}) for name in ("one", "two")]
    for stream in streams:
        world.upload({stream: [(0, 10, 900), (10, 20, 100)]})
        world.trim(stream, 10)
    assert len(collected(world.context, topics=frozenset({"two"})).units) == 1
    (members,) = planned(world).work.units.values()
    assert [each.metadata.ranges[0].stream_id for each in members] == [streams[0]]


def test_nothing_is_begun_that_there_is_no_room_for(world: CompactionWorld) -> None:
    for first, kept in ((0, 100), (2, 200)):
        world.upload(two_streams(first, kept=kept))
        world.trim(first, 10)
    room_bytes = 250
    plan = planned(world, settings=settings(round_bytes=1), quota_bytes=bucket_bytes(world) + room_bytes)
    assert [unit.bytes_written for unit in plan.units] == [100]
    assert [(each.name, each.reason) for each in plan.unplanned] == [("object 1", NO_ROOM)]


# -- what goes wrong --------------------------------------------------------------------------------------


def test_gc13_a_bad_footer_and_an_absurd_length_are_left_alone(world: CompactionWorld) -> None:
    for first in range(0, 8, 2):
        world.upload(two_streams(first))
        world.trim(first, 10)
    world.damage(0, -1)  # the magic
    world.damage(1, -64 + 8)  # the length of the index, so the checksum of the footer
    world.damage(2, -100)  # the index itself
    before = world.records({3})
    report = collected(world.context)
    assert [each.objects_before for each in report.units] == [1]
    assert {each.name for each in planned(world).unplanned} == {"object 0", "object 1", "object 2"}
    assert all("index cannot be read" in each.reason for each in planned(world).unplanned)
    assert world.ids(SSO) >= {0, 1, 2}
    assert world.records(world.ids(SSO) - {0, 1, 2}) == before


def test_gc13_one_whose_block_is_damaged_fails_alone_and_is_tried_again_later(world: CompactionWorld) -> None:
    for first in range(0, 12, 2):
        world.upload(two_streams(first))
        world.trim(first, 10)
    world.damage(3, 900)  # in the block that is live
    runner = Interrupting()
    report = collected(world.context, runner=runner)
    done, failed = report.units
    assert (done.outcome, done.objects_before) == (Outcome.DONE, 5)
    assert (failed.outcome, failed.name) == (Outcome.FAILED, "object 3")
    assert "DamagedBlock" in failed.text
    assert runner.runs == 2, "the others are done at the second attempt, however many they are"
    assert 3 in world.ids(SSO)
    (aside,) = all_set_aside(world.metadata.image)
    assert (aside.kind, aside.name, aside.failures) == ("major-gc", "object 3", 1)
    again = collected(world.context)
    assert (again.units, again.postponed) == ((), ("object 3",))
    for failures in (2, 3):
        world.clock.advance_ms(SET_ASIDE_MS_MAX)
        (failed,) = collected(world.context).units
        assert (failed.name, failed.outcome) == ("object 3", Outcome.FAILED)
        (aside,) = all_set_aside(world.metadata.image)
        assert aside.failures == failures
    world.damage(3, 900)  # an operator has restored it
    world.clock.advance_ms(SET_ASIDE_MS_MAX)
    assert collected(world.context).units[0].outcome is Outcome.DONE
    assert [*all_set_aside(world.metadata.image)] == []
    world.assert_sound()


def test_gc13_each_that_cannot_be_read_is_reported_by_its_own_name(world: CompactionWorld) -> None:
    for first in range(0, 12, 2):
        world.upload(two_streams(first))
        world.trim(first, 10)
    before = world.records(world.ids(SSO) - {1, 3})
    world.damage(1, 900)
    gone_later = Interrupting(lambda: world.store.delete([object_key(3)]))
    report = collected(world.context, runner=gone_later)
    done, *failed = report.units
    assert (done.outcome, done.objects_before, gone_later.runs) == (Outcome.DONE, 4, 3)
    assert [(each.outcome, each.name) for each in failed] == [
        (Outcome.FAILED, "object 1"),
        (Outcome.FAILED, "object 3"),
    ]
    assert ["DamagedBlock" in failed[0].text, "ObjectNotFound" in failed[1].text] == [True, True]
    assert {aside.name for aside in all_set_aside(world.metadata.image)} == {"object 1", "object 3"}
    assert world.ids(SSO) >= {1, 3}
    assert world.records(world.ids(SSO) - {1, 3}) == before


def test_gc13_a_round_of_nothing_but_damaged_objects_fails_by_its_own_name(world: CompactionWorld) -> None:
    for first in (0, 2):
        world.upload(two_streams(first))
        world.trim(first, 10)
    for object_id in (0, 1):
        world.damage(object_id, 900)
    (failed,) = collected(world.context).units
    assert (failed.outcome, failed.name) == (Outcome.FAILED, "objects from 0")
    assert "DamagedBlock" in failed.text
    assert world.ids(SSO) == {0, 1}
    assert [*world.store.store.list_multipart()] == []


def test_an_object_that_contradicts_the_image_is_left_alone(world: CompactionWorld) -> None:
    world.upload(two_streams(0))
    world.trim(0, 10)
    image = world.metadata.image
    held = msgspec.structs.replace(image.streams[1], ranges=())
    streams = {**dict(image.streams.items()), 1: held}
    odd = msgspec.structs.replace(image, streams=streams)
    context = msgspec.structs.replace(world.context, metadata=_Fixed(odd))
    kind = collection()
    plan = kind.plan(context, Scope(), Watch(kind.name, world.clock))
    assert not plan.units and "does not list" in plan.unplanned[0].reason


class _Fixed:
    def __init__(self, image: object) -> None:
        self.image = image

    def refresh(self) -> object:
        return self.image

    def now_ms(self) -> int:
        return 0


def test_gc8_of_two_drivers_one_commits(world: CompactionWorld) -> None:
    world.upload(two_streams(0))
    world.trim(0, 10)
    before = world.records()
    other = world.another_context()
    keys = world.bucket_keys()

    def overtaken() -> None:
        world.metadata.execute(StartJob("another", "other", HOUR_MS))
        assert (
            collected(other, collection(MINOR, settings(minor_threshold=0.3))).units[0].outcome
            is Outcome.DONE
        )

    (report,) = collected(world.context, runner=Interrupting(overtaken)).units
    assert report.outcome is Outcome.NOT_NEEDED
    assert world.records() == before
    assert len(world.bucket_keys()) == len(keys) + 1, "the outputs of the one that was refused are gone"
    world.assert_sound()


def test_a_round_whose_coverage_is_refused_fails_with_the_reason(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CoverageNotMatched("stream 0: no new object holds the live range [0, 10); plan again")

    world.upload(two_streams(0))
    world.trim(0, 10)
    monkeypatch.setattr(committing, "check_coverage", refuse)
    (report,) = collected(world.context).units
    assert report.outcome is Outcome.FAILED and "no new object holds the live range" in report.text


def test_sources_that_went_between_plan_and_work_are_left_out(world: CompactionWorld) -> None:
    for first in (0, 2):
        world.upload(two_streams(first))
        world.trim(first, 10)
    plan = planned(world)
    world.trim(1, 10)
    all_dead_destroyed(world.context)
    job = world.metadata.execute(StartJob("major-gc", "test", HOUR_MS))
    watch = Watch("major-gc", world.clock)
    names = [unit.name for unit in plan.units]
    attempt = Attempt(world.context, InProcessRunner, job, watch)
    (report,) = collection().carry_out(plan, names, attempt)
    assert (report.outcome, report.objects_before) == (Outcome.DONE, 1)
    (report,) = collection().carry_out(plan, names, attempt)
    assert report.outcome is Outcome.NOT_NEEDED


def test_a_job_that_was_taken_over_ends_the_run(world: CompactionWorld) -> None:
    world.upload(two_streams(0))
    world.trim(0, 10)
    plan = planned(world)
    attempt = Attempt(world.context, InProcessRunner, 77, Watch("major-gc", world.clock))
    with pytest.raises(JobNotRunning):
        next(collection().carry_out(plan, [plan.units[0].name], attempt))


@pytest.mark.parametrize("happens", ["trim", "delete", "policy"])
def test_what_happens_to_a_stream_meanwhile_costs_the_others_nothing(
    world: CompactionWorld, happens: str
) -> None:
    moving = topic_stream(world, "moving", {})
    world.upload(
        {moving: [(0, 10, 100), (10, 20, 100)], moving + 2: [(0, 10, 2000)], moving + 3: [(0, 10, 100)]}
    )
    world.trim(moving + 2, 10)
    topic_id = world.metadata.image.topic_ids["moving"]
    acts: dict[str, Callable[[], object]] = {
        "trim": lambda: world.trim(moving, 10),
        "delete": lambda: world.delete_topic(topic_id),
        "policy": lambda: world.metadata.execute(AlterTopicConfigs(topic_id, {"cleanup.policy": "compact"})),
    }
    (report,) = collected(world.context, runner=Interrupting(acts[happens])).units
    assert report.outcome is Outcome.DONE
    swept(world)
    world.assert_sound()
    expected = {"trim": 1, "delete": 0, "policy": 2}[happens]
    assert len(world.records().get(moving, [])) == expected
    assert len(world.records()[moving + 3]) == 1


# -- how fast ---------------------------------------------------------------------------------------------


def test_gc16_copying_at_a_limited_rate(world: CompactionWorld) -> None:
    for first in range(0, 20, 2):
        world.upload(two_streams(first, size_bytes=10_000, kept=1000))
        world.trim(first, 10)
    began_ms = world.clock.monotonic_ms()
    kind = collection(settings=settings(copy_bytes_per_second=100, round_bytes=1000))
    report = collected(world.context, kind)
    assert sum(unit.bytes_read for unit in report.units) == 10_000
    assert world.clock.monotonic_ms() - began_ms >= 100_000


def test_gc16_copies_inside_the_store_are_limited_as_well(world: CompactionWorld) -> None:
    world.make_streams(1)
    world._commit({0: [(0, 10, 5000), (10, 20, 1000)]}, SO, 0)
    world.trim(0, 10)
    began_ms = world.clock.monotonic_ms()
    collected(world.context, collection(settings=settings(copy_bytes_per_second=100)))
    assert 10_000 <= world.clock.monotonic_ms() - began_ms < 11_000


def test_gc16_a_cancelled_run_stops_inside_the_object_under_way(world: CompactionWorld) -> None:
    """200 bytes of each object at 100 bytes a second are two seconds for each."""
    for first in (0, 2, 4):
        world.upload(two_streams(first))
        world.trim(first, 10)
    block, began_ms = world.clock.block_ms, world.clock.monotonic_ms()
    watch = Watch("major-gc", world.clock)

    def waiting(duration_ms: float) -> None:
        block(duration_ms)
        if world.clock.monotonic_ms() - began_ms >= 3000:
            watch.cancel("Ctrl-C")

    world.clock.block_ms = waiting  # type: ignore[method-assign]
    kind = collection(settings=settings(copy_bytes_per_second=100, round_bytes=1))
    runner = Interrupting()
    report = collected(world.context, kind, runner=runner, watch=watch)
    assert report.is_cancelled and [each.name for each in report.done] == ["objects from 0"]
    assert report.postponed == ("objects from 1", "objects from 2")
    assert runner.runs == 2, "the second object was under way"
    assert world.clock.monotonic_ms() - began_ms <= 3000 + STEP_MS, "no further wait"
    assert {1, 2} < world.ids(SSO)
    assert not [*all_set_aside(world.metadata.image)]
    assert len(collected(world.context, collection()).done) == 1, "the rest is done by the next run"
    world.assert_sound()


def test_the_plan_says_what_it_costs(world: CompactionWorld) -> None:
    world.upload(two_streams(0))
    world.trim(0, 10)
    (unit,) = planned(world).units
    assert unit.name == "objects from 0"
    assert unit.reason == "1 stream set object, 20% live: 800 B will be freed"
    assert unit.detail["written for each byte freed"] == "0.25"
    assert MIB > unit.bytes_read == unit.bytes_written == 200


def test_the_plan_says_that_a_merge_of_small_objects_frees_nothing(world: CompactionWorld) -> None:
    for first in (0, 2):
        world.upload(two_streams(first))
    kind = collection(settings=settings(target_size_bytes=10 * MIB, major_threshold=0.5))
    (unit,) = kind.plan(world.context, Scope(), Watch(kind.name, world.clock)).units
    assert unit.reason == "2 small stream set objects, all live, become one: nothing will be freed"
    assert unit.detail["live ratio"].endswith(" of the target size")
    assert unit.detail["written for each byte freed"] == "nothing is freed"


# -- the world ------------------------------------------------------------------------------------------


def topic_stream(world: CompactionWorld, name: str, configs: dict[str, str]) -> int:
    topic_id = f"{len(world.metadata.image.topics):032}"
    topic = world.metadata.execute(CreateTopic(0, 1, name, topic_id, 1, configs=configs))
    world.metadata.execute(OpenStream(0, 1, topic.partitions[0].data_stream_id, 0))
    return topic.partitions[0].data_stream_id


def bucket_bytes(world: CompactionWorld) -> int:
    return sum(each.size_bytes for each in world.store.store.list())


def swept(world: CompactionWorld) -> None:
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    committed = {object_key(each) for each in world.ids(SSO) | world.ids(SO)}
    assert world.bucket_keys() == committed
