"""What a broker is asked when partitions are moved, and which of its answers are refusals."""

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_client.reassignments import move_partitions, still_moving
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from siltstone.kafka_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from support.kafka.answering_cluster import AnsweringCluster

UNORDERED = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]


def cluster(whole: ErrorCode = ErrorCode.NONE, row: ErrorCode = ErrorCode.NONE) -> AnsweringCluster:
    """Answers ``whole`` for every request, and ``row`` for partition b-1; b-1 is under way."""

    def alter(_: int, __: object) -> AlterPartitionReassignmentsResponse:
        rows = [
            ReassignablePartitionResponse(partition_index=0),
            ReassignablePartitionResponse(partition_index=1, error_code=row, error_message="no such node"),
        ]
        return AlterPartitionReassignmentsResponse(
            error_code=whole, error_message="not now", responses=[ReassignableTopicResponse(name="b", partitions=rows)]
        )  # fmt: skip

    def listed(_: int, __: object) -> ListPartitionReassignmentsResponse:
        moving = [
            OngoingTopicReassignment(name="b", partitions=[OngoingPartitionReassignment(partition_index=1)])
        ]
        return ListPartitionReassignmentsResponse(error_code=whole, error_message="not now", topics=moving)

    return AnsweringCluster(
        answers={AlterPartitionReassignmentsRequest: alter, ListPartitionReassignmentsRequest: listed}
    )


def test_each_topic_is_named_once_with_the_node_as_the_only_replica() -> None:
    asked = cluster()
    move_partitions(asked, UNORDERED, 4)
    ((_, request),) = asked.asked
    assert [
        (topic.name, [(row.partition_index, row.replicas) for row in topic.partitions])
        for topic in request.topics
    ] == [("a", [(0, [4])]), ("b", [(0, [4]), (1, [4])])]
    assert request.timeout_ms > 0


def test_what_has_not_arrived_is_asked_for_by_topic() -> None:
    asked = cluster()
    assert still_moving(asked, UNORDERED) == [TopicPartition("b", 1)]
    ((_, request),) = asked.asked
    assert [(topic.name, topic.partition_indexes) for topic in request.topics] == [("a", [0]), ("b", [0, 1])]


def test_a_refusal_of_the_request_or_of_one_partition_is_raised() -> None:
    with pytest.raises(KafkaRefusal, match=r"the move.*not now"):
        move_partitions(cluster(whole=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), UNORDERED, 4)
    with pytest.raises(KafkaRefusal, match=r"b-1.*no such node"):
        move_partitions(cluster(row=ErrorCode.INVALID_REPLICA_ASSIGNMENT), UNORDERED, 4)
    with pytest.raises(KafkaRefusal, match=r"the list of moves.*not now"):
        still_moving(cluster(whole=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), UNORDERED)
