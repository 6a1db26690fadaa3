"""Coordinators of transactions at the nodes of a cluster."""

from siltstone.broker.groups.groups import partition_of_group
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.commands import MovePartitions
from support.broker.broker_cluster import in_broker_cluster
from support.broker.transaction_clients import NONE, TransactionClient
from support.engine.engine_world import settled
from support.scenarios import scenario

STATES = "__transaction_state"


async def name_led_by(cluster, node_id):
    """A transactional id that the node coordinates."""
    await cluster.nodes[0].parts.transactions.prepare_to_find()
    await cluster.known()
    partitions = cluster.nodes[0].parts.topics.by_name(STATES).metadata.partitions
    names = (f"pay-{number}" for number in range(1_000))
    return next(name for name in names if partitions[partition_of_group(name, 8)].leader == node_id)


async def started_at(cluster, node_id, generation=2):
    client = TransactionClient(cluster.nodes[node_id], generation, await name_led_by(cluster, node_id))
    assert await client.init() is NONE
    return client


@scenario(in_broker_cluster)
async def test_the_coordinator_is_found_at_its_node_and_no_other_one_answers(cluster) -> None:
    name = await name_led_by(cluster, 1)
    assert [node.parts.transactions.coordinator_of(name) for node in cluster.nodes] == [1, 1]
    client = TransactionClient(cluster.nodes[0], name=name)
    assert await client.init() is ErrorCode.NOT_COORDINATOR
    assert await TransactionClient(cluster.nodes[1], name=name).init() is NONE


@scenario(in_broker_cluster)
async def test_a_coordinator_that_moves_is_loaded_at_its_new_node(cluster) -> None:
    topic = await cluster.topic(leaders=(1,))
    name = await name_led_by(cluster, 0)
    client = TransactionClient(cluster.nodes[0], 1, name)
    assert await client.init() is NONE
    states = cluster.nodes[0].parts.topics.by_name(STATES)
    key = (states.id, partition_of_group(name, 8))
    await cluster.nodes[0].node.metadata.execute(MovePartitions(((*key, 1),)))
    for _ in range(20):
        await cluster.known()
        cluster.clock.advance_ms(100)
        await settled()
    assert cluster.nodes[0].parts.transactions.coordinator_of(name) == 1
    assert await client.end() is ErrorCode.NOT_COORDINATOR
    moved = TransactionClient(cluster.nodes[1], 1, name)
    moved.pid, moved.epoch = client.pid, client.epoch
    await moved.send(topic)
    assert await moved.end() is NONE
    assert (await cluster.nodes[1].parts.partitions.open(topic, 0)).last_stable_offset == 2
