"""Topics: finds, creates and deletes them, and adds partitions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import (
    KafkaNotReady,
    KafkaRefusal,
    PartitionUnknown,
    RequestNotSpoken,
    TopicUnknown,
    refusal,
    refuse_error,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from siltstone.kafka_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from siltstone.kafka_protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from siltstone.kafka_protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from siltstone.kafka_protocol.messages.metadata import MetadataResponseTopic
from siltstone.model.errors import did_you_mean

AS_THE_BROKER_LIKES = -1
CHANGE_TIME_LIMIT_MS = 30_000
NAME_RULE = "a topic's name has 1 to 249 letters, digits, dots, dashes and underscores"
"""[Kafka: Topic.validate]"""


def all_topics(cluster: Cluster) -> list[MetadataResponseTopic]:
    """Returns all topics, sorted by name, including topics whose partitions have no leader."""
    return sorted(cluster.learn(None), key=lambda topic: topic.name or "")


def find_topics(cluster: Cluster, names: Sequence[str]) -> list[MetadataResponseTopic]:
    """Returns the topics in the order of ``names``. Raises TopicUnknown for the first one that does not exist,
    KafkaRefusal."""
    return cluster.patiently(lambda: _find_topics(cluster, names))


def find_topic(cluster: Cluster, name: str) -> MetadataResponseTopic:
    return find_topics(cluster, [name])[0]


def _find_topics(cluster: Cluster, names: Sequence[str]) -> list[MetadataResponseTopic]:
    found = {topic.name: topic for topic in cluster.learn(names)}
    for name in names:
        topic = found.get(name)
        if topic is None or topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise _unknown(cluster, name)
        has_bad_name = topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        refuse_error(topic.error_code, f"topic {name}", NAME_RULE if has_bad_name else None)
    return [found[name] for name in names]


def _unknown(cluster: Cluster, name: str) -> TopicUnknown:
    known = [topic.name or "" for topic in cluster.learn(None)]
    hint = did_you_mean(name, known, "siltstone topics lists them")
    return TopicUnknown(f"there is no topic {name}: {hint}")


def partitions_of(topic: MetadataResponseTopic, numbers: Iterable[int] = ()) -> list[TopicPartition]:
    """Returns all partitions of the topic, or those with the given numbers. Raises PartitionUnknown."""
    name = topic.name or ""
    known = sorted(partition.partition_index for partition in topic.partitions)
    wanted = sorted(set(numbers)) or known
    for number in wanted:
        if number not in known:
            raise PartitionUnknown(
                f"topic {name} has no partition {number}: it has "
                + (f"partitions 0 to {known[-1]}" if len(known) > 1 else "partition 0 alone")
            )
    return [TopicPartition(name, number) for number in wanted]


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    configs: Mapping[str, str],
    *,
    replicas: int | None = None,
) -> CreatableTopicResult:
    """Creates a topic; ``partitions`` and ``replicas`` None: the broker's default number. Raises KafkaRefusal,
    KafkaNotReady."""
    topic = CreatableTopic(
        name=name,
        num_partitions=AS_THE_BROKER_LIKES if partitions is None else partitions,
        replication_factor=AS_THE_BROKER_LIKES if replicas is None else replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=CHANGE_TIME_LIMIT_MS)
    made = cluster.ask(request, CreateTopicsResponse).topics[0]
    refuse_error(made.error_code, f"topic {name}", made.error_message)
    return made


def add_partitions(cluster: Cluster, name: str, count: int, *, validate_only: bool = False) -> None:
    """Increases the number of partitions to ``count``. Raises KafkaRefusal, KafkaNotReady."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(
        topics=[topic], timeout_ms=CHANGE_TIME_LIMIT_MS, validate_only=validate_only
    )
    result = cluster.ask(request, CreatePartitionsResponse).results[0]
    refuse_error(result.error_code, f"topic {name}", result.error_message)


def delete_topics(cluster: Cluster, names: Sequence[str]) -> dict[str, str]:
    """Deletes each topic independently. Returns topic → reason for each topic that was not deleted."""
    topics = [DeleteTopicState(name=name) for name in names]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=CHANGE_TIME_LIMIT_MS)
    results = cluster.ask(request, DeleteTopicsResponse).responses
    return {
        result.name or "": str(refusal(result.error_code, f"topic {result.name}", result.error_message))
        for result in results
        if result.error_code
    }


def topic_bytes(cluster: Cluster) -> dict[str, int] | None:
    """Returns the bytes of each topic, of one replica of each partition. None if a broker does not report them, because
    it does not know the request or this client may not make it. Raises Unavailable if a broker does not answer."""
    sizes: Counter[TopicPartition] = Counter()
    with suppress(RequestNotSpoken, KafkaRefusal, KafkaNotReady):
        for node_id in cluster.broker_ids:
            answer = cluster.broker(node_id).call(
                DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
            )
            if answer.error_code or any(each.error_code for each in answer.results):
                return None
            for topic in (topic for each in answer.results for topic in each.topics):
                for row in topic.partitions:
                    key = TopicPartition(topic.name, row.partition_index)
                    sizes[key] = max(sizes[key], row.partition_size)
        found: Counter[str] = Counter()
        for key, size_bytes in sizes.items():
            found[key.topic] += size_bytes
        return dict(found)
    return None
