"""Transactions that something comes into: requests in another order, clients that change, topics that are made anew."""

import asyncio

import pytest

from siltstone.broker.transactions.rules.deciding import decide
from siltstone.broker.transactions.rules.requests import AddToTransaction, End
from siltstone.broker.transactions.rules.transaction import Transaction
from siltstone.broker.transactions.state_log.record import TransactionState
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.kafka_protocol.messages.describe_transactions import DescribeTransactionsRequest
from siltstone.runtime.turns import let_others_run
from support.broker.broker_world import SMALL_TAIL, WRITE, in_broker_world
from support.broker.transaction_clients import (
    NEW,
    NONE,
    TIMEOUT_MS,
    TransactionClient,
    ends,
    offset_of,
    started,
)
from support.engine.engine_world import settled
from support.kafka.kafka_requests import batch_of, produce_request
from support.scenarios import scenario

GENERATIONS = pytest.mark.parametrize("generation", [1, 2])
ASK_AGAIN = ErrorCode.CONCURRENT_TRANSACTIONS


async def described(world, name="pay"):
    (row,) = (
        await world.client().ask(DescribeTransactionsRequest(transactional_ids=[name]))
    ).transaction_states
    return row.transaction_state


@GENERATIONS
@scenario(in_broker_world)
async def test_tx24_an_end_is_decided_on_what_is_appended_and_answered_when_it_is_durable(
    world, generation
) -> None:
    topic = await world.topic()
    await world.partition(topic)
    client = await started(world, generation)
    world.calls.hold(WRITE)
    adding = asyncio.ensure_future(client.produce(topic) if client.adds_itself else client.add("t", 0))
    await settled()
    ending = asyncio.ensure_future(client.end())
    await settled()
    assert not adding.done() and not ending.done()
    assert await described(world) == "CompleteCommit", "no request waits for the disk to be decided"
    world.calls.release(WRITE)
    assert await adding == [NONE]
    assert await ending is NONE, "and not CONCURRENT_TRANSACTIONS, as in Kafka"


@scenario(in_broker_world)
async def test_tx35_a_client_becomes_one_of_transaction_version_2(world) -> None:
    """As Java does when it learns of the feature: InitProducerId with what it has, and then the new versions."""
    topic = await world.topic()
    client = await started(world, 1)
    await client.send(topic)
    assert await client.end() is NONE
    pid, epoch = client.pid, client.epoch
    client.versions, client.adds_itself = dict(NEW), True
    assert await client.init(producer_id=pid, producer_epoch=epoch) is NONE
    assert (client.pid, client.epoch) == (pid, epoch + 1)
    await client.send(topic)
    assert await client.end() is NONE
    assert client.epoch == epoch + 2
    assert await ends(world, topic) == (4, 4)


@pytest.mark.parametrize("commits", [True, False])
@scenario(in_broker_world)
async def test_tx36_an_end_that_was_stuck_on_an_older_connection_ends_no_later_transaction(
    world, commits
) -> None:
    topic = await world.topic()
    client = await started(world, 1)
    await client.send(topic)
    stuck = client.client
    client.client = world.client()
    assert await client.end(commits) is NONE, "the client has sent it again over a new connection"
    await client.send(topic)
    client.client, newer = stuck, client.client
    assert await client.end(commits) is ASK_AGAIN
    assert await described(world) == "Ongoing"
    client.client = newer
    await client.send(topic)
    assert await client.end() is NONE
    assert await ends(world, topic) == (5, 5)


@scenario(in_broker_world)
async def test_tx36_a_client_may_end_a_transaction_over_a_new_connection_and_repeat_that(world) -> None:
    topic = await world.topic()
    client = await started(world, 1)
    for _ in range(2):
        await client.send(topic)
        await client.send_offsets("g", "t", p0=1)
        client.client = world.client()
        assert await client.end() is NONE
        assert await client.end() is NONE
    assert await offset_of(world, "g", "t") == 1


def test_tx36_connections_are_only_looked_at_where_nothing_else_tells_transactions_apart() -> None:
    begun = decide(
        Transaction("pay", 9, 5, TIMEOUT_MS),
        AddToTransaction(9, 5, frozenset({("t", 0)}), 0, connection_id=7),
        0,
    ).transaction
    assert begun.state is TransactionState.ONGOING
    for version, connection_id, is_refused in (
        (0, 6, True),
        (0, 7, False),
        (0, 8, False),
        (0, -1, False),
        (2, 6, False),
    ):
        answer = decide(begun, End(9, 5, True, version, connection_id), 0).answer
        assert (answer is ASK_AGAIN) is is_refused


@GENERATIONS
@scenario(in_broker_world)
async def test_tx43_an_administrator_fences_a_producer(world, generation) -> None:
    """As ``Admin.fenceProducers`` does: InitProducerId with a time-out of a millisecond."""
    topic = await world.topic()
    client = await started(world, generation)
    await client.send(topic)
    administrator = TransactionClient(world, generation)
    assert await administrator.init(timeout_ms=1) is NONE
    assert (administrator.pid, administrator.epoch) == (client.pid, client.epoch + 2)
    assert world.opened(topic).transactions.aborted.between(0, 2)[0].first_offset == 0
    assert await ends(world, topic) == (2, 2)
    assert await client.produce(topic) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await client.end() in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize("commits", [True, False])
@GENERATIONS
@scenario(in_broker_world)
async def test_tx52_a_topic_is_made_anew_during_a_transaction(world, generation, commits) -> None:
    topic, other = await world.topic(), await world.topic("other")
    client = await started(world, generation)
    await client.send(topic)
    await client.send(other)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1_000)
    assert (await world.client().ask(request, 6)).responses[0].error_code == 0
    again = await world.topic()
    assert await client.end(commits) is NONE
    assert await described(world) == ("CompleteCommit" if commits else "CompleteAbort")
    assert await ends(world, other) == (2, 2)
    stable, end = await ends(world, again)
    assert stable == end <= 1, "nothing, or a marker that ends nothing"
    client.sequences.clear()
    await client.send(again)
    assert await client.end() is NONE
    assert await ends(world, again) == (end + 2, end + 2)


@GENERATIONS
@scenario(in_broker_world, engine=SMALL_TAIL)
async def test_tp35_an_end_does_not_overtake_a_batch_that_waits_for_room(world, generation) -> None:
    topic, other = await world.topic(), await world.topic("other")
    await world.partition(other)
    client = await started(world, generation)
    await client.send(topic)
    world.calls.hold(WRITE)
    while not world.broker.wants_pause:
        world.client().send(produce_request(other, batch_of(value_bytes=2_000), timeout_ms=30_000))
    waiting = asyncio.ensure_future(client.produce(topic))
    await settled()
    ending = asyncio.ensure_future(client.end(commits=False))
    await settled()
    assert not waiting.done()
    world.calls.release(WRITE)
    assert await world.world.passing(waiting) == [NONE]
    if await world.world.passing(ending) is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        assert await client.end(commits=False) is NONE
    assert await ends(world, topic) == (3, 3)
    (aborted,) = world.opened(topic).transactions.aborted.between(0, 3)
    assert (aborted.first_offset, aborted.marker_offset) == (0, 2), "the marker is behind both batches"


@scenario(in_broker_world)
async def test_tg20_offsets_of_a_member_with_another_epoch_in_a_transaction(world) -> None:
    """ILLEGAL_GENERATION: clients of TxnOffsetCommit 5 do not know STALE_MEMBER_EPOCH."""
    await world.topic()
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    for _ in range(20):
        told = await world.client().ask(beat, 1)
        await settled()
        if not told.error_code:
            break
    client = await started(world)
    for epoch, code in ((told.member_epoch + 1, 22), (told.member_epoch - 1, 22), (told.member_epoch, 0)):
        answer = await client.commit_offsets("g", "t", {0: 7}, member_id="m", generation_id=epoch)
        assert answer == [code]
    assert await client.end() is NONE
    assert await offset_of(world, "g", "t") == 7


@scenario(in_broker_world)
async def test_tx41_others_are_answered_while_a_transaction_over_a_thousand_partitions_is_committed(
    world,
) -> None:
    topic, client = await world.topic(partitions=1_000), await started(world, 1)
    assert set(await client.add("t", *range(1_000))) == {NONE}
    ending = asyncio.ensure_future(client.end())
    answered = 0
    while not ending.done():
        answered += await described(world, "pay") in ("Ongoing", "CompleteCommit")
        await let_others_run()
    assert ending.result() is NONE
    assert answered > 5, "its partitions are opened in many turns"
    assert {world.opened(topic, index).next_offset for index in range(1_000)} == {1}
    (known,) = world.parts.transactions.look_at_all()
    assert not known.partitions, "none is kept in memory"
