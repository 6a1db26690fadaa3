"""The bytes of partitions, as the brokers that lead them report them (DescribeLogDirs)."""

from collections.abc import Iterable, Sequence

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal, RequestNotSpoken, refuse_error
from siltstone.kafka_client.offsets import by_topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

_NOT_ALLOWED = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


def partition_sizes(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Returns the bytes of each partition, as stored. A partition is left out if its broker does not say: it does not
    know the request, or this client may not describe the cluster. Raises KafkaNotReady, KafkaRefusal."""
    asked = sorted(partitions)
    return cluster.patiently(lambda: _sizes(cluster, asked)) if asked else {}


def _sizes(cluster: Cluster, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for leader, theirs in cluster.by_leader(partitions).items():
        topics = [
            DescribableLogDirTopic(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(theirs).items()
        ]
        try:
            found |= _of_broker(cluster, leader, DescribeLogDirsRequest(topics=topics))
        except RequestNotSpoken:
            continue
        except KafkaRefusal as refused:
            if refused.code not in _NOT_ALLOWED:
                raise
    return found


def _of_broker(cluster: Cluster, leader: int, request: DescribeLogDirsRequest) -> dict[TopicPartition, int]:
    """A broker with a failed disk answers with an error for that directory, and with the partitions of the others."""
    answer = cluster.broker(leader).call(request, DescribeLogDirsResponse)
    refuse_error(answer.error_code, f"the log directories of broker {leader}")
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for folder in answer.results
        if not folder.error_code
        for topic in folder.topics
        for each in topic.partitions
        if not each.is_future_key
    }
