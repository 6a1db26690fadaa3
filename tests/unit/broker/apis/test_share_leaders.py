"""Share groups over several nodes: the state goes with the partition, and the coordinator asks the leaders."""

from typing import Any

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from siltstone.kafka_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from support.broker.broker_cluster import in_broker_cluster
from support.groups.share_client import ACCEPT, RELEASE, SHARES, ShareClient, begins_at, code_of, send
from support.scenarios import scenario

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def filled(cluster: Any, leader: int, records: int) -> Any:
    topic = await cluster.topic(leaders=(leader,))
    await begins_at(cluster.nodes[leader], "earliest")
    await cluster.known()
    await send(cluster.nodes[leader], topic, records)
    return topic


@scenario(in_broker_cluster)
async def test_sh17_a_moved_partition_has_the_group_with_it(cluster) -> None:
    topic = await filled(cluster, 0, 10)
    member = ShareClient(cluster.nodes[0], topic)
    await member.fetch()
    await member.fetch((0, 4, [ACCEPT]), (6, 6, [RELEASE]), max_records=1)
    await cluster.move(topic, 1)
    await member.fetch()
    assert code_of(member.told) == (NOT_LEADER, 0)
    row = member.told.topics[0].partitions[0]
    assert row.current_leader.leader_id == 1 and [each.node_id for each in member.told.node_endpoints] == [1]
    assert await member.acknowledge((7, 7, [ACCEPT])) == NOT_LEADER
    assert member.told.topics[0].partitions[0].current_leader.leader_id == 1
    there = ShareClient(cluster.nodes[1], topic)
    await there.fetch(share_session_epoch=member.epoch)
    assert there.told.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert await there.fetch() == [(5, 5, 1), (6, 6, 2), (7, 9, 1)]


@scenario(in_broker_cluster)
async def test_sh17_the_next_leader_finds_it_when_the_leader_dies(cluster) -> None:
    topic = await filled(cluster, 1, 10)
    member = ShareClient(cluster.nodes[1], topic)
    await member.fetch()
    await member.acknowledge((0, 4, [ACCEPT]), (6, 6, [RELEASE]))
    await cluster.dies(1, by=0)
    there = ShareClient(cluster.nodes[0], topic)
    assert await there.fetch() == [(5, 5, 1), (6, 6, 2), (7, 9, 1)]


@scenario(in_broker_cluster)
async def test_the_coordinator_asks_and_tells_the_leaders(cluster) -> None:
    topic = await filled(cluster, 1, 10)
    finding = FindCoordinatorRequest(coordinator_keys=[SHARES])
    (found,) = (await cluster.nodes[0].client().ask(finding, 4)).coordinators
    coordinator = cluster.nodes[found.node_id]
    leader = 1 - found.node_id
    if leader != 1:
        await cluster.move(topic, leader)

    async def ask(request: Any) -> Any:
        return await coordinator.client().ask(request)

    async def beat(epoch: int, **fields: Any) -> Any:
        return await ask(
            ShareGroupHeartbeatRequest(group_id=SHARES, member_id="m", member_epoch=epoch, **fields)
        )

    async def described() -> Any:
        group = DescribeShareGroupOffsetsRequestGroup(group_id=SHARES, topics=None)
        (told,) = (await ask(DescribeShareGroupOffsetsRequest(groups=[group]))).groups
        (row,) = told.topics[0].partitions
        return row.error_code, row.start_offset, row.lag

    assert (await beat(0, subscribed_topic_names=["t"])).error_code == 0
    await ShareClient(cluster.nodes[leader], topic).fetch()
    assert await described() == (0, 0, 10)
    await beat(-1)
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=4)
    named = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
    told = await ask(AlterShareGroupOffsetsRequest(group_id=SHARES, topics=[named]))
    assert told.responses[0].partitions[0].error_code == 0
    assert await described() == (0, 4, 6)
    named = [DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    told = await ask(DeleteShareGroupOffsetsRequest(group_id=SHARES, topics=named))
    assert told.responses[0].error_code == 0
    opened = cluster.nodes[leader].parts.partitions.opened(topic.id, 0)
    assert len(opened.shares) == 0
    await beat(0, subscribed_topic_names=["t"])
    await ShareClient(cluster.nodes[leader], topic).fetch()
    await beat(-1)
    (row,) = (await ask(DeleteGroupsRequest(groups_names=[SHARES]))).results
    assert row.error_code == 0 and len(opened.shares) == 0
