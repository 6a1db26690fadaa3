"""SW12: a partition to which sinks have loaded records without a broker is opened with the sizes and times that the
metadata have."""

from typing import Any

from siltstone.broker.partitions.opening import loaded_until
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.entities import SINK_NODE, OwnerRange
from siltstone.metadata.sinks import OBJECTS, BeginSinkBatch, CommitSinkBatch, SinkBatch, SinkState
from siltstone.object_store.buckets import Buckets
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks import source_bytes
from siltstone.sinking.load import load_batch
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.plan import PLAN_VERSION, SinkPlan
from siltstone.sinking.staging import StagedPart
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.broker.partition_state import ReadOffsets, knowledge
from support.kafka.kafka_requests import NOW_MS, produce_request, row_of, sequenced
from support.scenarios import scenario


class Loads:
    """The driver of a sink, which is not in the process of the broker."""

    def __init__(self, world: BrokerWorld) -> None:
        parts = world.world
        client = MetadataClient(parts.log, parts.clock, parts.rng)
        self.context = MaintenanceContext(client, Buckets({0: parts.store}), parts.clock, parts.rng)
        self.plan = SinkPlan(PLAN_VERSION, "", parts.store.url, "t", "value binary", ())
        self.batch_id = 0

    def load(self, topic: Any, *times_ms: int) -> None:
        """Loads ten records at each of these times, in a batch and an object of their own."""
        for time_ms in times_ms:
            self._load(
                topic, bytes(build_batch([Record(timestamp_ms=time_ms, key=None, value=b"v" * 50)] * 10))
            )

    def _load(self, topic: Any, data: bytes) -> None:
        (partition,) = self.context.metadata.refresh().topics[topic.id].partitions
        part = StagedPart("t", topic.id, 0, partition.data_stream_id, "", 0, len(data), 10)
        batch = SinkBatch(OBJECTS, "q", self.batch_id, SinkState.INTENT, "a", -1, "staging/m", 1, 0, "value")
        self.context.metadata.execute(BeginSinkBatch("out", batch, self.context.clock.now_ms()))
        manifest = SinkManifest(1, (part,), data)
        opened = source_bytes._opened
        opened[self.plan.bucket_url] = self.context.buckets.store(0)
        try:
            command = CommitSinkBatch("out", self.batch_id, "a", ())
            load_batch(self.context, self.plan, manifest, command, lambda _: None)
        finally:
            del opened[self.plan.bucket_url]
        self.batch_id += 1


async def opened(world: BrokerWorld, topic: Any) -> tuple[Any, list[tuple[int, int]]]:
    """Opens the partition; returns it, and the offsets at which its data was read meanwhile."""
    await world.node.metadata.refresh()
    reads = ReadOffsets(world.parts.engine)
    partition = await world.partition(topic)
    return partition, reads.of(partition.streams.data.stream_id)


@scenario(in_broker_world)
async def test_nothing_of_a_load_is_read_and_its_times_and_sizes_are_known(world: BrokerWorld) -> None:
    topic = await world.topic()
    Loads(world).load(topic, NOW_MS + 5, NOW_MS - 7, NOW_MS + 9)
    partition, reads = await opened(world, topic)
    assert reads == []
    assert (partition.high_watermark, partition.next_offset, partition.leader_epoch) == (30, 30, 1)
    assert partition.times.newest.timestamp_ms == NOW_MS + 9 and partition.times.newest.offset == 20
    active = partition.segments.active
    assert (active.start_offset, active.end_offset, active.largest_timestamp_ms) == (0, 30, NOW_MS + 9)
    held = world.node.metadata.image.streams[partition.stream_id].ranges
    assert active.size_bytes == sum(each.size_bytes for each in held)
    assert active.opened_ms == world.clock.now_ms()


@scenario(in_broker_world)
async def test_producers_from_before_a_load_are_known_behind_it(world: BrokerWorld) -> None:
    topic = await world.topic()
    loads = Loads(world)
    for number in range(3):
        answer = await world.client().ask(produce_request(topic, sequenced(1, 2 * number, 2)))
        assert row_of(answer).error_code == 0
    await world.restart()
    await world.stop()
    loads.load(topic, NOW_MS, NOW_MS + 1)
    await world.start()
    partition, reads = await opened(world, topic)
    assert reads == [] and [entry.producer_id for entry in partition.producers.entries()] == [1]
    repeated = row_of(await world.client().ask(produce_request(topic, sequenced(1, 4, 2))))
    assert (repeated.error_code, repeated.base_offset) == (0, 4)
    answer = row_of(await world.client().ask(produce_request(topic, sequenced(1, 6, 2))))
    assert (answer.error_code, answer.base_offset) == (0, 26)
    before = knowledge(partition)
    await world.crash()
    again, reads = await opened(world, topic)
    assert knowledge(again) == before
    assert {offset for offset, _ in reads} == {26}, "only what the broker has appended itself"


@scenario(in_broker_world)
async def test_a_load_that_was_trimmed_counts_from_the_start_on(world: BrokerWorld) -> None:
    topic = await world.topic()
    Loads(world).load(topic, NOW_MS, NOW_MS + 1)
    partition, _ = await opened(world, topic)
    await partition.trim(15)
    await world.crash()
    again, reads = await opened(world, topic)
    assert (reads, again.log_start_offset, again.next_offset) == ([], 15, 20)
    assert again.times.newest.timestamp_ms == NOW_MS + 1
    assert again.segments.active.start_offset == 15


def test_loads_side_by_side_are_passed_over_together() -> None:
    owners = (
        OwnerRange(0, 0, 0, 10), OwnerRange(SINK_NODE, 1, 10, 20), OwnerRange(SINK_NODE, 2, 20, 30),
        OwnerRange(1, 3, 30, 40), OwnerRange(SINK_NODE, 4, 40, 50),
    )  # fmt: skip
    assert [loaded_until(owners, each) for each in (0, 9, 10, 19, 20, 29, 30, 40, 50)] == [
        0, 9, 30, 30, 30, 30, 30, 50, 50,
    ]  # fmt: skip
    assert loaded_until((), 7) == 7
