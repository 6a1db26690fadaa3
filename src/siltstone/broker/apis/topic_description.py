"""A topic as Metadata describes it, with the leaders that the metadata names.

The bucket replicates the data, so every response reports a replication factor of one, whatever was requested (item
21). Clients are not authenticated, so the broker answers that every operation is allowed.
"""

from siltstone.broker.cluster_view import ClusterView, LeaderState
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import Listener
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
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


LISTENER_NOT_FOUND_VERSION = 6
"""Before this version of Metadata a leader without the client's listener is LEADER_NOT_AVAILABLE [Kafka]."""


def written_topic(
    parts: BrokerParts, topic: Topic, listener: Listener, version: int, operations: int
) -> bytes:
    """Returns the topic, encoded for a Metadata response. It is encoded again only when the topic, the nodes or one of
    its leader epochs have changed."""
    cluster, epochs = parts.cluster, parts.partitions.leader_epochs(topic)
    if operations != NOT_ASKED:
        return encode_topic(_described(cluster, topic, listener, epochs, version, operations), version)
    state = (cluster.serves, cluster.nodes_version, *epochs)
    written = topic.fragments.get((version, listener.name))
    if written is None or written[0] != state:
        fragment = encode_topic(_described(cluster, topic, listener, epochs, version, NOT_ASKED), version)
        written = topic.fragments[version, listener.name] = (state, fragment)
    return written[1]


def leader_state(
    cluster: ClusterView, topic: Topic, index: int, listener: Listener, version: int
) -> LeaderState:
    state = cluster.leader_state(topic.metadata.partitions[index], listener.name)
    if state.error is ErrorCode.LISTENER_NOT_FOUND and version < LISTENER_NOT_FOUND_VERSION:
        return LeaderState(state.leader_id, ErrorCode.LEADER_NOT_AVAILABLE, state.replica_id)
    return state


def _described(
    cluster: ClusterView, topic: Topic, listener: Listener, epochs: list[int], version: int, operations: int
) -> MetadataResponseTopic:
    states = [
        leader_state(cluster, topic, index, listener, version) for index in range(topic.partition_count)
    ]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=state.error,
                partition_index=index,
                leader_id=state.leader_id,
                leader_epoch=leader_epoch,
                replica_nodes=[state.replica_id],
                isr_nodes=[state.replica_id],
            )
            for index, (state, leader_epoch) in enumerate(zip(states, epochs, strict=True))
        ],
        topic_authorized_operations=operations,
    )
