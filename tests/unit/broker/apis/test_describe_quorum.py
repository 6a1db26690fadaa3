import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_quorum import (
    AskedPartition,
    AskedTopic,
    DescribeQuorumRequest,
)
from support.broker.broker_world import NODE_ID, in_broker_world
from support.scenarios import scenario


def asking(*named: tuple[str, int]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            AskedTopic(topic_name=topic, partitions=[AskedPartition(partition_index=index)])
            for topic, index in named
        ]
    )


@pytest.mark.parametrize("version", range(3))
@scenario(in_broker_world)
async def test_this_node_leads_the_metadata_log_and_is_its_only_voter(world, version) -> None:
    await world.topic()
    answer = await world.client().ask(asking(("__cluster_metadata", 0)), version)
    assert answer.error_code == 0
    ((partition,),) = [topic.partitions for topic in answer.topics]
    at = world.parts.metadata.image.version
    assert (partition.error_code, partition.leader_id, partition.high_watermark) == (0, NODE_ID, at)
    assert partition.leader_epoch == world.parts.node_epoch
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset, partition.observers) == (NODE_ID, at, [])
    if version >= 1:
        assert voter.last_caught_up_timestamp == voter.last_fetch_timestamp == world.clock.now_ms()
    if version >= 2:
        ((node_id, (listener,)),) = [(node.node_id, node.listeners) for node in answer.nodes]
        assert (node_id, listener.host, listener.port) == (NODE_ID, "kafka.example", 9092)
        assert (answer.error_message, partition.error_message) == (None, None)


@scenario(in_broker_world)
async def test_other_partitions_have_no_quorum(world) -> None:
    await world.topic()
    answer = await world.client().ask(asking(("t", 0), ("__cluster_metadata", 1)))
    rows = [row for topic in answer.topics for row in topic.partitions]
    assert [row.error_code for row in rows] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert not any(row.current_voters or row.error_message for row in rows)
