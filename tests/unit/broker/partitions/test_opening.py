"""A partition is opened with what it knew when it was closed, however that came about."""

import asyncio

import pytest

from siltstone.broker.cluster_view import epoch_to_open
from siltstone.broker.partitions import opening
from siltstone.broker.partitions.partition import BatchKnowledge
from siltstone.broker.partitions.producer_state import ProducerState
from siltstone.broker.partitions.segments import PartitionSegments
from siltstone.broker.partitions.time_index import TimeIndex
from siltstone.broker.partitions.transaction_state import PartitionTransactions
from siltstone.broker.settings import BrokerSettings
from siltstone.metadata import streams as stream_steps
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import OpenStream, RegisterNode, StartJob, TopicTrims, TrimStreams
from siltstone.metadata.entities import StreamState
from siltstone.metadata.refusals import StreamNotClosed
from siltstone.model.errors import Unavailable
from siltstone.model.limits import HOUR_MS
from siltstone.model.segments import ActiveSegment
from siltstone.object_formats.partition_snapshot import (
    PartitionSnapshot,
    SnapshotBody,
    TimeIndexState,
    encode_snapshot,
)
from siltstone.topic_configs.table import parse_topic_configs
from support.broker.broker_world import NODE_ID, READ, BrokerWorld, in_broker_world
from support.broker.partition_state import ReadOffsets, ReadTurns, knowledge
from support.engine.engine_world import settled
from support.kafka.kafka_requests import NOW_MS, batch_of, produce_request, row_of, sequenced, timed_batch
from support.scenarios import scenario

PLAIN = parse_topic_configs({})


async def fill(world: BrokerWorld, topic, rounds: int = 3, first: int = 0) -> None:
    """Three batches a round, of five records: two producers, times that jump about, and one batch of nobody."""
    client = world.client()
    for number in range(first, first + rounds):
        for batch in (
            sequenced(1, 2 * number, 2),
            sequenced(2, number, 1, timestamp_ms=NOW_MS - 10 * number),
            timed_batch(NOW_MS + 5, NOW_MS - 7),
        ):
            assert row_of(await client.ask(produce_request(topic, batch))).error_code == 0


async def fill_by_nobody(world: BrokerWorld, topic, batches: int) -> None:
    for _ in range(batches):
        assert row_of(await world.client().ask(produce_request(topic, batch_of(5)))).error_code == 0


async def reopened(world: BrokerWorld, topic):
    """The partition, and where its data was read for that."""
    reads = ReadOffsets(world.parts.engine)
    partition = await world.partition(topic)
    return partition, reads.of(partition.streams.data.stream_id)


@scenario(in_broker_world)
async def test_after_a_clean_end_nothing_is_read_again(world) -> None:
    topic = await world.topic()
    await fill(world, topic)
    before = knowledge(world.opened(topic))
    await world.restart()
    partition, reads = await reopened(world, topic)
    assert knowledge(partition) == before
    assert reads == []
    assert [entry.seen_ms for entry in partition.producers.entries()] == [NOW_MS, NOW_MS]


@scenario(in_broker_world)
async def test_item_24_after_a_crash_everything_is_known_again(world) -> None:
    topic = await world.topic()
    await fill(world, topic)
    before = knowledge(world.opened(topic))
    await world.crash()
    partition, reads = await reopened(world, topic)
    assert knowledge(partition) == before
    assert reads == [(0, 9)]


@scenario(in_broker_world)
async def test_what_was_read_again_after_a_crash_is_written_down_at_the_next_clean_end(world) -> None:
    topic = await world.topic()
    await fill(world, topic)
    before = knowledge(world.opened(topic))
    await world.crash()
    await world.partition(topic)
    await world.restart()
    partition, reads = await reopened(world, topic)
    assert (knowledge(partition), reads) == (before, [])


@scenario(in_broker_world)
async def test_after_a_crash_only_what_came_after_the_snapshot_is_read(world) -> None:
    topic = await world.topic()
    await fill(world, topic)
    await world.restart()
    await fill(world, topic, rounds=1, first=3)
    before = knowledge(world.opened(topic))
    await world.crash()
    partition, reads = await reopened(world, topic)
    assert knowledge(partition) == before
    assert reads == [(15, 3)]


@scenario(in_broker_world, BrokerSettings(partition_snapshot_bytes=1200))
async def test_a_snapshot_is_written_after_so_many_bytes_of_however_many_lives(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    meta = partition.streams.meta
    client = world.client()
    await client.ask(produce_request(topic, batch_of(value_bytes=600)))
    assert meta.next_offset == 0
    await world.crash()
    partition = await world.partition(topic)
    client = world.client()
    await client.ask(produce_request(topic, batch_of(value_bytes=600)))
    await settled()
    meta = partition.streams.meta
    assert (meta.start_offset, meta.next_offset) == (0, 1)
    for _ in range(3):
        await client.ask(produce_request(topic, batch_of(value_bytes=600)))
    await settled()
    assert (meta.start_offset, meta.next_offset) == (1, 2)  # the one before is gone
    assert world.parts.metadata.image.streams[meta.stream_id].start_offset == 1


@scenario(in_broker_world)
async def test_a_partition_without_news_is_not_written_down(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    await world.restart()
    await world.partition(topic)
    await fill(world, topic, rounds=1)
    await world.restart()
    await world.partition(topic)
    await world.restart()
    partition = await world.partition(topic)
    assert partition.streams.meta.next_offset == 1


@scenario(in_broker_world)
async def test_of_two_snapshots_the_newer_counts(world) -> None:
    """The one before is trimmed afterwards, if there is time."""
    topic = await world.topic()
    partition = await world.partition(topic)
    await partition.write_snapshot()
    await fill(world, topic)
    world.calls.hold("append_all")
    snapshot = asyncio.create_task(partition.write_snapshot())
    await settled()
    meta = partition.streams.meta
    assert (meta.start_offset, meta.next_offset) == (0, 2)
    before = knowledge(partition)
    await world.crash()
    partition, reads = await reopened(world, topic)
    assert (knowledge(partition), reads) == (before, [])
    snapshot.cancel()


@pytest.mark.parametrize(
    "payload",
    [
        b"no snapshot",
        encode_snapshot(PartitionSnapshot(10**6, SnapshotBody((), TimeIndexState()))),
    ],
    ids=["damaged", "of another log"],
)
@scenario(in_broker_world)
async def test_a_snapshot_that_cannot_be_used_costs_reading_all(world, payload, caplog) -> None:
    topic = await world.topic()
    await fill(world, topic)
    partition = world.opened(topic)
    before = knowledge(partition)
    await world.parts.engine.append(partition.streams.meta, payload, 1)
    await world.crash()
    partition, reads = await reopened(world, topic)
    assert (knowledge(partition), reads) == (before, [(0, 9)])
    assert "so the whole partition is read" in caplog.text


@scenario(in_broker_world)
async def test_a_snapshot_of_before_there_were_segments_is_completed_from_the_objects(world) -> None:
    topic = await world.topic()
    await in_three_objects(world, topic)
    partition = await world.partition(topic)
    old = PartitionSnapshot(15, SnapshotBody((), TimeIndexState()))
    await world.parts.engine.append(partition.streams.meta, encode_snapshot(old), 1)
    await world.crash()
    partition, reads = await reopened(world, topic)
    assert (reads, partition.segments.active.end_offset) == ([], 15)


@scenario(in_broker_world)
async def test_what_was_trimmed_is_not_read_again(world) -> None:
    topic = await world.topic()
    await fill_by_nobody(world, topic, 3)
    await world.parts.partitions.trim(world.opened(topic), 12)
    await world.crash()
    partition, reads = await reopened(world, topic)
    assert reads == [(12, 1)]
    assert knowledge(partition)[2] == (12, 15, 15)


@scenario(in_broker_world)
async def test_a_snapshot_older_than_the_trim_is_used_from_there_on(world) -> None:
    topic = await world.topic()
    (await world.partition(topic)).times._interval_bytes = 1
    await fill_by_nobody(world, topic, 1)
    await world.restart()
    await world.partition(topic)
    await fill_by_nobody(world, topic, 2)
    await world.parts.partitions.trim(world.opened(topic), 12)
    before = knowledge(world.opened(topic))
    assert [entry.offset for entry in before[1].entries] == [15]
    await world.crash()
    partition, reads = await reopened(world, topic)
    assert reads == [(12, 1)]
    assert (partition.times.state.entries, knowledge(partition)[2]) == (before[1].entries, before[2])


@pytest.mark.parametrize("trim_to", [1, 14, 15])
@scenario(in_broker_world)
async def test_item_24_what_producers_sent_is_known_after_a_crash_although_it_was_trimmed(
    world, trim_to
) -> None:
    topic = await world.topic()
    await fill(world, topic)
    partition = world.opened(topic)
    await world.parts.partitions.trim(partition, trim_to)
    snapshots = partition.streams.meta.next_offset
    await world.parts.partitions.trim(partition, trim_to)
    assert snapshots == partition.streams.meta.next_offset == 1
    before = knowledge(partition)
    await world.crash()
    assert knowledge(await world.partition(topic)) == before


def trim_by_maintenance(world: BrokerWorld, topic, offset: int) -> None:
    """By another process; the broker does not hear of it."""
    (partition,) = topic.metadata.partitions
    other = MetadataClient(world.world.log, world.clock, world.world.rng)
    job_id = other.execute(StartJob("retention", "another process", HOUR_MS))
    trims = TopicTrims(topic.id, topic.metadata.configs, ((partition.data_stream_id, offset),))
    assert other.execute(TrimStreams(job_id, (trims,))) == (partition.data_stream_id,)


@pytest.mark.parametrize("trim_to", [7, 12, 15])
@scenario(in_broker_world)
async def test_item_24_a_producer_goes_on_when_maintenance_trimmed_what_no_snapshot_holds(
    world, trim_to
) -> None:
    """The node died before it could write a snapshot: the sequences of the older one are not the producers' last."""
    topic = await world.topic()
    await fill(world, topic, 1)
    await world.restart()
    await fill(world, topic, 2, first=1)
    await world.parts.engine.flush()
    trim_by_maintenance(world, topic, trim_to)
    await world.crash()
    for batch in (sequenced(1, 6, 2), sequenced(2, 3, 1), sequenced(1, 8, 1)):
        assert row_of(await world.client().ask(produce_request(topic, batch))).error_code == 0


@scenario(in_broker_world)
async def test_item_24_control_batches_are_nobodys_sequences(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    marker = batch_of(producer_id=5, producer_epoch=0, attributes=0x30)
    await partition.append_own(marker)
    await world.crash()
    assert len((await world.partition(topic)).producers) == 0


@scenario(in_broker_world)
async def test_item_24_repetitions_with_the_brokers_time_keep_it_over_a_crash(world) -> None:
    topic = await world.topic(message_timestamp_type="LogAppendTime")
    await world.client().ask(produce_request(topic, sequenced(1, 0)))
    await world.pass_ms(1_000)
    await world.crash()
    partition = await world.partition(topic)
    again = partition.append(sequenced(1, 0), topic.config, 13)
    assert (again.base_offset, again.append_time_ms, again.durable) == (0, NOW_MS, None)


@scenario(in_broker_world)
async def test_item_24_producers_that_expired_meanwhile_are_unknown(world) -> None:
    topic = await world.topic()
    await fill(world, topic, rounds=1)
    await world.pass_ms(1_000)
    await fill(world, topic, rounds=1, first=1)
    await world.stop()
    world.clock.advance_ms(world.settings.producer_id_expiration_ms)
    await world.start()
    assert len((await world.partition(topic)).producers) == 2
    await world.stop()
    world.clock.advance_ms(1)
    await world.start()
    assert len((await world.partition(topic)).producers) == 0


@scenario(in_broker_world)
async def test_item_18_each_opening_has_the_next_epoch_and_tells_it_beforehand(world) -> None:
    topic = await world.topic()
    for epoch in range(3):
        assert world.parts.partitions.leader_epoch(topic, 0) == epoch
        assert (await world.partition(topic)).leader_epoch == epoch
        assert world.parts.partitions.leader_epoch(topic, 0) == epoch
        await world.restart()


@scenario(in_broker_world)
async def test_a_stream_opened_without_our_hearing_of_it_is_taken_over(world) -> None:
    topic = await world.topic()
    data, meta = topic.metadata.partitions[0].data_stream_id, topic.metadata.partitions[0].meta_stream_id
    command = OpenStream(NODE_ID, world.parts.node_epoch, data, 0)
    await world.parts.metadata.execute(command)
    partition = await world.partition(topic)
    assert (partition.leader_epoch, partition.streams.meta.stream_id) == (0, meta)
    await world.client().ask(produce_request(topic, batch_of()))


@scenario(in_broker_world)
async def test_item_13_a_partition_that_another_node_has_open_is_refused(world) -> None:
    topic = await world.topic()
    other = await world.parts.metadata.execute(RegisterNode(8, "other", "wal"))
    data = topic.metadata.partitions[0].data_stream_id
    await world.parts.metadata.execute(OpenStream(8, other.node_epoch, data, 3))
    with pytest.raises(StreamNotClosed):
        await world.partition(topic)
    streams = world.parts.metadata.image.streams
    assert streams[topic.metadata.partitions[0].meta_stream_id].state is StreamState.CLOSED


@scenario(in_broker_world)
async def test_an_opening_that_fails_gives_the_streams_back_and_may_be_tried_again(world) -> None:
    topic = await world.topic()
    await fill(world, topic)
    await world.restart()
    world.calls.fail(READ, Unavailable("the bucket does not answer"))
    with pytest.raises(Unavailable):
        await world.partition(topic)
    assert world.parts.partitions.opened(topic.id, 0) is None
    streams = world.parts.metadata.image.streams.values()
    assert all(stream.state is StreamState.CLOSED for stream in streams)
    world.calls.before_call = lambda _: None
    assert (await world.partition(topic)).next_offset == 15


def test_others_have_their_turn_while_much_is_read(monkeypatch):
    monkeypatch.setattr(opening, "REPLAY_BYTES", 1)

    async def scenario(world):
        topic = await world.topic()
        await fill(world, topic)
        await world.crash()
        partition = await world.partition(topic)
        await world.parts.engine.read(partition.streams.data, 0, 10**6)  # now it is in memory
        reads = ReadTurns(world.parts.engine)
        opener = world.parts.partitions._opener
        segments = PartitionSegments(0, ActiveSegment(0, 0), PLAIN)
        producers = ProducerState(9)
        transactions = PartitionTransactions(producers)
        known = BatchKnowledge(producers, transactions, TimeIndex(), segments, 0, 0)
        await opener._replay(partition.streams.data, known, str)
        reads.counter.stop()
        assert len(reads.turns) == len(set(reads.turns)) == 9

    in_broker_world(scenario)


def test_only_so_many_are_read_at_the_same_time(monkeypatch):
    monkeypatch.setattr(opening, "OPENINGS_SIDE_BY_SIDE", 2)

    async def scenario(world):
        topic = await world.topic(partitions=5)
        await world.client().ask(produce_request(topic, *[batch_of()] * 5))
        await world.restart()
        reads = ReadTurns(world.parts.engine)
        opened = await asyncio.gather(*(world.partition(topic, index) for index in range(5)))
        reads.counter.stop()
        assert [partition.next_offset for partition in opened] == [1] * 5
        assert (len(reads.turns), reads.at_once_max) == (5, 2)

    in_broker_world(scenario)


def test_the_epoch_to_open_a_stream_under():
    stream = stream_steps.created(1, {})
    assert epoch_to_open(stream) == 0
    stream = stream_steps.opened(stream, 4, NODE_ID)
    assert epoch_to_open(stream) == 4
    assert epoch_to_open(stream_steps.closed(stream)) == 5


# -- damage ----------------------------------------------------------------------------------------------


async def in_three_objects(world: BrokerWorld, topic) -> list[str]:
    """Three rounds of five records, each in an object of its own; then a crash. Returns the objects' keys."""
    keys: list[str] = []
    for number in range(3):
        await fill(world, topic, rounds=1, first=number)
        await world.parts.engine.flush()
        keys += [one.key for one in world.world.store.list() if one.key not in keys]
    await world.crash()
    return keys


@pytest.mark.parametrize("lost", [0, 1, 2])
@scenario(in_broker_world)
async def test_a_partition_is_opened_without_the_batches_that_cannot_be_read(world, lost, caplog) -> None:
    """Or the intact records could not be read, and nothing more could be appended."""
    topic = await world.topic()
    keys = await in_three_objects(world, topic)
    store = world.world.store
    intact = store.get_range(keys[lost], 0, store.head(keys[lost]).size_bytes)
    store.delete([keys[lost]])
    partition = await world.partition(topic)
    start = 5 * lost
    assert f"partition t-0: offsets {start} to {start + 4} of stream" in caplog.text
    assert "opened without them" in caplog.text
    assert (partition.log_start_offset, partition.high_watermark) == (0, 15)
    assert partition.segments.active.end_offset == 15
    assert row_of(await world.client().ask(produce_request(topic, batch_of(5)))).base_offset == 15
    store.put(keys[lost], [intact])
    assert [batch.base_offset for batch in await partition.read(start, 1)] == [start]
    assert partition.times.newest.timestamp_ms == NOW_MS + 5
    assert partition.times.newest.offset < 5  # the first round has it, even if that is the one that is lost


@scenario(in_broker_world)
async def test_a_partition_is_not_opened_while_the_bucket_cannot_be_read(world) -> None:
    topic = await world.topic()
    await in_three_objects(world, topic)
    world.calls.fail(READ, Unavailable("no bucket"))
    with pytest.raises(Unavailable):
        await world.partition(topic)
    world.calls.before_call = lambda _: None
    assert (await world.partition(topic)).high_watermark == 15
