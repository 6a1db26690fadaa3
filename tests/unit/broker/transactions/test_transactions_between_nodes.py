"""Transactions over several nodes: coordinator, partitions and groups at different ones. Rows TX, TP and TG of
docs/scenarios.md that need two nodes."""

import asyncio

import pytest

from siltstone.broker.topics.creating import NewTopic
from siltstone.broker.topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from support.broker.broker_cluster import Fate, in_broker_cluster
from support.broker.broker_world import WRITE
from support.broker.cluster_transactions import routed
from support.broker.transaction_clients import (
    NONE,
    TIMEOUT_MS,
    TransactionClient,
    committed_batches,
    ends,
    offset_of,
)
from support.engine.engine_world import settled
from support.kafka.kafka_requests import fetch_request, row_of
from support.scenarios import scenario

MARKERS = ApiKey.WRITE_TXN_MARKERS


async def begun(cluster, generation=2, coordinator=0, leaders=(0, 1)):
    """A topic, and a producer with an epoch."""
    world = await routed(cluster)
    topic = await cluster.topic(leaders=leaders)
    client = TransactionClient(world, generation, world.name_led_by(TRANSACTIONS_TOPIC, coordinator))
    assert await client.init() is NONE
    return world, topic, client


def lose(cluster, api_key, fate=Fate.LOST):
    cluster.between_nodes = lambda question: fate if question.request.api_key == api_key else None


def works(cluster):
    cluster.between_nodes = lambda _: None


async def outcome(world, topic):
    """For each partition: first offsets of the batches that readers of committed records see, markers included, and
    whether all is decided."""
    found = []
    for index in range(topic.partition_count):
        stable, end = await ends(world, topic, index)
        found.append((len(await committed_batches(world, topic, index)), stable == end))
    return found


async def send(client, topic, *indexes):
    for index in indexes:
        await client.send(topic, index)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("coordinator", [0, 1])
@scenario(in_broker_cluster)
async def test_tg21_data_coordinator_and_group_at_several_nodes(cluster, coordinator, generation, commits):
    world, topic, client = await begun(cluster, generation, coordinator)
    groups = [world.name_led_by(OFFSETS_TOPIC, node_id) for node_id in (0, 1)]
    for number in range(3):
        await send(client, topic, 0, 1)
        for group in groups:
            await client.send_offsets(group, "t", p0=number + 1)
            assert await offset_of(world, group, "t") is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert await client.end(commits) is NONE
        await settled()
        for group in groups:
            assert await offset_of(world, group, "t") == (number + 1 if commits else -1)
    for index in range(2):
        assert await ends(world, topic, index) == (6, 6)


@scenario(in_broker_cluster)
async def test_tp9_a_batch_that_was_not_added_is_refused_by_a_coordinator_elsewhere(cluster) -> None:
    _world, topic, client = await begun(cluster, 1)
    await send(client, topic, 0)
    assert await client.produce(topic, 1) == [ErrorCode.INVALID_TXN_STATE]
    client.versions["produce"] = 11
    assert await client.produce(topic, 1) == [ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize("generation", [1, 2])
@scenario(in_broker_cluster)
async def test_tx45_the_coordinator_dies_between_prepared_and_a_marker(cluster, generation) -> None:
    world, topic, client = await begun(cluster, generation)
    await send(client, topic, 0, 1)
    lose(cluster, MARKERS)
    assert await client.end() is NONE
    await cluster.passes(1_000)
    assert await ends(world, topic, 1) == (0, 1), "it is decided, and the other node does not know it"
    works(cluster)
    await cluster.dies(0, by=1)
    await cluster.until(lambda: world.leader(TRANSACTIONS_TOPIC, client.name) == 1)
    await cluster.passes(2_000)
    (markers_at_dead, all_decided), other = await outcome(world, topic)
    assert other == (2, True)
    assert all_decided
    assert markers_at_dead <= 2 + (generation == 1), (
        "the log does not say which transaction a marker has ended"
    )


@scenario(in_broker_cluster)
async def test_tx46_nothing_is_sent_before_prepared_is_durable(cluster) -> None:
    world, topic, client = await begun(cluster)
    await send(client, topic, 0, 1)
    cluster.nodes[0].calls.hold(WRITE)
    ending = asyncio.ensure_future(client.end())
    await cluster.passes(1_000)
    assert not [each for each in cluster.questions if each.request.api_key == MARKERS]
    await cluster.dies(0, by=1)
    ending.cancel()
    await cluster.passes(TIMEOUT_MS + 5_000, 1_000)
    assert await outcome(world, topic) == [(2, True), (2, True)]
    for index in range(2):
        aborted = await aborted_in(world, topic, index)
        assert len(aborted) == 1


async def aborted_in(world, topic, index):
    row = row_of(await world.client().ask(fetch_request(topic, {index: 0}, isolation_level=1, wait_ms=0)))
    return row.aborted_transactions


@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("fate", Fate)
@scenario(in_broker_cluster)
async def test_tx48_a_marker_is_sent_again_until_it_is_answered_and_is_once_in_the_log(
    cluster, fate, generation
) -> None:
    world, topic, client = await begun(cluster, generation)
    await send(client, topic, 0, 1)
    lose(cluster, MARKERS, fate)
    assert await client.end() is NONE
    await cluster.passes(3_000)
    sent = [each for each in cluster.questions if each.request.api_key == MARKERS]
    assert len(sent) > 2
    works(cluster)
    await cluster.passes(6_000)
    assert await ends(world, topic, 1) == (2, 2)
    await send(client, topic, 0, 1)
    assert await client.end() is NONE
    await settled()
    assert await ends(world, topic, 1) == (4, 4)


@scenario(in_broker_cluster)
async def test_tx50_a_request_waits_for_a_marker_that_is_slow(cluster) -> None:
    _world, topic, client = await begun(cluster, 1)
    await send(client, topic, 0, 1)
    waits = asyncio.get_running_loop().create_future()
    cluster.between_nodes = lambda question: waits if question.request.api_key == MARKERS else None
    assert await client.end() is NONE
    adding = asyncio.ensure_future(client.add("t", 0, 1))
    await cluster.passes(500)
    assert not adding.done()
    waits.set_result(None)
    await cluster.passes(200)
    assert adding.result() == [NONE, NONE]


@scenario(in_broker_cluster)
async def test_tx51_a_transaction_waits_for_a_node_that_is_down(cluster) -> None:
    world, topic, client = await begun(cluster)
    await send(client, topic, 0, 1)
    lose(cluster, MARKERS)
    assert await client.end() is NONE
    another = TransactionClient(world, 2, client.name)
    starting = asyncio.ensure_future(another.init())
    await cluster.passes(1_100)
    assert starting.result() is ErrorCode.CONCURRENT_TRANSACTIONS
    works(cluster)
    await cluster.dies(1, by=0)
    await cluster.passes(6_000)
    assert await another.init() is NONE
    assert another.epoch > client.epoch
    assert await outcome(world, topic) == [(2, True), (2, True)]


@scenario(in_broker_cluster)
async def test_tx28_a_partition_that_is_deleted_meanwhile_holds_nothing_up(cluster) -> None:
    world, topic, client = await begun(cluster)
    other = await cluster.topic("u", leaders=(1,))
    await send(client, topic, 0, 1)
    await send(client, other, 0)
    lose(cluster, MARKERS)
    assert await client.end() is NONE
    await cluster.nodes[1].parts.partitions.delete_topic(other)
    await cluster.known()
    works(cluster)
    await cluster.passes(6_000)
    assert await outcome(world, topic) == [(2, True), (2, True)]
    await send(client, topic, 1)
    assert await client.end() is NONE


@scenario(in_broker_cluster)
async def test_tx55_a_stranger_asks_like_a_node(cluster) -> None:
    _world, _topic, client = await begun(cluster)
    asked = AddPartitionsToTxnTransaction(
        transactional_id=client.name,
        producer_id=client.pid,
        producer_epoch=client.epoch,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=[1])],
    )
    request = AddPartitionsToTxnRequest(transactions=[asked])
    answer = await cluster.nodes[0].client().ask(request, 5)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not answer.results_by_transaction
    (known,) = cluster.nodes[0].parts.transactions.look_at_all()
    assert not known.partitions


@scenario(in_broker_cluster)
async def test_tx58_producer_ids_name_the_partition_of_their_coordinator(cluster) -> None:
    world = await routed(cluster)
    found = {}
    for number in range(20):
        client = TransactionClient(world, 2, f"many-{number}")
        assert await client.init() is NONE
        assert client.pid % 8 == world.partition(TRANSACTIONS_TOPIC, client.name)
        found[client.pid] = client.name
    assert len(found) == 20


@pytest.mark.parametrize("generation", [1, 2])
@scenario(in_broker_cluster)
async def test_tp37_a_permission_is_void_when_a_marker_comes_before_the_answer(cluster, generation) -> None:
    """The time-out passes the answer on its way."""
    world, topic, client = await begun(cluster, generation)
    await send(client, topic, 0)
    if generation == 1:
        assert await client.add("t", 1) == [NONE]
    waits = asyncio.get_running_loop().create_future()
    node = cluster.nodes[1]
    ask = node.parts.peers.ask

    async def late(*asked, **fields):
        answer = await ask(*asked, **fields)
        await waits
        return answer

    node.parts.peers.ask = late
    producing = asyncio.ensure_future(client.produce(topic, 1))
    await settled()
    await cluster.passes(TIMEOUT_MS + 2_000, 1_000)
    node.parts.peers.ask = ask
    waits.set_result(None)
    assert await producing == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await ends(world, topic, 1) == (1, 1), "the marker alone"


@scenario(in_broker_cluster)
async def test_tp38_a_batch_whose_transaction_was_aborted_in_haste_is_not_stored(cluster) -> None:
    world, topic, client = await begun(cluster, 1)
    await send(client, topic, 0)
    assert await client.add("t", 1) == [NONE]
    waits = asyncio.get_running_loop().create_future()
    ask = cluster.nodes[1].parts.peers.ask

    async def late(*asked, **fields):
        answer = await ask(*asked, **fields)
        await waits
        return answer

    cluster.nodes[1].parts.peers.ask = late
    producing = asyncio.ensure_future(client.produce(topic, 1))
    await settled()
    assert await client.end(commits=False) is NONE
    await settled()
    cluster.nodes[1].parts.peers.ask = ask
    waits.set_result(None)
    assert await producing == [ErrorCode.INVALID_TXN_STATE]
    assert await ends(world, topic, 1) == (1, 1)


@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("is_opened_again", [False, True])
@scenario(in_broker_cluster)
async def test_tp39_tp40_a_late_marker_does_not_end_the_next_transaction(
    cluster, is_opened_again, generation
) -> None:
    """After another opening the leader does not know the number of what is open, and asks for it."""
    world, topic, client = await begun(cluster, generation)
    await send(client, topic, 1)
    assert await client.end() is NONE
    await settled()
    late = next(each for each in cluster.questions if each.request.api_key == MARKERS)
    await send(client, topic, 1)
    if is_opened_again:
        await cluster.passes(100)
        partition = await cluster.nodes[1].parts.partitions.open(topic, 1)
        partition.transactions.number_is(client.pid, -1, -1)
    answer = await cluster.nodes[1].client().ask(late.request, 2)
    assert row_of_markers(answer).error_code != NONE
    assert (await ends(world, topic, 1))[0] == 2
    assert await client.end() is NONE
    await settled()
    assert await ends(world, topic, 1) == (4, 4)


def row_of_markers(answer):
    ((topic,),) = [each.topics for each in answer.markers]
    return topic.partitions[0]


@scenario(in_broker_cluster)
async def test_tp45_a_marker_whose_answer_was_lost_with_its_leader_is_once_in_the_log(cluster) -> None:
    world, topic, client = await begun(cluster)
    await send(client, topic, 0, 1)
    lose(cluster, MARKERS, Fate.ANSWER_LOST)
    assert await client.end() is NONE
    works(cluster)
    await cluster.dies(1, by=0)
    await cluster.passes(6_000)
    assert await outcome(world, topic) == [(2, True), (2, True)]
    assert await ends(world, topic, 1) == (2, 2)


@pytest.mark.parametrize("generation", [1, 2])
@scenario(in_broker_cluster)
async def test_tp44_a_partition_moves_there_and_back_in_a_transaction(cluster, generation) -> None:
    world, topic, client = await begun(cluster, generation)
    await send(client, topic, 1)
    assert await client.end(commits=False) is NONE
    await settled()
    await send(client, topic, 0, 1)
    told = [(await ends(world, topic, 1))[0]]
    for target in (0, 1, 0):
        await cluster.move(topic, target, 1)
        await cluster.until(lambda target=target: cluster.partition(topic, 1).leader == target)
        told.append((await ends(world, topic, 1))[0])
        assert len(await aborted_in(world, topic, 1)) == 1
    assert told == [2] * 4
    assert await client.end() is NONE
    await settled()
    assert await ends(world, topic, 1) == (4, 4)


@pytest.mark.parametrize("generation", [1, 2])
@scenario(in_broker_cluster)
async def test_a_coordinator_that_moves_in_a_transaction_ends_it(cluster, generation) -> None:
    world, topic, client = await begun(cluster, generation)
    await send(client, topic, 0, 1)
    await world.move(TRANSACTIONS_TOPIC, client.name, 1)
    await cluster.passes(1_000)
    await send(client, topic, 0, 1)
    assert await client.end() is NONE
    await settled()
    assert await outcome(world, topic) == [(3, True), (3, True)]


@scenario(in_broker_cluster)
async def test_tx47_a_coordinator_that_was_paused_decides_nothing(cluster) -> None:
    world, topic, client = await begun(cluster)
    await send(client, topic, 0, 1)
    await cluster.dies(0, by=1)
    await cluster.passes(TIMEOUT_MS + 5_000, 1_000)
    assert await outcome(world, topic) == [(2, True), (2, True)]
    cluster.nodes[0].calls.is_frozen = False
    old = TransactionClient(cluster.nodes[0], 2, client.name)
    old.pid, old.epoch = client.pid, client.epoch
    cluster.nodes[0].holds_lease = False
    ending = asyncio.ensure_future(old.end())
    await cluster.passes(5_000, 1_000)
    assert ending.done()
    assert ending.result() in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.nodes[0].calls.is_frozen = True
    assert await client.end() is ErrorCode.INVALID_TXN_STATE, "it was aborted; the epoch is the one before"
    assert await outcome(world, topic) == [(2, True), (2, True)]


@scenario(in_broker_cluster)
async def test_tg22_the_group_moves_with_an_offset_in_a_transaction(cluster) -> None:
    world, _topic, client = await begun(cluster)
    group = world.name_led_by(OFFSETS_TOPIC, 0)
    await client.send_offsets(group, "t", p0=7)
    await world.move(OFFSETS_TOPIC, group, 1)
    await cluster.passes(1_000)
    assert await offset_of(world, group, "t") is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await client.end() is NONE
    await settled()
    assert await offset_of(world, group, "t") == 7


@scenario(in_broker_cluster)
async def test_tg23_the_offset_is_there_when_its_marker_is_answered(cluster) -> None:
    world, _topic, client = await begun(cluster)
    group = world.name_led_by(OFFSETS_TOPIC, 1)
    for number in range(5):
        await client.send_offsets(group, "t", p0=number)
        assert await client.end() is NONE
        await settled()
        assert await offset_of(world, group, "t") == number


@scenario(in_broker_cluster)
async def test_a_coordinator_that_cannot_be_reached_is_asked_again_by_the_client(cluster) -> None:
    _world, topic, client = await begun(cluster)
    lose(cluster, ApiKey.ADD_PARTITIONS_TO_TXN)
    assert await client.produce(topic, 1) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    works(cluster)
    client.sequences.clear()
    await send(client, topic, 1)
    assert await client.end() is NONE


@scenario(in_broker_cluster)
async def test_tp38_offsets_whose_transaction_was_aborted_in_haste_are_not_stored(cluster) -> None:
    world, _, client = await begun(cluster, 1)
    group = world.name_led_by(OFFSETS_TOPIC, 1)
    assert await client.add_offsets(group) is NONE
    waits = asyncio.get_running_loop().create_future()
    ask = cluster.nodes[1].parts.transactions._peers.ask

    async def late(*asked, **fields):
        answer = await ask(*asked, **fields)
        await waits
        return answer

    cluster.nodes[1].parts.transactions._peers.ask = late
    committing = asyncio.ensure_future(client.commit_offsets(group, "t", {0: 7}))
    await settled()
    assert await client.end(commits=False) is NONE
    await settled()
    cluster.nodes[1].parts.transactions._peers.ask = ask
    waits.set_result(None)
    assert await committing == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS], "ask again"
    assert await offset_of(world, group, "t") == -1


@scenario(in_broker_cluster)
async def test_tx28_a_topic_that_the_coordinator_has_not_heard_of_yet_is_not_taken_for_deleted(
    cluster,
) -> None:
    world, _, client = await begun(cluster)
    node = cluster.nodes[1]
    topic = await node.parts.creation.create(NewTopic(name="new", partition_count=1, leaders=(1,)))
    assert cluster.nodes[0].parts.topics.by_name("new") is None
    await send(client, topic, 0)
    assert await client.end() is NONE
    await settled()
    assert await ends(world, topic) == (2, 2)
