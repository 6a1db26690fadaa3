"""A topic as Metadata describes it, with the leaders that the metadata names.

The bucket replicates the data, so every response reports a replication factor of one, whatever was requested (item
21).
"""

from collections.abc import Iterable

from siltstone.broker.cluster_view import ClusterView, LeaderState
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import Listener, RequestContext
from siltstone.broker.security.acls import required
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from siltstone.kafka_protocol.metadata_fragments import encode_topic
from siltstone.model.acls import CLUSTER_NAME, AclOperation, AclResourceType

NOT_ASKED = -(2**31)
"""Kafka's value for operations that the client did not ask for; 0 would mean that nothing is allowed."""


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(required.TOPIC_OPERATIONS)
CLUSTER_OPERATIONS = _bits(required.CLUSTER_OPERATIONS)
"""What clients may do while the store has no authorization."""


def topic_operations(context: RequestContext, name: str) -> int:
    """Returns what the client may do with the topic, a bit for each operation."""
    return context.bits(required.TOPIC_OPERATIONS, AclResourceType.TOPIC, name)


def cluster_operations(context: RequestContext) -> int:
    """Returns what the client may do with the cluster; nothing, if it may not describe the cluster."""
    if not context.may(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME, is_named=False):
        return 0
    return context.bits(required.CLUSTER_OPERATIONS, AclResourceType.CLUSTER, CLUSTER_NAME)


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
