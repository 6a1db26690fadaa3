"""The requests of transactional producers, answered by all coordinators of a node on a real engine."""

import pytest

from siltstone.broker.groups.groups import partition_of_group
from siltstone.broker.offsets_topic import OffsetsTopicLeaders
from siltstone.broker.request import ConnectionContext, Listener, RequestContext
from siltstone.broker.transaction_topic import TransactionTopicLogs
from siltstone.broker.transactions.apis.describing import handle_describe_transactions
from siltstone.broker.transactions.apis.offsets import handle_add_offsets_to_txn
from siltstone.broker.transactions.apis.producing import (
    handle_add_partitions_to_txn,
    handle_end_txn,
    refusal_of_partition,
    start_producer,
)
from siltstone.broker.transactions.transactions import Transactions
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from siltstone.kafka_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from siltstone.kafka_protocol.messages.describe_transactions import DescribeTransactionsRequest
from siltstone.kafka_protocol.messages.end_txn import EndTxnRequest
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from support.broker.broker_world import in_broker_world
from support.engine.engine_world import settled
from support.scenarios import scenario

STATES = "states"
"""The broker of the world has coordinators of its own, in ``__transaction_state``."""
TIMEOUT_MS = 60_000


def context(version):
    connection = ConnectionContext(1, "127.0.0.1", Listener("plain", "127.0.0.1", 9092))
    return RequestContext(connection, ApiKey.END_TXN, version, 1, "test", 0)


class Asked:
    """The handlers of a node, asked in one version or another."""

    def __init__(self, world):
        parts = world.parts

        async def topic():
            if parts.topics.by_name(STATES) is None:
                await world.topic(STATES, partitions=8, cleanup_policy="compact")
            return parts.topics.by_name(STATES)

        self.world = world
        self.all = Transactions(
            TransactionTopicLogs(topic, parts.partitions, world.clock),
            parts.markers,
            parts.producer_ids,
            world.clock,
            OffsetsTopicLeaders(parts.cluster, parts.topics, STATES),
        )

    async def init(self, version=5, name="pay", timeout_ms=TIMEOUT_MS, **fields):
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms, **fields)
        answer = await start_producer(self.all, context(version), request, 900_000)
        return ErrorCode(answer.error_code), answer.producer_id, answer.producer_epoch

    async def add(self, pid, epoch, version=3, name="pay", **topics):
        named = [AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=named,
        )
        answer = await handle_add_partitions_to_txn(self.all, self.refusal_of, context(version), request)
        rows = [row for topic in answer.results_by_topic_v3_and_below for row in topic.results_by_partition]
        return [ErrorCode(row.partition_error_code) for row in rows]

    async def add_as_nodes_do(self, pid, epoch, version=5, name="pay", **topics):
        """What some clients send, too."""
        named = [AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()]
        asked = AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=pid, producer_epoch=epoch, topics=named
        )
        request = AddPartitionsToTxnRequest(transactions=[asked])
        answer = await handle_add_partitions_to_txn(self.all, self.refusal_of, context(version), request)
        (result,) = answer.results_by_transaction
        assert (answer.error_code, result.transactional_id) == (ErrorCode.NONE, name)
        rows = [row for topic in result.topic_results for row in topic.results_by_partition]
        return [ErrorCode(row.partition_error_code) for row in rows]

    def refusal_of(self, partition):
        return refusal_of_partition(self.world.parts.topics, partition)

    async def end(self, pid, epoch, commits=True, version=5, name="pay"):
        request = EndTxnRequest(
            transactional_id=name, producer_id=pid, producer_epoch=epoch, committed=commits
        )
        answer = await handle_end_txn(self.all, context(version), request)
        return ErrorCode(answer.error_code), answer.producer_id, answer.producer_epoch

    async def described(self, *names):
        request = DescribeTransactionsRequest(transactional_ids=list(names))
        return (await handle_describe_transactions(self.all, request)).transaction_states


@scenario(in_broker_world)
async def test_tx1_tx40_the_topic_is_made_with_the_first_transactional_id(world) -> None:
    asked = Asked(world)
    assert world.parts.topics.by_name(STATES) is None
    assert asked.all.coordinator_of("pay") is None
    partitions = set()
    for name in ("pay", "post", "bill"):
        error, pid, epoch = await asked.init(name=name)
        assert (error, epoch, pid % 8) == (ErrorCode.NONE, 0, partition_of_group(name, 8))
        partitions.add(pid % 8)
    assert len(partitions) > 1
    assert asked.all.coordinator_of("pay") == world.parts.node_id
    await asked.all.close()
    assert (await asked.init())[0] is ErrorCode.NOT_COORDINATOR


@scenario(in_broker_world)
async def test_tx2_old_requests_have_another_name_for_a_fenced_producer(world) -> None:
    asked = Asked(world)
    await world.topic()
    _, pid, _ = await asked.init()
    await asked.init()
    assert await asked.add(pid, 0, version=2, t=[0]) == [ErrorCode.PRODUCER_FENCED]
    assert await asked.add(pid, 0, version=0, t=[0]) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert (await asked.end(pid, 0, version=5))[0] is ErrorCode.PRODUCER_FENCED
    assert (await asked.end(pid, 0, version=1))[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    for version, error in ((4, ErrorCode.PRODUCER_FENCED), (3, ErrorCode.INVALID_PRODUCER_EPOCH)):
        assert await asked.init(version, producer_id=pid, producer_epoch=0) == (error, -1, -1)
    await asked.all.close()


@scenario(in_broker_world)
async def test_tx4_with_an_unknown_partition_none_is_added(world) -> None:
    asked = Asked(world)
    await world.topic(partitions=2)
    _, pid, epoch = await asked.init()
    unknown, not_tried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert await asked.add(pid, epoch, t=[0, 1, 2], none=[0]) == [not_tried, not_tried, unknown, unknown]
    (row,) = await asked.described("pay")
    assert (row.transaction_state, row.topics) == ("Empty", [])
    assert await asked.add(pid, epoch, t=[0, 1]) == [ErrorCode.NONE] * 2
    await asked.all.close()


@scenario(in_broker_world)
async def test_tx59_a_client_that_speaks_the_newest_version_adds_partitions_by_it(world) -> None:
    """@platformatic/kafka does; it was refused before, and its transactions with it."""
    asked = Asked(world)
    await world.topic(partitions=2)
    _, pid, epoch = await asked.init()
    unknown, not_tried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert await asked.add_as_nodes_do(pid, epoch, t=[0, 2]) == [not_tried, unknown]
    assert await asked.add_as_nodes_do(pid, epoch + 1, t=[0]) == [ErrorCode.PRODUCER_FENCED]
    assert await asked.add_as_nodes_do(pid, epoch, version=4, t=[0, 1]) == [ErrorCode.NONE] * 2
    (row,) = await asked.described("pay")
    assert row.transaction_state == "Ongoing" and row.topics[0].partitions == [0, 1]
    assert await asked.end(pid, epoch, version=4) == (ErrorCode.NONE, pid, epoch)
    await asked.all.close()


@pytest.mark.parametrize(("version", "next_epoch"), [(4, 0), (5, 1)])
@scenario(in_broker_world)
async def test_tx5_tx6_the_version_of_the_end_decides_about_the_epoch(world, version, next_epoch) -> None:
    asked = Asked(world)
    await world.topic()
    _, pid, epoch = await asked.init()
    await asked.add(pid, epoch, t=[0])
    assert await asked.end(pid, epoch, version=version) == (ErrorCode.NONE, pid, next_epoch)
    (row,) = await asked.described("pay")
    assert (row.transaction_state, row.producer_epoch) == ("CompleteCommit", next_epoch)
    await asked.all.close()


@scenario(in_broker_world)
async def test_tx13_tx14_what_is_refused_whatever_is_known(world) -> None:
    asked = Asked(world)
    assert (await asked.init(timeout_ms=900_001))[0] is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (await asked.init(name=""))[0] is ErrorCode.INVALID_REQUEST
    assert (await asked.init(producer_id=7))[0] is ErrorCode.INVALID_REQUEST
    assert (await asked.end(7, 0, name=""))[0] is ErrorCode.INVALID_REQUEST
    assert (await asked.end(7, 0, name="unknown"))[0] is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    await asked.all.close()


@scenario(in_broker_world)
async def test_offsets_add_the_partition_of_their_group(world) -> None:
    asked = Asked(world)
    _, pid, epoch = await asked.init()
    request = AddOffsetsToTxnRequest(
        transactional_id="pay", producer_id=pid, producer_epoch=epoch, group_id="readers"
    )
    answer = await handle_add_offsets_to_txn(asked.all, world.parts.groups, context(3), request)
    assert answer.error_code == 0
    (row,) = await asked.described("pay")
    assert [(topic.topic, len(topic.partitions)) for topic in row.topics] == [("__consumer_offsets", 1)]
    without = AddOffsetsToTxnRequest(transactional_id="pay", producer_id=pid, producer_epoch=epoch)
    answer = await handle_add_offsets_to_txn(asked.all, world.parts.groups, context(3), without)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
    await asked.all.close()


@scenario(in_broker_world)
async def test_tx38_described_are_known_ids_and_why_others_are_not(world) -> None:
    asked = Asked(world)
    await world.topic(partitions=2)
    _, pid, epoch = await asked.init()
    await asked.add(pid, epoch, t=[1, 0])
    known, unknown, empty = await asked.described("pay", "other", "", "pay")
    assert (known.producer_id, known.producer_epoch, known.transaction_state) == (pid, epoch, "Ongoing")
    assert (known.transaction_timeout_ms, known.transaction_start_time_ms) == (
        TIMEOUT_MS, world.clock.now_ms(),
    )  # fmt: skip
    assert [(topic.topic, topic.partitions) for topic in known.topics] == [("t", [0, 1])]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST
    await asked.all.close()


@scenario(in_broker_world)
async def test_tx29_ids_expire_and_all_coordinators_are_loaded_without_a_request(world) -> None:
    asked = Asked(world)
    for name in ("pay", "post", "bill"):
        await asked.init(name=name)
    await asked.all.close()
    again = Asked(world)
    await again.all.start(10_000, loads=True)
    for _ in range(20):
        await settled()
    found = again.all.look_at_all()
    assert sorted(each.transactional_id for each in found) == ["bill", "pay", "post"]
    await world.pass_ms(3_600_000)
    for _ in range(20):
        await settled()
    assert again.all.look_at_all() == []
    await again.all.close()
