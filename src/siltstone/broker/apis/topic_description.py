"""A topic as Metadata describes it: this broker, the only one, leads every partition.

The bucket replicates the data, so every response reports a replication factor of one, whatever was requested (item
21). Clients are not authenticated, so the broker answers that every operation is allowed.
"""

from siltstone.broker.parts import BrokerParts
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from siltstone.kafka_protocol.metadata_fragments import encode_topic

NOT_ASKED = -(2**31)
"""Kafka's value for operations that the client did not ask for; 0 would mean that nothing is allowed."""

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
"""The replication factor of every topic, as it is reported."""


def written_topic(parts: BrokerParts, topic: Topic, version: int, operations: int) -> bytes:
    """The topic, encoded for a Metadata response. It is encoded again only when the topic or one of its leader epochs
    has changed."""
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
