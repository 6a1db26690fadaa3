"""What clients see of a partition that maintenance trims while it is open here."""

import pytest

from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import StartJob, TopicTrims, TrimStreams
from siltstone.metadata.service import FOLLOW_INTERVAL_MS
from siltstone.model.limits import HOUR_MS
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_requests import (
    NOW_MS,
    batches_in,
    fetch_request,
    list_offsets_request,
    produce_request,
    row_of,
    timed_batch,
)
from support.scenarios import scenario

OUT_OF_RANGE = 1
EARLIEST, NEWEST = -2, -3


async def trimmed(world: BrokerWorld, offset: int, *, is_heard_of: bool = True):
    """Topic ``t``: ten batches of one record, a millisecond apart, the newest first; trimmed by another process."""
    topic = await world.topic()
    for number in range(10):
        await world.client().ask(produce_request(topic, timed_batch(NOW_MS - number)))
    await world.parts.engine.flush()
    (partition,) = topic.metadata.partitions
    other = MetadataClient(world.world.log, world.clock, world.world.rng)
    job_id = other.execute(StartJob("retention", "another process", HOUR_MS))
    trims = TopicTrims(topic.id, topic.metadata.configs, ((partition.data_stream_id, offset),))
    assert other.execute(TrimStreams(job_id, (trims,))) == (partition.data_stream_id,)
    if is_heard_of:
        await world.pass_ms(FOLLOW_INTERVAL_MS)
        await settled(50)
    return topic


@pytest.mark.parametrize(
    ("offset", "error", "first"), [(0, 1, None), (3, 1, None), (4, 0, (4, 4)), (9, 0, (9, 9))]
)
@scenario(in_broker_world)
async def test_fetches(world, offset, error, first) -> None:
    topic = await trimmed(world, 4)
    row = row_of(await world.client().ask(fetch_request(topic, {0: offset})))
    assert (row.error_code, row.log_start_offset, row.high_watermark) == (error, 4, 10)
    assert (batches_in(row) or [None])[0] == first


@scenario(in_broker_world)
async def test_a_fetch_that_waits_hears_of_it(world) -> None:
    topic = await trimmed(world, 10, is_heard_of=False)
    waiting = world.client().send(fetch_request(topic, {0: 9}, min_bytes=10**6, wait_ms=60_000))
    await settled()
    assert not waiting.done()
    await world.pass_ms(FOLLOW_INTERVAL_MS)
    row = row_of(await waiting)
    assert (row.error_code, row.log_start_offset) == (OUT_OF_RANGE, 10)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(EARLIEST, (4, -1)), (NEWEST, (4, NOW_MS - 4)), (NOW_MS - 9, (4, NOW_MS - 4)), (NOW_MS - 3, (-1, -1))],
)
@scenario(in_broker_world)
async def test_offsets_by_time(world, timestamp, found) -> None:
    topic = await trimmed(world, 4)
    row = row_of(await world.client().ask(list_offsets_request(topic, timestamp)))
    assert (row.error_code, row.offset, row.timestamp) == (0, *found)


@pytest.mark.parametrize(("offset", "start"), [(2, 4), (4, 4), (7, 7), (-1, 10)])
@pytest.mark.parametrize("is_heard_of", [False, True])
@scenario(in_broker_world)
async def test_delete_records_beside_it(world, offset, start, is_heard_of) -> None:
    """The start offset never decreases, whether the partition has heard of the other trim or not."""
    topic = await trimmed(world, 4, is_heard_of=is_heard_of)
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic.name, partitions=[partition])], timeout_ms=1_000
    )
    row = row_of(await world.client().ask(request))
    assert (row.error_code, row.low_watermark) == (0, start)
    assert world.parts.metadata.image.streams[world.opened(topic).stream_id].start_offset == start


@scenario(in_broker_world)
async def test_the_time_index_forgets_what_is_gone(world) -> None:
    topic = await world.topic()
    (await world.partition(topic)).times._interval_bytes = 1
    partition = world.opened(topic)
    for number in range(4):
        await world.client().ask(produce_request(topic, timed_batch(NOW_MS + number)))
    await world.parts.engine.flush()
    job_id = await world.parts.metadata.execute(StartJob("retention", "test", HOUR_MS))
    trims = TopicTrims(topic.id, topic.metadata.configs, ((partition.stream_id, 3),))
    await world.parts.metadata.execute(TrimStreams(job_id, (trims,)))
    assert [entry.offset for entry in partition.times.state.entries] == [4]
