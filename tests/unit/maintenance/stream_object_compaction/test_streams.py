"""Which streams: topics, their configuration, buckets."""

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.kind import Outcome
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction, StreamObjectPlan
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
from siltstone.object_formats.object_ranges import ranges_of_entries
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from support.compaction_world import CompactionWorld
from support.objects import read_object
from support.stream_object_world import SMALL, add_stream_object, encode_blocks, joined_up, stores_opened


def make_topic(world: CompactionWorld, name: str, **configs: str) -> int:
    """With one partition, opened; the id of its data stream."""
    given = {key.replace("_", "."): text for key, text in configs.items()}
    topic = world.metadata.execute(CreateTopic(0, 1, name, f"{len(name):032x}", 1, configs=given))
    stream_id = topic.partitions[0].data_stream_id
    world.metadata.execute(OpenStream(0, 1, stream_id, 0))
    return stream_id


def plan_of(world: CompactionWorld, *topics: str) -> StreamObjectPlan:
    scope = Scope(topics=frozenset(topics) if topics else None)
    return StreamObjectCompaction(SMALL).plan(world.context, scope, Watch("so-compaction", world.clock))


def test_units_say_which_partition_they_are_of(world: CompactionWorld) -> None:
    flights, airports = make_topic(world, "flights"), make_topic(world, "airports")
    for stream_id in (flights, airports):
        for at in range(2):
            add_stream_object(world, stream_id, (at, at + 1, 100))
    (unit,) = plan_of(world, "airports").units
    assert (unit.name, unit.topic, unit.partition) == (f"stream-{airports}-0", "airports", 0)
    assert [unit.topic for unit in plan_of(world).units] == ["flights", "airports"]


def clean(world: CompactionWorld, stream_id: int, compacted: tuple[int, ...], end: int) -> int:
    """As key compaction does: one object in the place of others, and the stream is clean up to its end."""
    job_id = world.metadata.execute(StartJob("key-compaction", "a test", HOUR_MS))
    object_id = world.metadata.execute(PrepareObjects(1, HOUR_MS, job_id=job_id))
    built = encode_blocks(stream_id, [(0, end, 200)])
    world.store.store.put(object_key(object_id), built.buffers)
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
    assert "bucket 1 is not in the settings" in report.failed[0].text
