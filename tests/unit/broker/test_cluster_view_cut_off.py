"""A node that is cut off from lease board and metadata, while two others are not. See rows ND of docs/scenarios.md."""

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.metadata.commands import FenceNode
from support.broker.broker_cluster import BrokerCluster, in_broker_cluster
from support.scenarios import scenario


def one_record() -> ProduceRequest:
    batch = bytes(build_batch([Record(timestamp_ms=1, value=b"x")]))
    topic = ProduceTopic(name="t", partitions=[ProducePartition(index=0, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=1_000, topics=[topic])


async def code_of(cluster: BrokerCluster, node: int) -> int:
    answer = await cluster.nodes[node].client().ask(one_record(), 11)
    code: int = answer.topics[0].partitions[0].error_code
    return code


@scenario(in_broker_cluster, 3)
async def test_nd07_clients_of_a_node_that_is_cut_off_are_sent_elsewhere_and_served_there(
    cluster: BrokerCluster,
) -> None:
    await cluster.topic("t", leaders=(0,))
    cut_off = cluster.nodes[0]
    assert await code_of(cluster, 0) == ErrorCode.NONE
    asked = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    await cut_off.client().ask(asked)
    await cluster.known()
    cut_off.log.is_unreadable = cut_off.log.is_holding = True
    cut_off.holds_lease = False  # it was over five seconds after the last beat
    assert await code_of(cluster, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert (await cut_off.client().ask(beat)).error_code == ErrorCode.NOT_COORDINATOR
    living = cluster.nodes[1]
    await living.node.metadata.execute(FenceNode(0, living.node.metadata.image.nodes[0].node_epoch))
    cut_off.die()
    await living.fail_over(0)
    await cluster.passes(2_000)
    image = living.node.metadata.image
    leader = image.topics[image.topic_ids["t"]].partitions[0].leader
    assert leader in (1, 2) and await code_of(cluster, leader) == ErrorCode.NONE
