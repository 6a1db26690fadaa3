"""Reassignments: moves partitions to another broker, and tells which moves have not ended."""

from collections.abc import Sequence
from itertools import groupby

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import refuse_error
from siltstone.kafka_client.topics import CHANGE_TIME_LIMIT_MS
from siltstone.kafka_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from siltstone.kafka_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


def move_partitions(cluster: Cluster, partitions: Sequence[TopicPartition], node_id: int) -> None:
    """Has the partitions moved to the broker; returns when that is recorded. Raises KafkaRefusal for the first one that
    is refused; others may be on their way then."""
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=each.partition, replicas=[node_id]) for each in theirs
            ],
        )
        for name, theirs in groupby(sorted(partitions), key=lambda each: each.topic)
    ]
    request = AlterPartitionReassignmentsRequest(timeout_ms=CHANGE_TIME_LIMIT_MS, topics=topics)
    answer = cluster.ask(request, AlterPartitionReassignmentsResponse)
    refuse_error(answer.error_code, "the move", answer.error_message)
    for topic in answer.responses:
        for row in topic.partitions:
            refuse_error(row.error_code, f"{topic.name}-{row.partition_index}", row.error_message)


def still_moving(cluster: Cluster, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Returns those of the partitions that have not arrived yet. Raises KafkaRefusal."""
    topics = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=[each.partition for each in theirs])
        for name, theirs in groupby(sorted(partitions), key=lambda each: each.topic)
    ]
    request = ListPartitionReassignmentsRequest(timeout_ms=CHANGE_TIME_LIMIT_MS, topics=topics)
    answer = cluster.ask(request, ListPartitionReassignmentsResponse)
    refuse_error(answer.error_code, "the list of moves", answer.error_message)
    return [
        TopicPartition(topic.name, row.partition_index) for topic in answer.topics for row in topic.partitions
    ]
