"""AlterPartitionReassignments: gives partitions a target, or takes it away again. The answer says that the wish is
recorded; the leader then hands the partition over by itself (``partitions.handing_over``).

A partition has one replica here, since the bucket keeps the copies, so a reassignment names exactly one broker.
"""

from functools import partial

from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.names import InvalidReplicaAssignment, NoReassignment, UnknownTopic
from siltstone.kafka_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from siltstone.metadata.commands import MovePartitions
from siltstone.metadata.entities import NO_NODE
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.turns import side_by_side


async def handle_alter_partition_reassignments(
    parts: BrokerParts, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """The moves of one request share an append of the metadata log."""
    await parts.cluster.refreshed()
    responses = []
    for topic in request.topics:
        rows = await side_by_side(partial(_result, parts, topic.name), topic.partitions)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=rows))
    return AlterPartitionReassignmentsResponse(error_message=None, responses=responses)


async def _result(
    parts: BrokerParts, topic_name: str, asked: ReassignablePartition
) -> ReassignablePartitionResponse:
    try:
        await parts.metadata.execute(_command(parts, topic_name, asked))
    except SiltstoneError as failure:
        return ReassignablePartitionResponse(
            partition_index=asked.partition_index,
            error_code=error_code(failure),
            error_message=error_message(failure),
        )
    return ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)


def _command(parts: BrokerParts, topic_name: str, asked: ReassignablePartition) -> MovePartitions:
    """Raises UnknownTopic, NoReassignment, InvalidReplicaAssignment."""
    topic = parts.topics.by_name(topic_name)
    if topic is None or not 0 <= asked.partition_index < topic.partition_count:
        raise UnknownTopic(f"{topic_name}-{asked.partition_index}")
    if asked.replicas is None:
        if topic.metadata.partitions[asked.partition_index].target == NO_NODE:
            raise NoReassignment(
                f"{topic_name}-{asked.partition_index} is not being moved: nothing to cancel"
            )
        return MovePartitions(((topic.id, asked.partition_index, NO_NODE),))
    if len(asked.replicas) != 1:
        raise InvalidReplicaAssignment(
            "a partition has one replica, because the bucket keeps the copies: name exactly one broker"
        )
    return MovePartitions(((topic.id, asked.partition_index, asked.replicas[0]),))
