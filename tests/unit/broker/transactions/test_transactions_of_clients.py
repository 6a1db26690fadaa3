"""Transactions as clients make them: each step is a request to a broker on a real engine."""

import asyncio

import pytest

from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_transactions import DescribeTransactionsRequest
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.list_transactions import ListTransactionsRequest
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from support.broker.broker_world import WRITE, in_broker_world
from support.broker.transaction_clients import (
    NONE,
    TIMEOUT_MS,
    TransactionClient,
    committed_batches,
    ends,
    started,
)
from support.engine.engine_world import settled
from support.kafka.kafka_requests import rows_of, sequenced
from support.scenarios import scenario

STATES = "__transaction_state"
GENERATIONS = pytest.mark.parametrize("generation", [1, 2])


@scenario(in_broker_world)
async def test_tx40_without_transactional_ids_there_is_no_topic_for_them(world) -> None:
    await world.topic()
    await world.restart()
    assert world.parts.topics.by_name(STATES) is None


@pytest.mark.parametrize("version", [1, 4, 6])
@scenario(in_broker_world, BrokerSettings(transaction_state_log_num_partitions=3))
async def test_the_coordinator_of_a_transactional_id_is_found(world, version) -> None:
    request = FindCoordinatorRequest(key="pay", key_type=1, coordinator_keys=["pay"])
    answer = await world.client().ask(request, version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "kafka.example", 9092)
    topic = world.parts.topics.by_name(STATES)
    assert (topic.partition_count, topic.is_internal) == (3, True)
    assert topic.config.is_compacted


@GENERATIONS
@scenario(in_broker_world)
async def test_tp1_what_is_committed_is_seen_and_what_is_aborted_is_named(world, generation) -> None:
    topic = await world.topic(partitions=2)
    client = await started(world, generation)
    await client.send(topic, 0, 1, count=3)
    await client.send(topic, 0)
    assert [await ends(world, topic, index) for index in (0, 1)] == [(0, 4), (0, 3)]
    assert await committed_batches(world, topic) == []
    assert await client.end() is NONE
    assert [await ends(world, topic, index) for index in (0, 1)] == [(5, 5), (4, 4)]
    assert await committed_batches(world, topic) == [(0, 2), (3, 3), (4, 4)]
    await client.send(topic)
    assert await client.end(commits=False) is NONE
    partition = world.opened(topic)
    assert [(each.first_offset, each.marker_offset) for each in partition.transactions.aborted] == [(5, 6)]
    await client.send(topic)
    assert await client.end() is NONE
    assert await ends(world, topic) == (9, 9)


@scenario(in_broker_world)
async def test_tx44_a_commit_over_two_partitions_is_one_turn_and_is_answered_when_durable(world) -> None:
    topic = await world.topic(partitions=2)
    client = await started(world)
    await client.send(topic, 0, 1)
    world.calls.hold(WRITE)
    ending = asyncio.ensure_future(client.end())
    await settled()
    assert not ending.done()
    assert [world.opened(topic, index).next_offset for index in (0, 1)] == [2, 2]
    assert await ends(world, topic) == (0, 1)
    world.calls.release(WRITE)
    assert await ending is NONE
    assert await ends(world, topic) == (2, 2)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
        (12, NONE),
        (13, NONE),
    ],
)
@scenario(in_broker_world)
async def test_tp9_a_batch_in_a_partition_that_was_not_added(world, version, code) -> None:
    topic = await world.topic()
    client = await started(world)
    client.versions["produce"] = version
    assert await client.produce(topic) == [code]
    assert await ends(world, topic) == ((0, 1) if code is NONE else (0, 0))


@scenario(in_broker_world)
async def test_tp33_the_first_batch_leaves_in_the_turn_of_the_record_that_names_its_partition(world) -> None:
    topic = await world.topic()
    client = await started(world)
    await client.send(topic)
    assert await client.end() is NONE
    world.calls.hold(WRITE)
    sending = asyncio.ensure_future(client.produce(topic))
    await settled()
    assert world.opened(topic).next_offset == 3, "it does not wait for the coordinator's record"
    await world.crash()
    sending.cancel()
    assert await ends(world, topic) == (2, 2)
    world.calls.hold(WRITE)
    again = TransactionClient(world)
    again.pid, again.epoch = client.pid, client.epoch
    sending = asyncio.ensure_future(again.produce(topic))
    await settled()
    world.calls.release(WRITE)
    assert await sending == [NONE]
    await world.crash()
    assert await ends(world, topic) == (2, 3)
    await world.pass_ms(TIMEOUT_MS + 1)
    await settled()
    assert await ends(world, topic) == (4, 4)


@scenario(in_broker_world)
async def test_tp11_a_transactional_batch_without_a_transactional_id_refuses_the_whole_request(world) -> None:
    topic = await world.topic(partitions=2)
    client = await started(world)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await client.produce(topic, 0, 1, transactional_id=None) == [refused] * 2
    assert await ends(world, topic) == (0, 0)


@scenario(in_broker_world)
async def test_batches_of_two_producers_in_one_request_are_refused(world) -> None:
    topic = await world.topic(partitions=2)
    client = await started(world)
    batches = [sequenced(client.pid + of, 0, attributes=TRANSACTIONAL_BIT) for of in (0, 1)]
    rows = [ProducePartition(index=index, records=batch) for index, batch in enumerate(batches)]
    named = ProduceTopic(name=topic.name, partitions=rows)
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topics=[named], transactional_id="pay")
    answer = await world.client().ask(request, 12)
    assert [row.error_code for row in rows_of(answer)] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


@GENERATIONS
@scenario(in_broker_world)
async def test_tx2_tx15_a_second_instance_fences_the_first(world, generation) -> None:
    topic = await world.topic()
    first = await started(world, generation)
    await first.send(topic)
    second = await started(world, generation)
    assert (second.pid, second.epoch) == (first.pid, first.epoch + 2)
    assert await ends(world, topic) == (2, 2)
    assert await first.produce(topic) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    fenced = ErrorCode.PRODUCER_FENCED if generation == 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert await first.end() is fenced
    assert await first.add(topic.name, 0) == [fenced]
    await second.send(topic)
    assert await second.end() is NONE


@GENERATIONS
@scenario(in_broker_world)
async def test_tx11_tp10_tp43_after_the_timeout_nothing_of_it_is_stored(world, generation) -> None:
    topic = await world.topic()
    client = await started(world, generation)
    await client.send(topic)
    await world.pass_ms(TIMEOUT_MS + 1)
    await settled()
    assert await ends(world, topic) == (2, 2)
    assert await client.produce(topic) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await ends(world, topic) == (2, 2)
    assert await client.end() is (
        ErrorCode.INVALID_TXN_STATE if generation == 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    )


@scenario(in_broker_world)
async def test_tx4_unknown_internal_and_wrong_partitions_are_refused_and_none_is_added(world) -> None:
    topic = await world.topic()
    client = await started(world, 1)
    not_tried = ErrorCode.OPERATION_NOT_ATTEMPTED
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await client.add(topic.name, 0, 7) == [not_tried, unknown]
    assert await client.add("none", 0) == [unknown]
    assert await client.add(STATES, 0) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert await client.produce(topic) == [ErrorCode.INVALID_TXN_STATE]


@scenario(in_broker_world)
async def test_tp12_tp13_tp15_sequences_begin_again_with_each_transaction(world) -> None:
    topic = await world.topic()
    client = await started(world)
    client.sequences[topic.name, 0] = 5
    assert await client.produce(topic) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    client.sequences.clear()
    await client.send(topic)
    client.sequences.clear()
    assert await client.produce(topic) == [NONE], "it is the same batch, sent again"
    assert await ends(world, topic) == (0, 1)
    assert await client.end() is NONE
    client.sequences[topic.name, 0] = 3
    assert await client.produce(topic) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    client.sequences.clear()
    await client.send(topic)


@scenario(in_broker_world)
async def test_tp14_a_batch_outside_of_the_open_transaction_is_refused(world) -> None:
    topic = await world.topic()
    client = await started(world)
    await client.send(topic)
    batch = sequenced(client.pid, 1)
    named = ProduceTopic(name=topic.name, partitions=[ProducePartition(index=0, records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topics=[named])
    (row,) = rows_of(await world.client().ask(request, 9))
    assert row.error_code == ErrorCode.INVALID_TXN_STATE


@scenario(in_broker_world)
async def test_tx32_an_open_transaction_survives_a_restart_and_a_crash(world) -> None:
    topic = await world.topic()
    client = await started(world)
    await client.send(topic)
    await world.restart()
    await settled()
    assert await ends(world, topic) == (0, 1)
    again = TransactionClient(world)
    again.pid, again.epoch, again.sequences = client.pid, client.epoch, client.sequences
    await again.send(topic)
    await world.crash()
    last = TransactionClient(world)
    last.pid, last.epoch = client.pid, client.epoch
    assert await last.end() is NONE
    assert await ends(world, topic) == (3, 3)


@scenario(in_broker_world)
async def test_while_the_coordinator_is_loaded_a_producer_sends_its_batch_again(world) -> None:
    topic = await world.topic()
    client = await started(world)
    await client.send(topic)
    assert await client.end() is NONE
    await world.parts.transactions.give_up(0)
    for index in range(1, 8):
        await world.parts.transactions.give_up(index)
    assert await client.produce(topic) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    for index in range(8):
        world.parts.transactions.take_back(index)
    client.sequences.clear()
    assert await client.produce(topic) == [NONE]


async def listed(world, version=2, **filters):
    answer = await world.client().ask(ListTransactionsRequest(**filters), version)
    assert answer.error_code == 0
    return [row.transactional_id for row in answer.transaction_states], answer.unknown_state_filters


@scenario(in_broker_world)
async def test_tx37_transactions_are_listed_by_state_time_and_pattern(world) -> None:
    topic = await world.topic()
    for name in ("a1", "a2", "b1"):
        client = await started(world, name=name)
        await client.send(topic)
        await world.pass_ms(1_000)
    assert await client.end() is NONE
    assert sorted((await listed(world, 0))[0]) == ["a1", "a2", "b1"]
    assert await listed(world, 0, state_filters=["CompleteCommit"]) == (["b1"], [])
    assert await listed(world, state_filters=["Nonsense"]) == ([], ["Nonsense"])
    assert await listed(world, 1, duration_filter=2_500) == (["a1"], [])
    assert await listed(world, producer_id_filters=[client.pid]) == (["b1"], [])
    assert sorted((await listed(world, transactional_id_pattern="a.*"))[0]) == ["a1", "a2"]
    assert (await listed(world, transactional_id_pattern="a"))[0] == []
    answer = await world.client().ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@scenario(in_broker_world)
async def test_tx38_transactions_are_described(world) -> None:
    topic = await world.topic(partitions=2)
    client = await started(world)
    await client.send(topic, 0, 1)
    names = ["pay", "none", ""]
    answer = await world.client().ask(DescribeTransactionsRequest(transactional_ids=names), 0)
    rows = {row.transactional_id: row for row in answer.transaction_states}
    assert rows["pay"].transaction_state == "Ongoing"
    assert [(each.topic, each.partitions) for each in rows["pay"].topics] == [("t", [0, 1])]
    assert (rows["pay"].producer_id, rows["pay"].transaction_timeout_ms) == (client.pid, TIMEOUT_MS)
    assert rows["none"].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert rows[""].error_code == ErrorCode.INVALID_REQUEST
