"""Plans: which groups, of which streams and topics, and what is said of them."""

from collections.abc import Sequence

import msgspec
import pytest

from siltstone.carrying.pipeline.kind import Attempt, Budget, Outcome, Plan, Scope
from siltstone.carrying.pipeline.watch import Cancelled, Watch
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.metadata.commands import (
    CommitKeyCompaction,
    CreateTopic,
    NewObject,
    OpenStream,
    PrepareObjects,
    StartJob,
)
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectKind, object_key
from siltstone.object_formats.object_layout import ranges_of_entries
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, Task
from support.engine.replacing import replace_object
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.stream_object_world import SMALL, add_stream_object, encode_blocks, joined_up


def settings(**changes: float) -> StreamObjectCompactionSettings:
    return msgspec.structs.replace(SMALL, **changes)


def plan_of(
    world: CompactionWorld, scope: Scope | None = None, used: StreamObjectCompactionSettings = SMALL
) -> Plan:
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
    assert unit.reason == "3 stream objects are contiguous, and the largest holds 62% of their 3.1 KiB"
    assert (unit.bytes_read, unit.objects_before, unit.objects_after) == (1_200, 3, 1)
    assert unit.detail == {"level": "major", "copied": "2.0 KiB"}
    assert world.store.history == []
    assert world.metadata.refresh().version == version


def test_small_ones_are_a_reason_of_their_own(world: CompactionWorld) -> None:
    for at in range(3):
        add_stream_object(world, 0, (at, at + 1, 600))
    used = settings(small_object_bytes=2_000, settled_ms=60_000)
    (unit,) = plan_of(world, used=used).units
    assert unit.reason == "3 stream objects are contiguous and small: 1.8 KiB together"
    assert unit.detail == {"level": "minor", "copied": "0 B"}


def test_forced_waits_for_nothing(world: CompactionWorld) -> None:
    for at, size in enumerate([5_000, 100]):
        add_stream_object(world, 0, (at, at + 1, size))
    used = settings(settled_ms=60_000, largest_share_max=0.6)
    assert plan_of(world, used=used).units == []
    assert "committed less than 1 minutes ago" in plan_of(world, used=used).unplanned[0].reason
    assert len(plan_of(world, Scope(is_forced=True), used).units) == 1


def test_streams_of_no_topic_are_left_to_runs_of_everything(world: CompactionWorld) -> None:
    for at in range(2):
        add_stream_object(world, 0, (at, at + 1, 100))
    assert plan_of(world, Scope(topics=frozenset({"flights"}))).units == []


def test_nothing_is_left_to_do(world: CompactionWorld) -> None:
    for at in range(3):
        add_stream_object(world, 0, (at, at + 1, 100))
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


def make_topic(world: CompactionWorld, name: str, **configs: str) -> int:
    """With one partition, opened; the id of its data stream."""
    given = {key.replace("_", "."): text for key, text in configs.items()}
    topic = world.metadata.execute(CreateTopic(0, 1, name, f"{len(name):032x}", 1, configs=given))
    stream_id = topic.partitions[0].data_stream_id
    world.metadata.execute(OpenStream(0, 1, stream_id, 0))
    return stream_id


def test_units_say_which_partition_they_are_of(world: CompactionWorld) -> None:
    flights, airports = make_topic(world, "flights"), make_topic(world, "airports")
    for stream_id in (flights, airports):
        for at in range(2):
            add_stream_object(world, stream_id, (at, at + 1, 100))
    (unit,) = plan_of(world, Scope(topics=frozenset({"airports"}))).units
    assert (unit.name, unit.topic, unit.partition) == (f"stream-{airports}-0", "airports", 0)
    assert [unit.topic for unit in plan_of(world).units] == ["flights", "airports"]


def clean(world: CompactionWorld, stream_id: int, compacted: tuple[int, ...], end: int) -> int:
    """As key compaction does: one object in the place of others, and the stream is clean up to its end."""
    job_id = world.metadata.execute(StartJob("key-compaction", "a test", HOUR_MS))
    object_id = world.metadata.execute(PrepareObjects(1, HOUR_MS, job_id=job_id))
    built = encode_blocks(stream_id, [(0, end, 200)])
    replace_object(world.store.store, object_key(object_id), built.buffers)
    new = NewObject(object_id, built.size_bytes, ranges_of_entries(built.entries, object_id))
    (topic,) = world.metadata.refresh().topics.values()
    world.metadata.execute(
        CommitKeyCompaction(
            job_id, stream_id, topic.topic_id, topic.configs, compacted, (new,), end, world.clock.now_ms() + 1
        )
    )
    return object_id


def test_what_is_clean_is_not_joined_with_what_is_not(world: CompactionWorld) -> None:
    stream_id = make_topic(world, "prices", cleanup_policy="compact")
    old = tuple(add_stream_object(world, stream_id, (at, at + 1, 100)) for at in range(2))
    cleaned = clean(world, stream_id, old, 2)
    dirty = {add_stream_object(world, stream_id, (at, at + 1, 100)) for at in range(2, 5)}
    before = world.records()
    (done,) = joined_up(world).units
    assert (done.name, done.outcome, done.objects_before) == (f"stream-{stream_id}-2", Outcome.DONE, 3)
    left = world.ids(ObjectKind.STREAM_OBJECT)
    assert cleaned in left and not dirty & left and len(left) == 2
    assert world.metadata.image.streams[stream_id].cleaned_offset == 2
    assert world.records() == before
    world.assert_sound()


@pytest.mark.parametrize(
    ("changes", "waves"),
    [({}, [5]), ({"group_bytes_max": 700}, [3, 2]), ({"group_objects_max": 4}, [2, 2, 1])],
)
def test_a_wave_holds_no_more_than_the_largest_group_may(
    world: CompactionWorld, changes: dict[str, float], waves: list[int]
) -> None:
    """Five groups of two objects, 200 bytes each: as many runs of tasks."""
    runs: list[int] = []

    class Counting(InProcessRunner):
        def run(
            self, task: Task, inputs: Sequence[bytes], on_progress: object = None, label: str = ""
        ) -> list[bytes]:
            runs.append(len(inputs))
            return super().run(task, inputs)

    for stream in range(5):
        for at in range(2):
            add_stream_object(world, stream, (at, at + 1, 100))
    report = joined_up(world, settings(**changes), runner=Counting())
    assert [each.outcome for each in report.units] == [Outcome.DONE] * 5
    assert runs == waves


def test_a_run_that_was_cancelled_begins_no_wave(world: CompactionWorld) -> None:
    for at in range(3):
        add_stream_object(world, 0, (at, at + 1, 600))
    kind = StreamObjectCompaction(SMALL)
    watch = Watch(kind.name, world.clock)
    plan = kind.plan(world.context, Scope(), watch)
    job_id = world.metadata.execute(StartJob("stream-object-compaction", "test", HOUR_MS))
    watch.cancel("Ctrl-C")
    attempt = Attempt(world.context, InProcessRunner, job_id, watch)
    version = world.metadata.image.version
    with pytest.raises(Cancelled, match="Ctrl-C"):
        list(kind.carry_out(plan, [unit.name for unit in plan.units], attempt))
    assert world.metadata.image.version == version
