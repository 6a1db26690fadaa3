"""Handles DescribeQuorum. The answer describes the metadata log as a quorum: the live nodes are its voters, and the one
with the lowest id is the leader.

Offsets are versions of the metadata log: the log end is the version that this node has applied. The leader epoch is the
node epoch, which rises with each start.
"""

from functools import partial

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_quorum import (
    AskedPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    QuorumPartition,
    QuorumTopic,
    ReplicaState,
)
from siltstone.runtime.turns import in_turns, let_others_run

METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = 0


async def handle_describe_quorum(
    parts: BrokerParts, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Answers for the partition of the metadata log; any other partition is unknown."""
    endpoint = context.connection.listener
    topics = []
    for topic in request.topics:
        rows = await in_turns(partial(_partition, parts, topic.topic_name), topic.partitions)
        topics.append(QuorumTopic(topic_name=topic.topic_name, partitions=rows))
        await let_others_run()
    return DescribeQuorumResponse(
        error_message=None,
        topics=topics,
        nodes=[
            Node(
                node_id=each.node_id,
                listeners=[Listener(name=endpoint.name, host=each.host, port=each.port)],
            )
            for each in parts.cluster.brokers(endpoint)
        ],
    )


def _partition(parts: BrokerParts, topic_name: str, asked: AskedPartition) -> QuorumPartition:
    """Makes the row of a partition. The row of a partition without a quorum has no text, because a request may name a
    hundred thousand."""
    index = asked.partition_index
    if (topic_name, index) != (METADATA_TOPIC, METADATA_PARTITION):
        return QuorumPartition(
            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
        )
    version, now_ms = parts.metadata.image.version, parts.clock.now_ms()
    voters = [
        ReplicaState(
            replica_id=node_id,
            log_end_offset=version,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        for node_id in sorted(parts.cluster.live_ids)
    ]
    return QuorumPartition(
        partition_index=index,
        error_message=None,
        leader_id=parts.cluster.controller_id,
        leader_epoch=parts.node_epoch,
        high_watermark=version,
        current_voters=voters,
    )
