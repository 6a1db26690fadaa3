import asyncio
import weakref

import numpy as np
import pytest

from siltstone.broker.partitions.admission import KeyMissing
from siltstone.broker.partitions.producer_state import OutOfOrderSequence, StaleProducerEpoch
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.kafka_protocol.records.reading import iterate_records
from siltstone.stream_engine.errors import EngineNotRunning, EngineOverloaded, StreamHandleClosed
from siltstone.topic_configs.table import parse_topic_configs
from support.broker.broker_world import SMALL_TAIL, WRITE, in_broker_world
from support.broker.partition_state import knowledge
from support.engine.engine_world import settled
from support.kafka.kafka_requests import NOW_MS, batch_of, sequenced, timed_batch
from support.scenarios import scenario

NEWEST = 13
PLAIN = parse_topic_configs({})


@scenario(in_broker_world)
async def test_a_batch_gets_its_place_and_is_readable_when_it_is_durable(world) -> None:
    await world.topic()
    await world.restart()
    partition = await world.partition(world.parts.topics.by_name("t"))
    world.calls.hold(WRITE)
    first = partition.append(batch_of(3), PLAIN, NEWEST)
    second = partition.append(batch_of(2), PLAIN, NEWEST)
    assert (first.base_offset, second.base_offset) == (0, 3)
    await settled()
    assert (partition.high_watermark, partition.next_offset) == (0, 5)
    assert not first.durable.done()
    world.calls.release(WRITE)
    assert await second.durable == 3
    assert partition.high_watermark == 5
    batches = await partition.read(0, 10_000)
    headers = [read_batch_header(batch.payload) for batch in batches]
    assert [(head.base_offset, head.partition_leader_epoch) for head in headers] == [(0, 0), (3, 0)]
    assert [record.offset for record in iterate_records(batches[1].payload)] == [3, 4]


@scenario(in_broker_world)
async def test_a_partition_that_was_just_opened_has_counted_nothing(world) -> None:
    await world.topic()
    await world.restart()
    partition = await world.partition(world.parts.topics.by_name("t"))
    assert (partition.bytes_in, partition.bytes_out, partition.requests) == (0, 0, 0)


@pytest.mark.parametrize(("request_bytes", "is_held"), [(50, True), (10_000, False)])
@scenario(in_broker_world)
async def test_rule_9_a_batch_in_the_cache_does_not_hold_a_request_that_is_mostly_something_else(
    world, request_bytes, is_held
) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    batch = batch_of()
    request = np.zeros(request_bytes + len(batch), np.uint8)
    request[request_bytes:] = np.frombuffer(batch, np.uint8)
    freed = weakref.ref(request)
    await partition.append(request.data[request_bytes:], PLAIN, NEWEST).durable
    del request
    assert (freed() is not None) is is_held
    (read,) = await partition.read(0, 1_000)
    assert [bytes(record.key) for record in iterate_records(read.payload)] == [b"k"]


@scenario(in_broker_world)
async def test_item_18_the_leader_epoch_stands_in_the_batches(world) -> None:
    topic = await world.topic()
    for epoch in range(3):
        partition = await world.partition(topic)
        await partition.append(batch_of(), PLAIN, NEWEST).durable
        (batch,) = await partition.read(epoch, 1)
        assert read_batch_header(batch.payload).partition_leader_epoch == epoch
        assert [partition.epoch_of(offset) for offset in range(epoch + 1)] == list(range(epoch + 1))
        await world.restart()


@scenario(in_broker_world)
async def test_item_23_a_repetition_shares_the_fate_of_the_first_while_it_is_on_its_way(world) -> None:
    partition = await world.partition(await world.topic())
    world.calls.hold(WRITE)
    first = partition.append(sequenced(1, 0, 2), PLAIN, NEWEST)
    again = partition.append(sequenced(1, 0, 2), PLAIN, NEWEST)
    assert again.durable is first.durable
    assert again.base_offset == first.base_offset == 0
    assert partition.next_offset == 2
    world.calls.release(WRITE)
    await first.durable
    await settled()
    later = partition.append(sequenced(1, 0, 2), PLAIN, NEWEST)
    assert (later.base_offset, later.durable) == (0, None)


@scenario(in_broker_world)
async def test_item_23_a_repetition_of_what_failed_does_not_stand(world) -> None:
    partition = await world.partition(await world.topic())
    await partition.append(sequenced(1, 0), PLAIN, NEWEST).durable
    world.calls.fail(WRITE, OSError("no disk"))
    with pytest.raises(EngineNotRunning):
        await partition.append(sequenced(1, 1), PLAIN, NEWEST).durable
    await settled()
    with pytest.raises(EngineNotRunning, match="failed at offset 1"):
        partition.append(sequenced(1, 1), PLAIN, NEWEST)
    assert partition.append(sequenced(1, 0), PLAIN, NEWEST).base_offset == 0  # this one does


@pytest.mark.parametrize(
    ("batch", "refusal"),
    [
        (sequenced(1, 2), OutOfOrderSequence),
        (sequenced(1, 0, epoch=-1), StaleProducerEpoch),
        (sequenced(1, 1, key=None), KeyMissing),
    ],
)
@scenario(in_broker_world)
async def test_what_is_refused_changes_nothing(world, batch, refusal) -> None:
    partition = await world.partition(await world.topic())
    compacted = parse_topic_configs({"cleanup.policy": "compact"})
    await partition.append(sequenced(1, 0), compacted, NEWEST).durable
    before = knowledge(partition)
    with pytest.raises(refusal):
        partition.append(batch, compacted, NEWEST)
    assert knowledge(partition) == before
    await partition.append(sequenced(1, 1), compacted, NEWEST).durable


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_item_24_a_batch_for_which_there_is_no_room_may_be_sent_again(world) -> None:
    partition = await world.partition(await world.topic())
    world.calls.hold(WRITE)
    appended = []
    with pytest.raises(EngineOverloaded):
        while True:
            batch = sequenced(1, len(appended), value_bytes=2_000)
            appended.append(partition.append(batch, PLAIN, NEWEST))
    before = knowledge(partition)
    with pytest.raises(EngineOverloaded):
        partition.append(sequenced(1, len(appended), value_bytes=2_000), PLAIN, NEWEST)
    assert knowledge(partition) == before
    world.calls.release(WRITE)
    await world.world.passing(appended[-1].durable)
    again = partition.append(sequenced(1, len(appended)), PLAIN, NEWEST)
    assert again.base_offset == len(appended)
    await again.durable


@scenario(in_broker_world)
async def test_times_go_to_the_store_with_the_batch(world) -> None:
    partition = await world.partition(await world.topic())
    await partition.append(timed_batch(5, 9), PLAIN, NEWEST).durable
    append_time = parse_topic_configs({"message.timestamp.type": "LogAppendTime"})
    await partition.append(timed_batch(5, 9), append_time, NEWEST).durable
    batches = await partition.read(0, 10_000)
    times = [(batch.smallest_timestamp_ms, batch.largest_timestamp_ms) for batch in batches]
    assert times == [(5, 9), (NOW_MS, NOW_MS)]


@scenario(in_broker_world)
async def test_waiting_ends_when_the_record_is_durable(world) -> None:
    partition = await world.partition(await world.topic())
    waiting = asyncio.create_task(partition.wait_for(1))
    await partition.append(batch_of(), PLAIN, NEWEST).durable
    await settled()
    assert not waiting.done()
    await partition.append(batch_of(), PLAIN, NEWEST).durable
    await waiting


@scenario(in_broker_world)
async def test_waiting_ends_when_the_partition_is_closed(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    waiting = asyncio.create_task(partition.wait_for(0))
    await settled()
    await world.parts.partitions.delete_topic(topic)
    with pytest.raises(StreamHandleClosed):
        await waiting


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_a_snapshot_that_is_refused_is_still_due(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    world.calls.hold(WRITE)
    with pytest.raises(EngineOverloaded):
        while True:
            partition.append(batch_of(value_bytes=2_000), PLAIN, NEWEST)
    with pytest.raises(EngineOverloaded):
        await partition.write_snapshot()
    assert partition.needs_snapshot
    world.calls.release(WRITE)
    await world.world.passing(partition.wait_for(partition.next_offset - 1))
    await partition.write_snapshot()
    assert not partition.needs_snapshot


@scenario(in_broker_world)
async def test_a_snapshot_tells_of_what_lies_before_it_in_the_log(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    world.calls.hold(WRITE)
    partition.append(sequenced(1, 0), PLAIN, NEWEST)
    snapshot = asyncio.create_task(partition.write_snapshot())
    await settled()
    partition.append(sequenced(1, 1), PLAIN, NEWEST)
    world.calls.release(WRITE)
    await snapshot
    before = knowledge(partition)
    await world.crash()
    assert knowledge(await world.partition(topic)) == before


@scenario(in_broker_world)
async def test_bytes_that_can_be_read_without_objects(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    sizes = [len(batch_of(value_bytes=size)) for size in (10, 50)]
    for size in (10, 50):
        await partition.append(batch_of(value_bytes=size), PLAIN, NEWEST).durable
    assert [partition.cached_bytes(offset) for offset in (0, 1, 2)] == [sum(sizes), sizes[1], 0]
    await world.parts.partitions.trim(partition, 1)
    assert partition.cached_bytes(0) is None
    await world.restart()
    partition = await world.partition(topic)
    assert [partition.cached_bytes(offset) for offset in (1, 2)] == [None, 0]


@scenario(in_broker_world, BrokerSettings(partition_snapshot_bytes=10**9))
async def test_the_time_index_forgets_what_is_trimmed(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    partition.times._interval_bytes = 1
    for _ in range(4):
        await partition.append(timed_batch(NOW_MS), PLAIN, NEWEST).durable
    await world.parts.partitions.trim(partition, 4)
    assert partition.times.state.entries == ()


BATCH_BYTES = len(batch_of())


@pytest.mark.parametrize("snapshot_bytes", [3 * BATCH_BYTES, 2 * BATCH_BYTES + 1])
def test_a_snapshot_is_due_each_time_when_so_many_bytes_were_appended(snapshot_bytes):
    async def scenario(world):
        partition = await world.partition(await world.topic())
        due = []
        world.parts.partitions.snapshot_due = lambda partition: due.append(partition.next_offset)
        for _ in range(10):
            await partition.append(batch_of(), PLAIN, NEWEST).durable
        assert due == [3, 6, 9]

    in_broker_world(scenario, BrokerSettings(partition_snapshot_bytes=snapshot_bytes))


@scenario(in_broker_world)
async def test_the_listener_is_told_of_each_segment_when_it_is_closed(world) -> None:
    topic = await world.topic(siltstone_segment_batches_max="2", siltstone_segment_min_ms="0")
    partition = await world.partition(topic)
    closed = []
    world.parts.partitions.segment_closed = lambda partition: closed.append(partition.next_offset)
    for _ in range(5):
        await partition.append(batch_of(), topic.config, NEWEST).durable
    assert closed == [3, 5]


@scenario(in_broker_world)
async def test_a_snapshot_is_written_before_a_trim_would_lose_what_producers_sent(world) -> None:
    partition = await world.partition(await world.topic())
    await partition.append(batch_of(3), PLAIN, NEWEST).durable
    meta = partition.streams.meta
    await partition.trim(1)
    assert meta.next_offset == 0, "no producer, so there is nothing to be lost"
    await partition.append(sequenced(1, 0, 3), PLAIN, NEWEST).durable
    await partition.trim(2)
    assert (meta.next_offset, partition.log_start_offset) == (1, 2)
    await partition.trim(4)
    assert meta.next_offset == 1, "the snapshot reaches as far as offset 6"
    assert not partition.needs_snapshot
    await partition.append(sequenced(1, 3), PLAIN, NEWEST).durable
    assert partition.needs_snapshot
    await partition.write_down_producers(6)
    assert meta.next_offset == 1
    await partition.write_down_producers(7)
    assert (meta.next_offset, meta.start_offset) == (2, 1), "of two snapshots the newer one is kept"
    partition.expire_producers(world.clock.now_ms() + 1)
    assert len(partition.producers) == 0
    await partition.append(batch_of(), PLAIN, NEWEST).durable
    await partition.write_down_producers(8)
    assert meta.next_offset == 2


@scenario(in_broker_world)
async def test_the_end_of_an_epoch_is_asked_of_the_partition(world) -> None:
    topic = await world.topic()
    await (await world.partition(topic)).append(batch_of(3), PLAIN, NEWEST).durable
    await world.restart()
    partition = await world.partition(topic)
    await partition.append(batch_of(2), PLAIN, NEWEST).durable
    ends = [partition.epoch_end(epoch) for epoch in (0, 1)]
    assert [(end.leader_epoch, end.end_offset) for end in ends] == [(0, 3), (1, 5)]
    assert partition.leader_epoch == 1


@scenario(in_broker_world)
async def test_a_segment_is_closed_by_age_when_it_is_looked_at(world) -> None:
    topic = await world.topic(segment_ms="60000")
    partition = await world.partition(topic)
    closed = []
    world.parts.partitions.segment_closed = closed.append
    await partition.append(batch_of(), topic.config, NEWEST).durable
    partition.check_segment(topic.config, 0)
    assert closed == []
    world.clock.advance_ms(60_000)
    partition.check_segment(topic.config, 0)
    assert closed == [partition]
    partition.check_segment(topic.config, 0)
    assert closed == [partition], "an empty segment is not closed"
