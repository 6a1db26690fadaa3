"""A topic as Metadata shows it: every partition led by this broker, the only one that holds it.

Replicas are the bucket's business, so there is one whatever replication factor was asked for, and everything that
reports it says one (item 21).
"""

from siltstone.broker.apis.operations import NOT_ASKED
from siltstone.broker.parts import BrokerParts
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

REPLICATION_FACTOR = 1
"""What is reported."""


def described_topic(parts: BrokerParts, topic: Topic, operations: int = NOT_ASKED) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(parts, topic, index) for index in range(topic.partition_count)],
        topic_authorized_operations=operations,
    )


def _partition(parts: BrokerParts, topic: Topic, index: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=parts.node_id,
        leader_epoch=parts.partitions.leader_epoch(topic, index),
        replica_nodes=[parts.node_id],
        isr_nodes=[parts.node_id],
    )
