"""The load of a batch: its buckets, the one commit with its three outcomes, and the clean-up of a refused load."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.carrying.outcomes import TRIES_MAX
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.metadata.buckets import SetWriteStrategy, bucket_list_of
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import CloseStream, OpenStream
from siltstone.metadata.refusals import SinkStreamMoved, SinkTakenOver, StreamNotClosed
from siltstone.metadata.sinks import (
    OBJECTS,
    BeginSinkBatch,
    CommitSinkBatch,
    SinkBatch,
    SinkState,
    sink_of,
)
from siltstone.model.buckets import StrategyType, WriteStrategy
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.health import PROBE_PREFIX
from siltstone.object_store.metadata_mark import MetadataOlderThanBucket
from siltstone.object_store.port import StoreDenied
from siltstone.offline.output_buckets import TooFewBuckets
from siltstone.sinking import load as module
from siltstone.sinking.failures import ManifestDamaged, SinkOutcomeUnknown
from siltstone.sinking.load import COPIES_MAX, load_batch
from siltstone.sinking.load_plan import plan_load
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.plan import SinkPlan, plan_sink
from siltstone.sinking.staging import StagedPart
from support.maintenance.keyed_world import KeyedWorld, keyed_world
from support.maintenance.spread import ONE_BUCKET, Spread
from support.metadata.faulty_log import Fault

PARTITIONS = 4


class World:
    def __init__(self, store: KeyedWorld) -> None:
        self.store = store
        self.streams = store.topic(partitions=PARTITIONS, cleanup_policy="delete")
        for stream in self.streams:
            store.metadata.execute(CloseStream(0, 1, stream, 0))
        self.plan: SinkPlan = plan_sink(store.context, [("value", "binary")], "t", None)
        self.begin("a")
        self.steps: list[str] = []
        self.at: dict[str, Callable[[], object]] = {}

    def begin(self, driver: str) -> None:
        now_ms = self.store.clock.now_ms()
        batch = SinkBatch(OBJECTS, "query", 0, SinkState.INTENT, driver, -1, "staging/out/0/m", 9, 0, "value")
        self.store.metadata.execute(BeginSinkBatch("out", batch, now_ms))

    def manifest(self) -> SinkManifest:
        parts, inline = [], b""
        for number, stream in enumerate(self.streams):
            data = bytes(build_batch([Record(timestamp_ms=1, key=None, value=b"v%d" % number)] * 3))
            topic_id = self.store.topic_named().topic_id
            parts.append(StagedPart("t", topic_id, number, stream, "", len(inline), len(data), 3))
            inline += data
        return SinkManifest(1, tuple(parts), inline)

    def step(self, name: str) -> None:
        self.steps.append(name)
        self.at.pop(name, lambda: None)()

    def load(self, manifest: SinkManifest | None = None, driver: str = "a") -> None:
        command = CommitSinkBatch("out", 0, driver, ())
        load_batch(self.store.another_context(), self.plan, manifest or self.manifest(), command, self.step)

    def state(self) -> SinkState:
        found = sink_of(self.store.image, "out")
        assert found is not None
        return found.state

    def ends(self) -> list[int]:
        return [self.store.stream(each).end_offset for each in self.streams]

    def keys(self) -> list[str]:
        """Returns the keys of the data objects in all buckets."""
        keys = {object_key(each) for each in self.store.image.objects}
        return sorted(
            each.key for store in self.store.stores.values() for each in store.list() if each.key in keys
        )


@pytest.fixture
def world() -> Iterator[World]:
    with keyed_world(ONE_BUCKET) as store:
        yield World(store)


@pytest.fixture
def spread(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(module, "plan_load", partial(plan_load, split_size_bytes=1))
    with keyed_world(Spread(3, StrategyType.ROUND_ROBIN)) as store:
        yield World(store)


def test_a_batch_is_written_and_committed_once(world: World) -> None:
    world.load()
    assert (world.state(), world.ends(), world.steps) == (
        SinkState.DONE,
        [3] * PARTITIONS,
        ["prepared", "copied"],
    )
    assert len(world.keys()) == 1
    assert [value for _, _, value in world.store.records(world.streams[1])] == ["v1"] * 3


def test_each_object_goes_to_the_bucket_of_its_stream_and_one_that_takes_no_writes_is_left_out(
    spread: World,
) -> None:
    world = spread

    probed: list[str] = []

    def denied(name: str, key: str) -> None:
        if name == "get_range" and key.startswith(PROBE_PREFIX):
            probed.append(key)
            raise StoreDenied("away")

    world.store.stores[1].before = denied
    world.load()
    assert world.store.stores[0].url == world.plan.bucket_url
    found = [each for each in world.store.image.objects.values() if each.state is ObjectState.COMMITTED]
    buckets = {each.bucket_id for each in found}
    assert probed, "or nothing was denied"
    assert len(found) == PARTITIONS and buckets <= {0, 2} and world.ends() == [3] * PARTITIONS
    for each in found:
        assert (
            world.store.stores[each.bucket_id].head(object_key(each.object_id)).size_bytes == each.size_bytes
        )


@pytest.fixture
def replicated() -> Iterator[World]:
    with keyed_world(Spread(3)) as store:
        store.metadata.execute(SetWriteStrategy(WriteStrategy(StrategyType.REPLICATION, copies=2)))
        yield World(store)


def test_replication_has_each_object_in_all_its_buckets_before_the_commit(replicated: World) -> None:
    world = replicated
    strategy = bucket_list_of(world.store.image).strategy
    world.load()
    (found,) = (each for each in world.store.image.objects.values() if each.state is ObjectState.COMMITTED)
    assert len(found.every_bucket_id) == strategy.copies >= 2 and not found.uncertain
    for bucket_id in found.every_bucket_id:
        assert world.store.stores[bucket_id].head(object_key(found.object_id)).size_bytes == found.size_bytes
    assert world.ends() == [3] * PARTITIONS


def test_a_load_that_gets_into_too_few_buckets_is_not_committed(
    replicated: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = replicated
    copied = bucket_list_of(world.store.image).strategy.in_order(world.store.stores)[1]

    def denied(key: str, buffers: object) -> None:
        raise StoreDenied("full")

    world.at["prepared"] = lambda: monkeypatch.setattr(world.store.stores[copied], "put", denied)
    with pytest.raises(TooFewBuckets, match=f"bucket {copied} takes no writes: full"):
        world.load()
    assert (world.keys(), world.ends(), world.state()) == ([], [0] * PARTITIONS, SinkState.INTENT)


def test_rule_11_a_bucket_that_has_seen_newer_metadata_gets_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def older(_: object, bucket_id: int) -> None:
        asked.append(bucket_id)
        raise MetadataOlderThanBucket("older")

    monkeypatch.setattr(module, "check_may_write", older)
    version = world.store.image.version
    with pytest.raises(MetadataOlderThanBucket):
        world.load()
    assert (asked, world.steps, world.store.image.version) == ([0], [], version)


@pytest.mark.parametrize("fault", [Fault.DONE, Fault.LATE, Fault.LOST])
def test_sw11_a_commit_with_an_unknown_outcome_is_asked_again(world: World, fault: Fault) -> None:
    world.at["copied"] = lambda: world.store.log.faults.extend([fault])
    world.load()
    assert (world.state(), world.ends(), len(world.keys())) == (SinkState.DONE, [3] * PARTITIONS, 1)


def test_sw11_a_log_that_never_tells_leaves_everything_where_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.at["copied"] = lambda: world.store.log.faults.extend([Fault.LOST] * 8 * TRIES_MAX)
    with pytest.raises(SinkOutcomeUnknown, match="batch 0 of sink out"):
        world.load()
    assert (world.ends(), len(world.keys())) == ([0] * PARTITIONS, 1)
    world.store.log.faults.clear()
    world.load()
    assert world.ends() == [3] * PARTITIONS


def test_rule_5_a_refusal_after_an_unknown_outcome_permits_no_deletion(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit may still be applied, as far as this process knows."""
    context = world.store.another_context()
    real, asked = context.metadata.execute, []

    def execute(command: Any) -> Any:
        if isinstance(command, CommitSinkBatch) and not asked:
            asked.append(command)
            world.store.metadata.execute(OpenStream(0, 1, world.streams[2], 1))
            raise CommitUnknown("the connection was lost")
        return real(command)

    monkeypatch.setattr(context.metadata, "execute", execute)
    with pytest.raises(StreamNotClosed):
        load_batch(context, world.plan, world.manifest(), CommitSinkBatch("out", 0, "a", ()), world.step)
    assert (len(asked), len(world.keys())) == (1, 1)


def test_two_loads_of_one_topic_follow_each_other(world: World) -> None:
    """The second one finds that the ends of the streams have moved, deletes the objects that it wrote, and writes them
    again."""
    moves = iter(range(COPIES_MAX - 1))

    def moved() -> None:
        stream = world.streams[0]
        epoch = world.store.stream(stream).epoch + 1
        world.store.metadata.execute(OpenStream(0, 1, stream, epoch))
        world.store.metadata.execute(CloseStream(0, 1, stream, epoch))
        if next(moves, None) is not None:
            world.at["copied"] = moved

    world.at["copied"] = moved
    next(moves)
    world.load()
    assert world.steps == ["prepared", "copied"] * COPIES_MAX
    assert (world.ends(), len(world.keys())) == ([3] * PARTITIONS, 1)
    assert world.store.stream(world.streams[0]).epoch > world.store.stream(world.streams[1]).epoch


def test_streams_that_never_stand_still_end_the_load(world: World) -> None:
    def moved() -> None:
        stream = world.streams[0]
        epoch = world.store.stream(stream).epoch + 1
        world.store.metadata.execute(OpenStream(0, 1, stream, epoch))
        world.store.metadata.execute(CloseStream(0, 1, stream, epoch))
        world.at["copied"] = moved

    world.at["copied"] = moved
    with pytest.raises(SinkStreamMoved):
        world.load()
    assert (world.steps.count("copied"), world.keys(), world.state()) == (COPIES_MAX, [], SinkState.INTENT)


def test_sw8_sw10_what_was_written_for_a_refused_commit_is_deleted(world: World) -> None:
    world.at["copied"] = lambda: world.store.metadata.execute(OpenStream(0, 1, world.streams[2], 1))
    with pytest.raises(StreamNotClosed):
        world.load()
    assert (world.keys(), world.ends()) == ([], [0] * PARTITIONS)
    world.store.metadata.execute(CloseStream(0, 1, world.streams[2], 1))
    world.at["copied"] = lambda: world.begin("b")
    with pytest.raises(SinkTakenOver):
        world.load()
    assert (world.keys(), world.ends()) == ([], [0] * PARTITIONS)
    with pytest.raises(SinkTakenOver):
        world.load()
    world.load(driver="b")
    assert world.ends() == [3] * PARTITIONS


def test_a_damaged_part_ends_the_load_and_leaves_no_object(spread: World) -> None:
    manifest = spread.manifest()
    damaged = bytearray(manifest.inline)
    damaged[-1] ^= 1
    with pytest.raises(ManifestDamaged):
        spread.load(replace(manifest, inline=bytes(damaged)))
    assert (spread.keys(), spread.ends()) == ([], [0] * PARTITIONS)


def test_objects_that_cannot_be_deleted_now_are_left_to_the_sweep(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def deny(name: str, key: str) -> Any:
        if name == "delete":
            raise StoreDenied("no")
        return None

    world.store.store.before = deny
    world.at["copied"] = lambda: world.store.metadata.execute(OpenStream(0, 1, world.streams[2], 1))
    with pytest.raises(StreamNotClosed):
        world.load()
    assert len(world.keys()) == 1 and "are left to the sweep: no" in caplog.text
