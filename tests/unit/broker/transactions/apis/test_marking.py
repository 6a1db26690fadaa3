from siltstone.broker.transactions.apis.marking import handle_write_txn_markers
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from siltstone.kafka_protocol.records.control import Outcome
from support.broker.broker_world import in_broker_world
from support.broker.transactional import COORDINATOR_EPOCH, PID, OpenProducer
from support.scenarios import scenario

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def write(world, epoch, commits=False, version=0, coordinator_epoch=COORDINATOR_EPOCH, **topics):
    named = [WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    marker = WritableTxnMarker(
        producer_id=PID, producer_epoch=epoch, transaction_result=commits, topics=named,
        coordinator_epoch=coordinator_epoch, transaction_version=version,
    )  # fmt: skip
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = await handle_write_txn_markers(world.parts.markers, request)
    (row,) = answer.markers
    assert row.producer_id == PID
    return [ErrorCode(each.error_code) for topic in row.topics for each in topic.partitions]


@scenario(in_broker_world)
async def test_tp31_a_tool_ends_a_transaction_that_hangs(world) -> None:
    producer = OpenProducer(await world.partition(await world.topic()))
    await producer.send()
    assert producer.partition.last_stable_offset == 0
    assert await write(world, epoch=0, t=[0]) == [NONE]
    assert producer.partition.last_stable_offset == producer.partition.high_watermark == 2
    assert len(producer.partition.transactions.aborted) == 1
    assert await write(world, epoch=0, t=[0]) == [NONE]


@scenario(in_broker_world)
async def test_tp32_an_unknown_partition_is_named_and_the_others_get_their_marker(world) -> None:
    topic = await world.topic(partitions=2)
    assert await write(world, epoch=0, t=[0, 7, 1], none=[0]) == [NONE, UNKNOWN, NONE, UNKNOWN]
    assert [(await world.partition(topic, index)).high_watermark for index in (0, 1)] == [1, 1]


@scenario(in_broker_world)
async def test_tp16_tp45_a_repeated_marker_is_answered_and_not_written(world) -> None:
    producer = OpenProducer(await world.partition(await world.topic()))
    await producer.send()
    assert await write(world, 1, commits=True, version=2, t=[0]) == [NONE]
    assert await write(world, 1, commits=True, version=2, t=[0]) == [NONE]
    assert producer.partition.next_offset == 2
    assert await write(world, 0, commits=True, version=2, t=[0]) == [ErrorCode.INVALID_PRODUCER_EPOCH]


@scenario(in_broker_world)
async def test_a_marker_of_an_older_coordinator_is_refused(world) -> None:
    producer = OpenProducer(await world.partition(await world.topic()))
    await producer.send()
    await producer.end(Outcome.COMMIT)
    await producer.send()
    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await write(world, 2, version=2, coordinator_epoch=COORDINATOR_EPOCH - 1, t=[0]) == [code]
