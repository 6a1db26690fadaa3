"""The rule that only its leader may open a partition. ``check_leader`` is the rule; OpenPartition opens both streams by
it.

A partition has no leader if it was created before partitions had leaders. It is taken by the node that opens it first,
in the append that opens it. So is a partition whose leader was registered without listeners: no client finds that node
through the metadata, and it may be the same server under an earlier id. Next: ``placement``, ``moves``.
"""

from siltstone.metadata import streams as stream_steps
from siltstone.metadata.commands import OpenPartition
from siltstone.metadata.decisions.fences import (
    Decision,
    check_node,
    existing_stream,
    existing_topic,
    partition_of,
)
from siltstone.metadata.entities import (
    NodeMetadata,
    OpenedPartition,
    PartitionMetadata,
    StreamMetadata,
    StreamState,
    TopicMetadata,
)
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import PartitionsPlaced, Record, StreamOpened
from siltstone.metadata.refusals import NotLeader, PartitionNotExist, StreamNotClosed


def existing_partition(view: ImageView, topic_id: str, index: int) -> tuple[TopicMetadata, PartitionMetadata]:
    """Raises TopicNotExist, PartitionNotExist."""
    topic = existing_topic(view, topic_id)
    if not 0 <= index < len(topic.partitions):
        raise PartitionNotExist(f"topic {topic.name} has no partition {index}; look up its partitions again")
    return topic, topic.partitions[index]


def check_leader(
    view: ImageView, node: NodeMetadata, topic: TopicMetadata, index: int
) -> tuple[PartitionsPlaced, ...]:
    """Returns nothing if the node leads the partition, and the record that makes it the leader if no reachable node
    does. Raises NotLeader, also for the process that replays a dead node's log: it closes streams and opens none."""
    leader = view.nodes.get(topic.partitions[index].leader)
    if node.failover:
        raise NotLeader(
            f"node {node.node_id} is being failed over, and {topic.name}-{index} is opened by its next leader"
        )
    if leader is not None and leader.node_id == node.node_id:
        return ()
    if leader is not None and leader.listeners:
        raise NotLeader(
            f"node {leader.node_id} leads {topic.name}-{index}, so node {node.node_id} may not open it; send requests "
            "to the leader"
        )
    return (PartitionsPlaced(topic.topic_id, ((index, node.node_id),)),)


def check_leader_of_stream(
    view: ImageView, node: NodeMetadata, stream: StreamMetadata
) -> tuple[PartitionsPlaced, ...]:
    """Does the same as ``check_leader`` for a stream, which may belong to no partition."""
    partition = partition_of(view, stream)
    return () if partition is None else check_leader(view, node, *partition)


def decide_open_partition(view: ImageView, command: OpenPartition, now_ms: int) -> Decision[OpenedPartition]:
    """Decides to open a partition. A repetition finds the streams open and changes nothing, unless the node was started
    again since: then records say that the log of this start holds records of open streams."""
    node = check_node(view, command.node_id, command.node_epoch)
    topic, partition = existing_partition(view, command.topic_id, command.index)
    written: list[Record] = [*check_leader(view, node, topic, command.index)]
    opened: list[StreamMetadata] = []
    for stream_id in (partition.data_stream_id, partition.meta_stream_id):
        stream = existing_stream(view, stream_id)
        is_open = stream.state is StreamState.OPENED
        if is_open and stream.owner != node.node_id:
            raise StreamNotClosed(
                f"stream {stream_id} is open at node {stream.owner}; that node has to close it first"
            )
        epoch = stream.epoch if is_open else stream.epoch + 1
        if not is_open or node.log_epoch != node.node_epoch:
            written.append(StreamOpened(stream_id, epoch, node.node_id))
        opened.append(stream_steps.opened(stream, epoch, node.node_id))
    return Decision(tuple(written), OpenedPartition(*opened))
