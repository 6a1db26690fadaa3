"""Moving partitions: MovePartitions names the target, GiveUpPartitions closes both streams and makes it the leader.

The streams are closed and the leader is changed by the same append: a crash between two appends would leave a partition
that no node may open, or that two nodes may open.
"""

from collections import defaultdict

from siltstone.metadata.commands import GiveUpPartitions, MovePartitions, PartitionEnds
from siltstone.metadata.decisions.fences import Decision, check_node, check_owner, existing_stream
from siltstone.metadata.decisions.leaders import existing_partition
from siltstone.metadata.decisions.placement import check_fit, check_number_of_partitions
from siltstone.metadata.entities import (
    NO_NODE,
    GivenUpPartition,
    NodeMetadata,
    PartitionMetadata,
    StreamMetadata,
    StreamState,
)
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import PartitionsMoving, PartitionsPlaced, Record, StreamClosed
from siltstone.metadata.refusals import (
    CommandMalformed,
    MoveCancelled,
    OffsetNotMatched,
    StreamNotClosed,
    TargetUnfit,
)


def decide_move_partitions(view: ImageView, command: MovePartitions, now_ms: int) -> Decision[None]:
    check_number_of_partitions(len(command.targets))
    _check_once([(topic_id, index) for topic_id, index, _ in command.targets])
    moving: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    placed: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for topic_id, index, node_id in command.targets:
        _, partition = existing_partition(view, topic_id, index)
        target = NO_NODE if node_id == partition.leader else node_id
        if target != NO_NODE:
            check_fit(view, target)
        if partition.leader == NO_NODE and target != NO_NODE:
            _check_not_open(view, partition)
            placed[topic_id].append((index, target))
        elif target != partition.target:
            moving[topic_id].append((index, target))
    records: list[Record] = [PartitionsPlaced(topic_id, tuple(each)) for topic_id, each in placed.items()]
    records += [PartitionsMoving(topic_id, tuple(each)) for topic_id, each in moving.items()]
    return Decision(tuple(records), None)


def _check_once(partitions: list[tuple[str, int]]) -> None:
    if len(set(partitions)) < len(partitions):
        raise CommandMalformed("a partition is named twice in one command; name it once")


def _check_not_open(view: ImageView, partition: PartitionMetadata) -> None:
    for stream in _streams(view, partition):
        if stream.state is StreamState.OPENED:
            raise StreamNotClosed(
                f"stream {stream.stream_id} is open at node {stream.owner}, which does not lead its partition yet; "
                "that node has to open the partition again, or close it"
            )


def _streams(view: ImageView, partition: PartitionMetadata) -> tuple[StreamMetadata, StreamMetadata]:
    return existing_stream(view, partition.data_stream_id), existing_stream(view, partition.meta_stream_id)


def decide_give_up_partitions(
    view: ImageView, command: GiveUpPartitions, now_ms: int
) -> Decision[tuple[GivenUpPartition, ...]]:
    node = check_node(view, command.node_id, command.node_epoch)
    check_number_of_partitions(len(command.partitions))
    _check_once([(ends.topic_id, ends.index) for ends in command.partitions])
    closed: list[Record] = []
    placed: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    answers: list[GivenUpPartition] = []
    for ends in command.partitions:
        if ends.topic_id not in view.topics:
            continue
        _, partition = existing_partition(view, ends.topic_id, ends.index)
        data, meta = _streams(view, partition)
        leader = partition.leader
        if _is_held(partition, data, node, ends):
            leader = _target(view, partition, ends)
            closed += _closures(node, (data, ends.data_end_offset), (meta, ends.meta_end_offset))
            placed[ends.topic_id].append((ends.index, leader))
        answers.append(GivenUpPartition(ends.topic_id, ends.index, leader, data.epoch))
    records = [*closed, *(PartitionsPlaced(topic_id, tuple(each)) for topic_id, each in placed.items())]
    return Decision(tuple(records), tuple(answers))


def _is_held(
    partition: PartitionMetadata, data: StreamMetadata, node: NodeMetadata, ends: PartitionEnds
) -> bool:
    """Returns whether the partition is still to be given up. A partition that the node leads and never opened is to be
    given up if it has a target. A partition that the node opened under a later epoch was given up and came back: a late
    repetition must not close it again."""
    if partition.leader != node.node_id or data.epoch != ends.leader_epoch:
        return False
    return data.state is StreamState.OPENED or partition.target != NO_NODE


def _target(view: ImageView, partition: PartitionMetadata, ends: PartitionEnds) -> int:
    """Raises MoveCancelled, TargetUnfit. A target that is being drained takes the partition, and gives it up in
    turn."""
    if partition.target == NO_NODE:
        raise MoveCancelled(
            f"partition {ends.index} of topic {ends.topic_id} is not being moved any more; serve it on"
        )
    target = view.nodes.get(partition.target)
    if target is None or not target.is_live:
        raise TargetUnfit(
            f"node {partition.target}, the target of partition {ends.index} of topic {ends.topic_id}, is not live; "
            "serve the partition on, and try again later"
        )
    return target.node_id


def _closures(node: NodeMetadata, *streams: tuple[StreamMetadata, int]) -> list[Record]:
    """Raises StreamFenced, and OffsetNotMatched when records between the two ends are in the node's log only: no
    recovery would replay them once the stream is closed."""
    for stream, end_offset in streams:
        if stream.state is StreamState.OPENED:
            check_owner(stream, node.node_id)
        if stream.end_offset != end_offset:
            raise OffsetNotMatched(
                f"stream {stream.stream_id} ends at {stream.end_offset} in the metadata and at {end_offset} at node "
                f"{node.node_id}; upload the rest before giving it up"
            )
    return [StreamClosed(stream.stream_id) for stream, _ in streams if stream.state is StreamState.OPENED]
