"""What nodes ask each other for transactions, while answers are late, refused, or asked for themselves."""

import asyncio
from contextlib import nullcontext

import pytest

from siltstone.broker.coordination.life import Phase
from siltstone.broker.groups.groups import partition_of_group
from siltstone.broker.partitions.transaction_state import CoordinatorFenced, TransactionEnding
from siltstone.broker.topics.names import TRANSACTIONS_TOPIC
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker
from support.broker.broker_cluster import LateAnswer, in_broker_cluster
from support.broker.left_out_rules import without
from support.broker.transaction_clients import NONE, TIMEOUT_MS, TransactionClient, ends
from support.engine.engine_world import settled
from support.scenarios import scenario
from unit.broker.transactions.test_transactions_between_nodes import MARKERS, begun, outcome, send, works


@scenario(in_broker_cluster)
async def test_tx47_an_older_coordinator_is_not_believed(cluster) -> None:
    """It was paused, and answers from memory behind the end of what it remembers."""
    _, topic, client = await begun(cluster)
    await send(client, topic, 1)
    assert await client.end() is NONE
    await settled()
    partition = await cluster.nodes[1].parts.partitions.open(topic, 1)
    partition.producers.coordinated(client.pid, 99)
    logs = [coordinator_of(cluster, client)._log]
    for _ in range(2):
        client.sequences.clear()
        assert await client.produce(topic, 1) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        await settled()
        logs.append(coordinator_of(cluster, client)._log)
    assert partition.next_offset == 2
    assert logs[0] is not logs[1], "it has read its log: is that still its own?"
    assert logs[1] is logs[2], "not more than once a minute"


@pytest.mark.parametrize("rule_stands", [True, False])
@scenario(in_broker_cluster)
async def test_tx47_what_an_older_coordinator_permits_would_be_ended_by_nobody(cluster, rule_stands) -> None:
    """The leader has a marker of a newer coordinator, and the answer of a paused one comes after it, not around it. No
    other rule stands here."""
    with nullcontext() if rule_stands else without("older_coordinator_is_refused"):
        world, topic, client = await begun(cluster)
        await send(client, topic, 1)
        assert await client.end() is NONE
        await settled()
        partition = await cluster.nodes[1].parts.partitions.open(topic, 1)
        marker = TransactionMarker(Outcome.COMMIT, 99)
        newer = TransactionEnding(
            client.pid, client.epoch, marker, number=partition.producers.get(client.pid).open_number + 1
        )
        assert await partition.append_marker(newer) == 2
        client.sequences.clear()
        answer = await client.produce(topic, 1)
        await settled()
        stable, end = await ends(world, topic, 1)
    if rule_stands:
        assert answer == [ErrorCode.NOT_ENOUGH_REPLICAS] and (stable, end) == (3, 3)
    else:
        assert answer == [NONE] and (stable, end) == (3, 4), "the newer one does not know of it"
        refused = TransactionEnding(client.pid, client.epoch + 1, TransactionMarker(Outcome.ABORT, 1), True)
        with pytest.raises(CoordinatorFenced):
            partition.append_marker(refused)


def coordinator_of(cluster, client, node_id=0):
    partition = partition_of_group(client.name, 8)
    return cluster.nodes[node_id].parts.transactions._coordinators[partition]


@scenario(in_broker_cluster)
async def test_tx47_a_coordinator_whose_marker_is_refused_for_a_newer_one_reads_its_log_again(
    cluster,
) -> None:
    world, topic, client = await begun(cluster)
    await send(client, topic, 0, 1)
    partition = await cluster.nodes[1].parts.partitions.open(topic, 1)
    partition.producers.coordinated(client.pid, 99)
    before = coordinator_of(cluster, client)._log
    assert await client.end() is NONE
    await settled()
    assert coordinator_of(cluster, client)._log is not before
    assert await outcome(world, topic) == [(2, True), (0, False)]
    await cluster.passes(20_000, 1_000)
    assert coordinator_of(cluster, client).phase is Phase.ACTIVE, "it is not read again and again"


@scenario(in_broker_cluster)
async def test_tp39_a_number_that_comes_late_is_not_taken_for_that_of_the_next_transaction(cluster) -> None:
    """A leader that has read its log asks for the number of what is open, and the marker is sent again before it has
    the answer. By then the next transaction, under the same epoch, is open."""
    world, topic, client = await begun(cluster, 1, coordinator=0)
    await send(client, topic, 1)
    partition = await cluster.nodes[1].parts.partitions.open(topic, 1)
    partition.transactions.number_is(client.pid, -1, -1)
    late, asked = asyncio.get_running_loop().create_future(), []

    def first_is_late(question):
        if question.asks != 1 or asked:
            return None
        asked.append(question)
        return LateAnswer(late)

    cluster.between_nodes = first_is_late
    assert await client.end() is NONE
    await cluster.passes(12_000, 1_000)
    assert asked and await outcome(world, topic) == [(0, True), (2, True)]
    await send(client, topic, 1)
    number = partition.producers.get(client.pid).open_number
    late.set_result(None)
    await settled()
    assert partition.producers.get(client.pid).open_number == number > 0
    assert await client.end() is NONE
    await cluster.passes(12_000, 1_000)
    assert await outcome(world, topic) == [(0, True), (4, True)]


@scenario(in_broker_cluster)
async def test_tx45_nodes_that_ask_each_other_while_they_write_markers_answer_each_other(cluster) -> None:
    """Both leaders have read their logs: to write the marker of the other node, each asks that node which transaction
    is open. The question must not wait behind the marker that waits for it."""
    world, topic, client = await begun(cluster, 1, coordinator=0)
    other = TransactionClient(world, 1, world.name_led_by(TRANSACTIONS_TOPIC, 1))
    assert await other.init() is NONE
    await send(client, topic, 1)
    await send(other, topic, 0)
    for index, producer in ((1, client), (0, other)):
        partition = await cluster.nodes[index].parts.partitions.open(topic, index)
        partition.transactions.number_is(producer.pid, -1, -1)
    assert await asyncio.gather(client.end(), other.end()) == [NONE, NONE]
    await settled()
    assert await outcome(world, topic) == [(2, True), (2, True)]


@scenario(in_broker_cluster)
async def test_tx48_a_marker_leaves_at_once_when_its_partition_has_another_leader(cluster) -> None:
    world, topic, client = await begun(cluster)
    await send(client, topic, 0, 1)
    cluster.nodes[1].is_dead = True  # it does not answer
    assert await client.end() is NONE
    await cluster.passes(20_000, 1_000)
    assert [each.request.api_key for each in cluster.questions].count(MARKERS) > 5, (
        "it waits for five seconds now"
    )
    cluster.nodes[1].is_dead = False
    await cluster.dies(1, by=0)
    await cluster.passes(300)
    assert await outcome(world, topic) == [(2, True), (2, True)]


@scenario(in_broker_cluster)
async def test_tp41_a_batch_of_the_next_transaction_waits_for_the_marker_of_another_node(cluster) -> None:
    """The coordinator is node 0, the partition is at node 1, and the marker is held back on its way."""
    world, topic, client = await begun(cluster)
    await send(client, topic, 1)
    waits = asyncio.get_running_loop().create_future()
    cluster.between_nodes = lambda question: waits if question.request.api_key == MARKERS else None
    assert await client.end() is NONE
    producing = asyncio.ensure_future(client.produce(topic, 1))
    await cluster.passes(500)
    assert not producing.done()
    assert await ends(world, topic, 1) == (0, 1)
    works(cluster)
    waits.set_result(None)
    await cluster.passes(200)
    assert producing.result() == [NONE]
    assert await ends(world, topic, 1) == (2, 3), "the batch is behind the marker"
    assert await client.end() is NONE
    await settled()
    assert await ends(world, topic, 1) == (4, 4)


@pytest.mark.parametrize("knows_marker", [True, False])
@pytest.mark.parametrize("generation", [1, 2])
@scenario(in_broker_cluster)
async def test_tp43_a_batch_of_an_epoch_that_timed_out_is_fenced_at_another_node(
    cluster, generation, knows_marker
) -> None:
    """Never 48, which ends Kafka Streams: the leader has the marker, or asks the coordinator."""
    world, topic, client = await begun(cluster, generation)
    await send(client, topic, 0, *([1] if knows_marker else []))
    await cluster.passes(TIMEOUT_MS + 2_000, 1_000)
    assert await client.produce(topic, 1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    end = 2 if knows_marker else 0
    assert await ends(world, topic, 1) == (end, end)
