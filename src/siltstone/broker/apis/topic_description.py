"""A topic as Metadata shows it: every partition led by this broker, the only one that holds it.

Replicas are the bucket's business, so there is one whatever replication factor was asked for, and everything that
reports it says one (item 21).

What a client is told it may do. Nobody is asked who he is yet, so everybody may do everything.
"""

from siltstone.broker.parts import BrokerParts
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from siltstone.kafka_protocol.metadata_fragments import encode_topic

NOT_ASKED = -(2**31)
"""Kafka's value for operations that were not asked for: 0 would say that nothing is allowed."""

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = range(3, 9)
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(9, 13)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
CLUSTER_OPERATIONS = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE
)


REPLICATION_FACTOR = 1
"""What is reported."""


def written_topic(parts: BrokerParts, topic: Topic, version: int, operations: int) -> bytes:
    """As it stands in a Metadata response. Written anew only when it changed, or who leads it, or under which epoch."""
    leader_epoch = parts.partitions.leader_epoch
    epochs = tuple([leader_epoch(topic, index) for index in range(topic.partition_count)])
    if operations != NOT_ASKED:
        return encode_topic(_described(parts.node_id, topic, epochs, operations), version)
    written = topic.fragments.get(version)
    if written is None or written[0] != epochs:
        fragment = encode_topic(_described(parts.node_id, topic, epochs, NOT_ASKED), version)
        written = topic.fragments[version] = (epochs, fragment)
    return written[1]


def _described(node_id: int, topic: Topic, epochs: tuple[int, ...], operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=node_id,
                leader_epoch=leader_epoch,
                replica_nodes=[node_id],
                isr_nodes=[node_id],
            )
            for index, leader_epoch in enumerate(epochs)
        ],
        topic_authorized_operations=operations,
    )
