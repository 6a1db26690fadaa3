import asyncio

import pytest

from siltstone.broker.partitions.partitions import (
    EXPIRY_INTERVAL_MS,
    SNAPSHOTS_AT_CLOSE_STALLED_MS_MAX,
    PartitionGone,
)
from siltstone.broker.settings import BrokerSettings
from siltstone.metadata.commands import DeleteTopic, FenceNode, RegisterNode
from siltstone.metadata.entities import StreamState
from siltstone.metadata.refusals import NodeSuspended, TopicNotExist
from siltstone.model.errors import Unavailable
from siltstone.stream_engine.components import Readiness
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.errors import EngineNotRunning, OffsetBeyondEnds, StreamHandleClosed
from support.broker.broker_world import READ, SMALL_TAIL, WRITE, in_broker_world
from support.engine.engine_world import HeldPuts, settled
from support.kafka.kafka_requests import batch_of, produce_request, row_of, sequenced
from support.scenarios import scenario

APPEND_METADATA = "append_all"


@scenario(in_broker_world)
async def test_a_partition_is_opened_once_for_all_who_ask(world) -> None:
    topic = await world.topic()
    version = world.parts.metadata.image.version
    opened = await asyncio.gather(*(world.partition(topic) for _ in range(5)))
    assert len({id(partition) for partition in opened}) == 1
    assert world.parts.metadata.image.version == version + 1
    assert await world.partition(topic) is opened[0]
    assert world.parts.partitions.opened(topic.id, 0) is opened[0]
    assert world.parts.partitions.opened(topic.id, 1) is None


@scenario(in_broker_world)
async def test_who_stops_waiting_takes_nothing_from_the_others(world) -> None:
    topic = await world.topic()
    one, other = (asyncio.create_task(world.partition(topic)) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    assert (await other).next_offset == 0
    with pytest.raises(asyncio.CancelledError):
        await one


@scenario(in_broker_world)
async def test_partitions_of_a_topic_are_opened_side_by_side(world) -> None:
    topic = await world.topic(partitions=5)
    for index in range(5):
        partition = await world.partition(topic, index)
        await partition.append(batch_of(), topic.config, 13).durable
    await world.restart()
    version = world.parts.metadata.image.version
    reads = []
    world.calls.before_call = reads.append
    world.calls.hold(READ)
    opening = asyncio.gather(*(world.partition(topic, index) for index in range(5)))
    await settled(200)
    assert world.parts.metadata.image.version == version + 1  # one append of the metadata for all of them
    world.calls.release(READ)
    assert [partition.next_offset for partition in await opening] == [1] * 5


@scenario(in_broker_world)
async def test_a_partition_that_there_is_not(world) -> None:
    topic = await world.topic()
    for index in (1, -1, 2**31 - 1):
        with pytest.raises(PartitionGone):
            await world.partition(topic, index)
    await world.parts.partitions.delete_topic(topic)
    with pytest.raises(PartitionGone):
        await world.partition(topic)


# -- topics that go ------------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_a_deleted_topic_is_closed_for_everybody(world) -> None:
    topic = await world.topic(partitions=2)
    partitions = [await world.partition(topic, index) for index in range(2)]
    told = []
    partitions[0].watch(lambda: told.append(partitions[0].is_closed))
    await world.parts.partitions.delete_topic(topic)
    assert told == [True]
    assert all(partition.is_closed for partition in partitions)
    assert world.parts.partitions.statistics().open == 0
    assert world.parts.engine.statistics().streams_open == 0
    with pytest.raises(StreamHandleClosed):
        partitions[1].append(batch_of(), topic.config, 13)


@scenario(in_broker_world)
async def test_what_is_on_its_way_when_the_topic_goes_is_answered(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    world.calls.hold(WRITE)
    appended = partition.append(sequenced(1, 0), topic.config, 13)
    await world.parts.partitions.delete_topic(topic)
    world.calls.release(WRITE)
    assert await appended.durable == 0


@scenario(in_broker_world)
async def test_a_deletion_waits_for_those_who_are_opening(world) -> None:
    topic = await world.topic()
    await (await world.partition(topic)).append(batch_of(), topic.config, 13).durable
    await world.restart()
    world.calls.hold(READ)
    opening = asyncio.create_task(world.partition(topic))
    await settled()
    deletion = asyncio.create_task(world.parts.partitions.delete_topic(topic))
    await settled()
    assert not opening.done() and not deletion.done()
    world.calls.release(READ)
    assert (await opening).next_offset == 1
    await deletion
    assert (await opening).is_closed
    assert world.parts.engine.statistics().streams_open == 0


@scenario(in_broker_world)
async def test_who_opens_while_the_topic_is_deleted_learns_how_that_ends(world) -> None:
    topic = await world.topic()
    world.calls.hold(APPEND_METADATA)
    deletion = asyncio.create_task(world.parts.partitions.delete_topic(topic))
    await settled()
    opening = asyncio.create_task(world.partition(topic))
    await settled()
    assert not opening.done()
    world.calls.release(APPEND_METADATA)
    await deletion
    with pytest.raises(PartitionGone):
        await opening


@scenario(in_broker_world)
async def test_a_deletion_that_is_refused_changes_nothing(world) -> None:
    topic = await world.topic(partitions=2)
    partition = await world.partition(topic)
    await world.parts.metadata.execute(FenceNode(7, world.parts.node_epoch))
    with pytest.raises(NodeSuspended):
        await world.parts.partitions.delete_topic(topic)
    assert not partition.is_closed
    assert await world.partition(topic) is partition


@scenario(in_broker_world)
async def test_a_topic_deleted_twice_at_once_is_deleted_once(world) -> None:
    topic = await world.topic()
    await world.partition(topic)
    delete = world.parts.partitions.delete_topic
    first, second = await asyncio.gather(delete(topic), delete(topic), return_exceptions=True)
    assert first is None
    assert isinstance(second, TopicNotExist)


@scenario(in_broker_world)
async def test_n16_a_topic_that_another_node_deletes_is_closed_here(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    waiting = asyncio.ensure_future(partition.wait_for(0))
    other = await world.parts.metadata.execute(RegisterNode(8, "other", "wal"))
    await world.parts.metadata.execute(DeleteTopic(8, other.node_epoch, topic.id))
    assert partition.is_closed
    with pytest.raises(StreamHandleClosed):
        await waiting
    with pytest.raises(TopicNotExist):
        await world.parts.partitions.delete_topic(topic)
    assert partition.is_closed


@pytest.mark.parametrize("turns", [0, 1, 60])
@scenario(in_broker_world)
async def test_a_deletion_whose_client_goes_away_is_done_to_its_end(world, turns, caplog) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    world.calls.hold(APPEND_METADATA)
    deletion = asyncio.create_task(world.parts.partitions.delete_topic(topic))
    await asyncio.sleep(0)
    await settled(turns)
    deletion.cancel()
    await settled(5)
    world.calls.release(APPEND_METADATA)
    await settled()
    assert partition.is_closed
    assert world.parts.topics.by_name("t") is None
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


# -- trimming ------------------------------------------------------------------------------------------------


@scenario(in_broker_world)
async def test_item_37_a_trim_whose_client_goes_away_is_done_to_its_end(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    await partition.append(batch_of(5), topic.config, 13).durable
    world.calls.hold(APPEND_METADATA)
    trim = asyncio.create_task(world.parts.partitions.trim(partition, 3))
    await settled()
    trim.cancel()
    await settled(5)
    world.calls.release(APPEND_METADATA)
    await settled()
    assert partition.log_start_offset == 3


@scenario(in_broker_world)
async def test_item_37_a_partition_cannot_be_trimmed_beyond_its_end(world) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    with pytest.raises(OffsetBeyondEnds):
        await world.parts.partitions.trim(partition, 1)


# -- the rest of a life --------------------------------------------------------------------------------------


@scenario(in_broker_world, BrokerSettings(producer_id_expiration_ms=2 * EXPIRY_INTERVAL_MS))
async def test_item_24_idle_producers_are_forgotten(world) -> None:
    topic = await world.topic()
    await world.client().ask(produce_request(topic, sequenced(1, 0)))
    await world.pass_ms(EXPIRY_INTERVAL_MS)
    await world.client().ask(produce_request(topic, sequenced(2, 0)))
    assert world.parts.partitions.statistics().producers == 2
    await world.pass_ms(2 * EXPIRY_INTERVAL_MS)
    assert world.parts.partitions.statistics().producers == 1
    again = row_of(await world.client().ask(produce_request(topic, sequenced(1, 17))))
    assert again.error_code == 0
    await world.pass_ms(4 * EXPIRY_INTERVAL_MS)
    assert world.parts.partitions.statistics().producers == 0


@scenario(in_broker_world)
async def test_closing_ends_openings_and_begins_none(world) -> None:
    topic = await world.topic(partitions=3)
    partition = await world.partition(topic)
    await partition.append(batch_of(), topic.config, 13).durable
    await world.restart()
    world.calls.hold(READ)
    under_way = asyncio.create_task(world.partition(topic))
    await settled()
    just_begun = asyncio.create_task(world.partition(topic, 1))
    await asyncio.sleep(0)
    await world.parts.partitions.close()
    for opening in (under_way, just_begun):
        with pytest.raises(asyncio.CancelledError):
            await opening
    with pytest.raises(EngineNotRunning):
        await world.partition(topic, 2)
    with pytest.raises(EngineNotRunning):
        await world.parts.partitions.delete_topic(topic)
    await settled()
    streams = world.parts.metadata.image.streams.values()
    assert all(stream.state is StreamState.CLOSED for stream in streams)


@scenario(in_broker_world)
async def test_a_snapshot_that_cannot_be_written_is_no_failure(world, caplog) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    world.calls.fail(WRITE, OSError("no disk"))
    durable = partition.append(batch_of(), topic.config, 13).durable
    with pytest.raises(EngineNotRunning):
        await durable
    await world.parts.partitions.close()
    assert "the snapshot of stream" in caplog.text


@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_closing_does_not_wait_for_snapshots_that_have_no_room(world) -> None:
    """The bucket is out of reach, and what the tail cache holds cannot leave it."""
    topic = await world.topic(partitions=3)
    partitions = [await world.partition(topic, index) for index in range(3)]
    for partition in partitions:
        await partition.append(batch_of(), topic.config, 13).durable
    held = HeldPuts(world.node)
    while not world.parts.engine.has_waiting_appends:
        partitions[0].append(batch_of(value_bytes=2_000), topic.config, 13)
        await settled()
    end = world.opened(topic).high_watermark
    closing = asyncio.create_task(world.parts.partitions.close())
    await settled()
    assert not closing.done()
    for _ in range(2):
        await world.pass_ms(SNAPSHOTS_AT_CLOSE_STALLED_MS_MAX)
    assert closing.done()
    world.world.crash(world.calls)
    held.release()
    await world.start()
    assert (await world.partition(topic)).high_watermark == end


@scenario(in_broker_world)
async def test_closing_does_not_try_snapshots_when_nothing_can_be_uploaded_and_appends_wait(
    world, monkeypatch
) -> None:
    topic = await world.topic()
    partition = await world.partition(topic)
    await partition.append(batch_of(), topic.config, 13).durable
    monkeypatch.setattr(StreamEngine, "readiness", (Readiness.FULL, "why"))
    before = world.parts.engine.progress
    await world.parts.partitions.close()
    assert world.parts.engine.progress == before and partition.needs_snapshot


@scenario(in_broker_world)
async def test_an_opening_that_fails_fails_for_all_and_is_tried_again_by_the_next(world) -> None:
    topic = await world.topic()
    await (await world.partition(topic)).append(batch_of(), topic.config, 13).durable
    await world.restart()
    world.calls.fail(READ, Unavailable("no bucket"))
    failed = await asyncio.gather(*(world.partition(topic) for _ in range(3)), return_exceptions=True)
    assert [type(failure) for failure in failed] == [Unavailable] * 3
    world.calls.before_call = lambda _: None
    await settled()
    assert (await world.partition(topic)).next_offset == 1


@scenario(in_broker_world)
async def test_the_leader_epoch_is_that_of_the_open_partition_or_the_next_one(world) -> None:
    topic = await world.topic()
    partitions = world.parts.partitions
    assert partitions.leader_epoch(topic, 0) == 0
    await world.partition(topic)
    assert partitions.leader_epoch(topic, 0) == 0
    await world.restart()
    partitions = world.parts.partitions
    assert partitions.leader_epoch(topic, 0) == 1, "under which it would be opened"
    partition = await world.partition(topic)
    assert partitions.leader_epoch(topic, 0) == partition.leader_epoch == 1


@scenario(in_broker_world)
async def test_the_leader_epochs_of_a_topic_are_those_of_its_partitions(world) -> None:
    topic = await world.topic(partitions=3)
    for index in (0, 1):
        await world.partition(topic, index)
    await world.restart()
    await world.partition(topic, 0)
    partitions = world.parts.partitions
    epochs = partitions.leader_epochs(topic)
    assert epochs == [partitions.leader_epoch(topic, index) for index in range(3)] == [1, 1, 0]


@scenario(in_broker_world)
async def test_a_segment_is_closed_by_its_age_though_nothing_is_appended(world) -> None:
    topic = await world.topic(segment_ms="5000")
    partition = await world.partition(topic)
    await partition.append(batch_of(), topic.config, 13).durable
    await world.pass_ms(4_000)
    assert partition.segments.active.start_offset == 0
    await world.pass_ms(2_000)
    assert partition.segments.active.start_offset == 1


@scenario(in_broker_world)
async def test_of_a_topic_that_is_gone_no_segment_is_looked_at(world, caplog) -> None:
    topic = await world.topic(segment_ms="5000")
    partition = await world.partition(topic)
    await partition.append(batch_of(), topic.config, 13).durable
    await world.parts.metadata.execute(DeleteTopic(7, world.parts.node_epoch, topic.id))
    for _ in range(8):
        await world.pass_ms(1_000)
    assert partition.segments.active.start_offset == 0
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@scenario(in_broker_world)
async def test_segments_that_were_closed_before_a_crash_are_written_after_it(world) -> None:
    topic = await world.topic(siltstone_segment_batches_max="1")
    partition = await world.partition(topic)
    world.parts.partitions.segment_closed = lambda _: None  # the crash comes first
    for _ in range(3):
        await partition.append(batch_of(), topic.config, 13).durable

    def segments():
        return world.parts.metadata.image.streams[partition.stream_id].segments

    assert segments() == ()
    await world.crash()
    await world.partition(topic)
    await settled(100)
    assert [segment.end_offset for segment in segments()] == [1, 2]
