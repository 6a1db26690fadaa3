"""The brokers and leaders that answers to clients name."""

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_cluster import DescribeClusterRequest
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from siltstone.metadata.commands import DrainNode, FenceNode, PlacePartitions, ResumeNode
from support.broker.broker_cluster import in_broker_cluster
from support.kafka.kafka_requests import (
    batch_of,
    fetch_request,
    list_offsets_request,
    produce_request,
    row_of,
)
from support.scenarios import scenario

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def metadata_of(node, version=13):
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    return await node.client().ask(request, version)


def leaders_in(metadata):
    return [(row.error_code, row.leader_id) for row in metadata.topics[0].partitions]


@scenario(in_broker_cluster, 3)
async def test_every_node_names_all_brokers_and_leaders(cluster) -> None:
    await cluster.topic(leaders=(0, 1, 2))
    for node in cluster.nodes:
        found = await metadata_of(node)
        assert [(each.node_id, each.rack) for each in found.brokers] == [(n, f"rack-{n}") for n in range(3)]
        assert leaders_in(found) == [(0, 0), (0, 1), (0, 2)]
        assert found.controller_id == 0
        hosts = {each.node_id: each.host for each in found.brokers}
        assert hosts.pop(node.node_id) == "kafka.example", "itself: as the client's connection has it"
        assert all(host == f"node-{other}.example" for other, host in hosts.items())


@scenario(in_broker_cluster, 3)
async def test_a_fenced_leader_is_not_available_and_a_drained_one_is(cluster) -> None:
    await cluster.topic(leaders=(1, 2))
    asked = cluster.nodes[0]
    await asked.node.metadata.execute(FenceNode(1, 1))
    await asked.node.metadata.execute(DrainNode(2))
    found = await metadata_of(asked)
    assert [each.node_id for each in found.brokers] == [0, 2]
    assert leaders_in(found) == [(ErrorCode.LEADER_NOT_AVAILABLE, -1), (0, 2)]
    for fenced, ids in ((False, [0, 2]), (True, [0, 1, 2])):
        request = DescribeClusterRequest(include_fenced_brokers=fenced)
        described = (await asked.client().ask(request)).brokers
        assert [each.broker_id for each in described] == ids
        assert [each.broker_id for each in described if each.is_fenced] == ([1] if fenced else [])


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
@scenario(in_broker_cluster, listener_names={1: "INTERNAL"})
async def test_n15_a_leader_without_the_client_s_listener(cluster, version, code) -> None:
    await cluster.topic(leaders=(1,))
    found = await metadata_of(cluster.nodes[0], version)
    assert leaders_in(found) == [(code, -1)]
    assert [each.node_id for each in found.brokers] == [0]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, NOT_LEADER),
        (0, NOT_LEADER),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
@scenario(in_broker_cluster)
async def test_the_client_s_epoch_is_judged_before_the_leadership(cluster, epoch, code) -> None:
    topic = await cluster.topic(leaders=(1,))
    request = list_offsets_request(topic, -1, current_leader_epoch=epoch)
    answer = await cluster.nodes[0].client().ask(request)
    assert answer.topics[0].partitions[0].error_code == code


@scenario(in_broker_cluster)
async def test_before_it_refuses_a_node_reads_the_log_once(cluster) -> None:
    topic = await cluster.topic(leaders=(1,))
    first, second = cluster.nodes
    await first.node.metadata.execute(FenceNode(1, 1))
    await first.node.metadata.execute(PlacePartitions(0, 1, ((topic.id, 0),)))
    await first.client().ask(produce_request(topic, batch_of()))
    reads = second.log.heads
    row = row_of(await second.client().ask(produce_request(topic, batch_of())))
    assert (row.error_code, row.current_leader.leader_id) == (NOT_LEADER, 0)
    assert second.node.metadata.image.topics[topic.id].partitions[0].leader == 0
    assert second.log.heads >= reads


@scenario(in_broker_cluster)
async def test_n22_without_its_lease_a_node_answers_nothing_old(cluster) -> None:
    topic = await cluster.topic(leaders=(0,))
    node = cluster.nodes[0]
    await node.client().ask(produce_request(topic, batch_of(3)))
    waiting = node.client().send(fetch_request(topic, {0: 3}, wait_ms=20_000))
    node.holds_lease = False
    cluster.clock.advance_ms(20_000)
    assert row_of(await waiting).error_code == NOT_LEADER
    assert row_of(await node.client().ask(fetch_request(topic, {0: 0}))).error_code == NOT_LEADER
    listed = await node.client().ask(list_offsets_request(topic, -1))
    assert (listed.topics[0].partitions[0].error_code, listed.topics[0].partitions[0].offset) == (
        NOT_LEADER, -1,
    )  # fmt: skip
    produced = row_of(await node.client().ask(produce_request(topic, batch_of())))
    assert produced.error_code == NOT_LEADER
    assert leaders_in(await metadata_of(node)) == [(ErrorCode.LEADER_NOT_AVAILABLE, -1)]
    node.holds_lease = True
    assert leaders_in(await metadata_of(node)) == [(0, 0)]
    again = row_of(await node.client().ask(produce_request(topic, batch_of())))
    assert (again.error_code, again.base_offset) == (0, 3)


@scenario(in_broker_cluster, 1)
async def test_a_node_that_knows_of_no_other_one_needs_no_lease(cluster) -> None:
    topic = await cluster.topic()
    cluster.nodes[0].holds_lease = False
    assert row_of(await cluster.nodes[0].client().ask(produce_request(topic, batch_of()))).error_code == 0


@scenario(in_broker_cluster)
async def test_a_node_that_is_fenced_does_not_serve_until_it_has_resumed(cluster) -> None:
    await cluster.topic()
    first, second = cluster.nodes
    life = first.node.metadata.image.nodes[0]
    await second.node.metadata.execute(FenceNode(0, 1))
    await cluster.known()
    assert not first.parts.cluster.serves
    await second.node.metadata.execute(ResumeNode(0, 1, life.incarnation))
    await cluster.known()
    assert first.parts.cluster.serves


@scenario(in_broker_cluster)
async def test_groups_are_found_and_answered_at_the_leader_of_their_partition(cluster) -> None:
    ask = [node.client().ask for node in cluster.nodes]
    found = [
        (await one(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))).coordinators[0].node_id
        for one in ask
    ]
    assert found[0] == found[1]
    there, elsewhere = found[0], 1 - found[0]
    await cluster.known()
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert (await ask[elsewhere](beat)).error_code == ErrorCode.NOT_COORDINATOR
    task = cluster.nodes[there].client().send(beat)
    await cluster.until(task.done)
    assert task.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    cluster.nodes[there].holds_lease = False
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    answer = await ask[there](request)
    assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR
