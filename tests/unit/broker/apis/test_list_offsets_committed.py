"""ListOffsets for readers of committed records."""

from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from siltstone.kafka_protocol.records.control import Outcome
from support.broker.broker_world import in_broker_world
from support.broker.transactional import OpenProducer, plain
from support.kafka.kafka_requests import NOW_MS, row_of
from support.scenarios import scenario

LATEST, EARLIEST, NEWEST = -1, -2, -3
COMMITTED, UNCOMMITTED = 1, 0


async def found(world, topic, timestamp, level):
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        isolation_level=level, topics=[ListOffsetsTopic(name=topic.name, partitions=[partition])]
    )
    row = row_of(await world.client().ask(request))
    assert row.error_code == 0
    return row.offset, row.timestamp


@scenario(in_broker_world)
async def test_tp3_from_the_last_stable_offset_on_nothing_is_found(world) -> None:
    topic = await world.topic()
    producer = OpenProducer(await world.partition(topic))
    await plain(producer.partition, 10, NOW_MS)
    await producer.send(1, NOW_MS + 10)
    await plain(producer.partition, 10, NOW_MS + 20)
    for timestamp, committed, uncommitted in (
        (LATEST, (10, -1), (21, -1)),
        (EARLIEST, (0, -1), (0, -1)),
        (NOW_MS, (0, NOW_MS), (0, NOW_MS)),
        (NOW_MS + 10, (-1, -1), (10, NOW_MS + 10)),
        (NOW_MS + 15, (-1, -1), (11, NOW_MS + 20)),
        (NEWEST, (-1, -1), (11, NOW_MS + 20)),
    ):
        assert await found(world, topic, timestamp, COMMITTED) == committed
        assert await found(world, topic, timestamp, UNCOMMITTED) == uncommitted
    await producer.end(Outcome.COMMIT)
    assert await found(world, topic, LATEST, COMMITTED) == (22, -1)
    assert await found(world, topic, NOW_MS + 15, COMMITTED) == (11, NOW_MS + 20)
