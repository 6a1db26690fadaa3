"""What the metadata hears of the segments of open partitions, and when."""

import asyncio
from itertools import pairwise

import pytest

from siltstone.broker.partitions import partitions
from siltstone.metadata.commands import (
    FenceNode,
    RegisterNode,
    ResumeNode,
    RollSegments,
    StartJob,
    TopicTrims,
    TrimStreams,
)
from siltstone.metadata.store.port import LogUnavailable
from siltstone.model.limits import HOUR_MS, MIB, SEGMENT_CHECK_INTERVAL_MS, SEGMENT_REST_MS
from siltstone.model.segments import ClosedSegment
from support.broker.broker_world import WRITE, BrokerWorld, in_broker_world
from support.broker.partition_state import knowledge
from support.engine.engine_world import settled
from support.kafka.kafka_requests import NOW_MS, batch_of, produce_request, row_of, sequenced
from support.scenarios import scenario

BY_BATCHES = {"siltstone_segment_batches_max": "2"}
APPEND_METADATA = "append_all"


async def fill(world: BrokerWorld, topic, batches: int, **fields) -> None:
    for _ in range(batches):
        assert row_of(await world.client().ask(produce_request(topic, batch_of(5, **fields)))).error_code == 0
    await settled(100)


def closed_in_metadata(world: BrokerWorld, topic, index: int = 0) -> list[tuple[int, int, int]]:
    """(start, end, batches)"""
    stream = world.parts.metadata.image.streams[topic.metadata.partitions[index].data_stream_id]
    return [(each.start_offset, each.end_offset, each.batch_count) for each in stream.segments]


async def check(world: BrokerWorld) -> None:
    await world.pass_ms(SEGMENT_CHECK_INTERVAL_MS)
    await settled(100)


@scenario(in_broker_world)
async def test_segments_that_are_closed_by_appends_are_in_the_metadata_soon(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    await fill(world, topic, 5)
    assert closed_in_metadata(world, topic) == [(0, 10, 2), (10, 20, 2)]
    partition = world.opened(topic)
    assert partition.segments.unwritten == ()
    assert (partition.segments.active.start_offset, partition.segments.active.end_offset) == (20, 25)
    (first, _) = world.parts.metadata.image.streams[partition.stream_id].segments
    assert (first.largest_timestamp_ms, first.opened_ms, first.closed_ms) == (NOW_MS, NOW_MS, NOW_MS)
    assert first.size_bytes == 2 * len(batch_of(5))


@scenario(in_broker_world)
async def test_an_append_never_waits_for_the_metadata(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    await world.partition(topic)
    world.calls.hold(APPEND_METADATA)
    await fill(world, topic, 7)
    assert closed_in_metadata(world, topic) == []
    assert world.opened(topic).high_watermark == 35
    world.calls.release(APPEND_METADATA)
    await settled(200)
    assert closed_in_metadata(world, topic) == [(0, 10, 2), (10, 20, 2), (20, 30, 2)]


@scenario(in_broker_world)
async def test_metadata_that_cannot_be_reached_are_asked_again(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    partition = await world.partition(topic)
    execute = world.parts.metadata.execute
    asked = []

    async def unreachable(command):
        if isinstance(command, RollSegments):
            asked.append(command)
            raise LogUnavailable("gone")
        return await execute(command)

    partition_rolls = world.parts.partitions._rolls
    partition_rolls._metadata = type(
        "Metadata", (), {"execute": staticmethod(unreachable), "image": world.parts.metadata.image}
    )
    await fill(world, topic, 3)
    await check(world)
    assert len(asked) == 2 and len(partition.segments.unwritten) == 1
    partition_rolls._metadata = world.parts.metadata
    await check(world)
    assert closed_in_metadata(world, topic) == [(0, 10, 2)]


@scenario(in_broker_world)
async def test_a_node_that_is_fenced_says_no_more(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    partition = await world.partition(topic)
    world.parts.partitions._rolls._node_epoch -= 1
    await fill(world, topic, 3)
    assert closed_in_metadata(world, topic) == []
    assert partition.segments.unwritten == ()
    version = world.parts.metadata.image.version
    await check(world)
    assert world.parts.metadata.image.version == version


@scenario(in_broker_world)
async def test_n11_a_node_that_was_fenced_tells_of_its_segments_when_it_has_resumed(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    partition = await world.partition(topic)
    metadata, node_id, node_epoch = world.parts.metadata, world.parts.node_id, world.parts.node_epoch
    await metadata.execute(FenceNode(node_id, node_epoch))
    await fill(world, topic, 3)
    assert closed_in_metadata(world, topic) == []
    assert len(partition.segments.unwritten) == 1, "it is not given up"
    await metadata.execute(ResumeNode(node_id, node_epoch, metadata.image.nodes[node_id].incarnation))
    await check(world)
    assert closed_in_metadata(world, topic) == [(0, 10, 2)]


def test_o7_idle_partitions_that_were_opened_together_are_closed_by_few_commands(monkeypatch):
    monkeypatch.setattr(partitions, "SEGMENTS_CHECKED_AT_ONCE_MAX", 4)

    async def scenario(world):
        topic = await world.topic(partitions=10, segment_ms=str(HOUR_MS))
        request = produce_request(topic, *(batch_of(1) for _ in range(10)))
        await world.client().ask(request)
        world.clock.advance_ms(HOUR_MS)
        await settled(100)
        versions, done = [], []
        for _ in range(4):
            versions.append(world.parts.metadata.image.version)
            done.append(sum(len(closed_in_metadata(world, topic, index)) for index in range(10)))
            await check(world)
        assert done == [4, 8, 10, 10]
        assert [later - earlier for earlier, later in pairwise(versions)] == [1, 1, 0]

    in_broker_world(scenario)


@scenario(in_broker_world)
async def test_r17_what_is_all_too_old_is_closed_by_a_broker_that_has_it_open(world) -> None:
    topic = await world.topic(retention_ms="60000")
    await fill(world, topic, 2)
    await check(world)
    assert closed_in_metadata(world, topic) == []
    await world.pass_ms(60_000 + SEGMENT_REST_MS)
    await settled(100)
    assert closed_in_metadata(world, topic) == [(0, 10, 2)]


@scenario(in_broker_world)
async def test_what_producers_sent_is_written_down_before_their_segment_is_closed(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    partition = await world.partition(topic)
    client = world.client()
    for sequence in range(2):
        await client.ask(produce_request(topic, sequenced(1, sequence)))
    world.calls.hold(WRITE)
    sent = client.send(produce_request(topic, sequenced(1, 2)))
    await settled(100)
    assert closed_in_metadata(world, topic) == []  # its snapshot is on the way
    world.calls.release(WRITE)
    await sent
    await settled(100)
    assert closed_in_metadata(world, topic) == [(0, 2, 2)]
    assert partition.streams.meta.next_offset == 1


@scenario(in_broker_world)
async def test_a_segment_of_nobody_in_particular_costs_no_snapshot(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    await fill(world, topic, 3)
    assert closed_in_metadata(world, topic) == [(0, 10, 2)]
    assert world.opened(topic).streams.meta.next_offset == 0


@scenario(in_broker_world)
async def test_a_topic_that_is_deleted_meanwhile_is_forgotten(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    other = await world.topic("other", **BY_BATCHES)
    await world.partition(topic)
    await world.partition(other)
    world.calls.hold(APPEND_METADATA)
    for each in (topic, other):
        await fill(world, each, 3)
    deletion = asyncio.create_task(world.parts.partitions.delete_topic(topic))
    world.calls.release(APPEND_METADATA)
    await deletion
    await check(world)
    assert closed_in_metadata(world, other) == [(0, 10, 2)]
    assert not world.parts.partitions._rolls._due


@pytest.mark.parametrize("ends", ["crash", "restart"])
@scenario(in_broker_world)
async def test_the_active_segment_is_known_in_the_next_life(world, ends) -> None:
    topic = await world.topic(**BY_BATCHES)
    await fill(world, topic, 5)
    before = world.opened(topic).segments.active
    await getattr(world, ends)()
    partition = await world.partition(topic)
    assert partition.segments.active == before
    assert partition.segments.unwritten == ()
    await fill(world, topic, 2)
    assert closed_in_metadata(world, topic) == [(0, 10, 2), (10, 20, 2), (20, 30, 2)]


@scenario(in_broker_world)
async def test_segments_that_the_metadata_did_not_hear_of_are_told_in_the_next_life(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    partition = await world.partition(topic)
    world.parts.partitions._rolls._due = type("Nobody", (dict,), {"__setitem__": lambda *_: None})()
    await fill(world, topic, 5)
    await partition.write_snapshot()
    assert closed_in_metadata(world, topic) == []
    await world.crash()
    await world.partition(topic)
    await settled(100)
    assert closed_in_metadata(world, topic) == [(0, 10, 2), (10, 20, 2)]


@scenario(in_broker_world)
async def test_a_snapshot_from_before_the_segment_was_closed(world) -> None:
    topic = await world.topic(segment_ms=str(HOUR_MS))
    await fill(world, topic, 2)
    await world.opened(topic).write_snapshot()
    world.clock.advance_ms(HOUR_MS)
    await check(world)
    assert closed_in_metadata(world, topic) == [(0, 10, 2)]
    await world.crash()
    active = (await world.partition(topic)).segments.active
    assert active.is_empty and active.start_offset == 10
    await fill(world, topic, 1)
    assert world.opened(topic).segments.active.batch_count == 1


@scenario(in_broker_world)
async def test_without_a_snapshot_what_nobody_heard_of_is_one_longer_segment(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    await world.partition(topic)
    world.parts.partitions._rolls._due = type("Nobody", (dict,), {"__setitem__": lambda *_: None})()
    await fill(world, topic, 5)
    await world.crash()
    partition = await world.partition(topic)
    await settled(100)
    assert partition.segments.active.end_offset == 25
    (*closed,) = closed_in_metadata(world, topic)
    assert closed == [(0, 10, 2), (10, 20, 2)]  # read again, they are as full as they were


async def trimmed_by_maintenance(
    world: BrokerWorld, topic, offset: int, rolled: ClosedSegment | None = None
) -> None:
    metadata = world.parts.metadata
    (stream_id,) = [each.data_stream_id for each in topic.metadata.partitions]
    job_id = await metadata.execute(StartJob("retention", "test", HOUR_MS))
    if rolled is not None:
        await metadata.execute(RollSegments(((stream_id, rolled),), job_id=job_id))
    trims = TopicTrims(topic.id, topic.metadata.configs, ((stream_id, offset),))
    assert await metadata.execute(TrimStreams(job_id, (trims,))) == (stream_id,)


@scenario(in_broker_world)
async def test_a_trim_by_maintenance_is_heard_of_at_once_and_producers_stay_known_after_a_crash(
    world,
) -> None:
    """It is beyond every snapshot: another broker closed the segment."""
    topic = await world.topic()
    for sequence in range(4):
        await world.client().ask(produce_request(topic, sequenced(1, sequence)))
    partition = world.opened(topic)
    await world.parts.engine.flush()
    await trimmed_by_maintenance(world, topic, 4, ClosedSegment(0, 4, 400, 4, NOW_MS, NOW_MS, NOW_MS))
    assert (partition.log_start_offset, partition.high_watermark) == (4, 4)
    await settled(100)
    assert partition.streams.meta.next_offset == 1
    await check(world)
    assert partition.segments.active.is_empty
    before = knowledge(partition)
    await world.crash()
    partition = await world.partition(topic)
    assert knowledge(partition) == before
    assert partition.append(sequenced(1, 3), topic.config, 13).durable is None  # a repetition, as before


@scenario(in_broker_world)
async def test_maintenance_closes_a_segment_while_something_is_appended(world) -> None:
    topic = await world.topic()
    await fill(world, topic, 2)
    await world.parts.engine.flush()
    await fill(world, topic, 2)
    await trimmed_by_maintenance(world, topic, 10, ClosedSegment(0, 10, 9, 2, NOW_MS, NOW_MS, NOW_MS))
    await check(world)
    active = world.opened(topic).segments.active
    assert (active.start_offset, active.end_offset, active.batch_count) == (10, 20, 2)
    assert active.size_bytes == 2 * len(batch_of(5))


@scenario(in_broker_world)
async def test_what_maintenance_closed_is_not_closed_a_second_time(world) -> None:
    topic = await world.topic(siltstone_segment_batches_max="3")
    await fill(world, topic, 2)
    await world.parts.engine.flush()
    await trimmed_by_maintenance(world, topic, 5, ClosedSegment(0, 5, 9, 1, NOW_MS, NOW_MS, NOW_MS))
    await fill(world, topic, 2)
    assert closed_in_metadata(world, topic) == [(5, 15, 2)]
    (closed,) = world.parts.metadata.image.streams[world.opened(topic).stream_id].segments
    assert closed.size_bytes == 2 * len(batch_of(5))


@scenario(in_broker_world)
async def test_a_node_that_took_over_is_not_disturbed(world) -> None:
    topic = await world.topic(**BY_BATCHES)
    await world.partition(topic)
    await world.parts.metadata.execute(RegisterNode(8, "other", "wal"))
    await fill(world, topic, 3)
    assert closed_in_metadata(world, topic) == [(0, 10, 2)]


@scenario(in_broker_world)
async def test_o5_no_segment_is_larger_than_the_cap(world) -> None:
    topic = await world.topic(segment_bytes=str(MIB))
    for _ in range(40):
        await world.client().ask(produce_request(topic, batch_of(1, value_bytes=100_000)))
    await settled(100)
    stream = world.parts.metadata.image.streams[world.opened(topic).stream_id]
    assert len(stream.segments) == 3
    assert all(MIB - 101_000 < each.size_bytes <= MIB for each in stream.segments)
