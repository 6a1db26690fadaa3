from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from siltstone.kafka_protocol.records.control import Outcome
from siltstone.model.errors import Unavailable
from support.broker.broker_world import in_broker_world
from support.broker.transactional import COORDINATOR_EPOCH, OpenProducer, plain
from support.kafka.kafka_requests import produce_request, rows_of, sequenced
from support.scenarios import scenario


def asking(*topics: tuple[str, list[int]]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics]
    )


@scenario(in_broker_world)
async def test_the_producers_of_a_partition_with_their_last_batches(world) -> None:
    topic = await world.topic(partitions=2)
    await world.client().ask(produce_request(topic, sequenced(4, 0, 3)))
    await world.client().ask(produce_request(topic, sequenced(4, 3, 2)))
    await world.pass_ms(1_000)
    await world.client().ask(produce_request(topic, sequenced(9, 0, 1, epoch=2)))
    await world.restart()
    known, none = rows_of(await world.client().ask(asking(("t", [0, 1]))))
    assert (known.error_code, known.error_message, known.partition_index) == (0, None, 0)
    told = [
        (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
        for each in known.active_producers
    ]
    now_ms = world.clock.now_ms()
    assert told == [(4, 0, 4, now_ms - 1_000), (9, 2, 0, now_ms)]
    assert all(each.coordinator_epoch == -1 for each in known.active_producers)
    assert all(each.current_txn_start_offset == -1 for each in known.active_producers)
    assert (none.error_code, none.partition_index, none.active_producers) == (0, 1, [])


@scenario(in_broker_world)
async def test_tp30_an_open_transaction_is_shown_by_its_first_offset(world) -> None:
    producer = OpenProducer(await world.partition(await world.topic()))
    await plain(producer.partition, 10)
    await producer.send()

    async def shown():
        (row,) = rows_of(await world.client().ask(asking(("t", [0]))))
        (one,) = row.active_producers
        return one.current_txn_start_offset, one.coordinator_epoch, one.producer_epoch, one.last_sequence

    assert await shown() == (10, -1, 0, 0)
    await producer.end(Outcome.COMMIT)
    assert await shown() == (-1, COORDINATOR_EPOCH, 1, -1)


@scenario(in_broker_world)
async def test_a_partition_that_is_not_there_and_one_that_is_named_twice(world) -> None:
    await world.topic()
    rows = rows_of(await world.client().ask(asking(("t", [0, 0, 1, -1]), ("nowhere", [0]), ("t", [0]))))
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(row.partition_index, row.error_code) for row in rows] == [
        (0, 0), (1, missing), (-1, missing), (0, missing),
    ]  # fmt: skip


@scenario(in_broker_world)
async def test_a_partition_that_cannot_be_opened_says_why(world, monkeypatch) -> None:
    await world.topic()

    async def unreachable(*_):
        raise Unavailable("the bucket cannot be reached")

    monkeypatch.setattr(world.parts.partitions, "open", unreachable)
    (row,) = rows_of(await world.client().ask(asking(("t", [0]))))
    assert row.error_code != 0 and "cannot be reached" in row.error_message
