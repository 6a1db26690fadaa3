"""The placement of partitions: which node leads a new partition, or one whose node is gone.

Each partition goes to the node that leads the fewest, among those to the rack that got the fewest of this command, and
among those to the node with the highest hash of topic, partition and node: so the order of node ids favours no node,
and equal images place alike.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from hashlib import blake2b

from siltstone.metadata.commands import PlacePartitions
from siltstone.metadata.decisions.fences import Decision, check_node, existing_stream
from siltstone.metadata.entities import NodeMetadata, PartitionMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import PartitionsPlaced
from siltstone.metadata.refusals import (
    CommandMalformed,
    NoLiveNode,
    StoreFull,
    StreamNotClosed,
    TargetUnfit,
    TooManyPartitions,
)
from siltstone.model.limits import PARTITIONS_PER_COMMAND_MAX


def check_number_of_partitions(count: int) -> None:
    """Raises TooManyPartitions."""
    if count > PARTITIONS_PER_COMMAND_MAX:
        raise TooManyPartitions(
            f"{count} partitions are too many for one command; name at most {PARTITIONS_PER_COMMAND_MAX} at a time"
        )


def check_room(view: ImageView, added: int, most: int) -> None:
    """``most``: how many partitions the store may have; 0: any number. Raises StoreFull."""
    standing = sum(view.leader_counts.values())
    if 0 < most < standing + added:
        raise StoreFull(
            f"the store has {standing} partitions, and {added} more would be above its {most}: delete topics, or raise "
            "broker.partitions_max"
        )


def check_fit(view: ImageView, node_id: int) -> NodeMetadata:
    """Returns the node if partitions may be given to it. Raises TargetUnfit."""
    node = view.nodes.get(node_id)
    if node is None:
        raise TargetUnfit(
            f"node {node_id} is not registered, so it cannot lead a partition; name another node"
        )
    if not node.is_live or node.is_draining:
        state = "being drained" if node.is_live else "not live"
        raise TargetUnfit(f"node {node_id} is {state}, so it gets no partitions; name another node")
    return node


class Placement:
    """Chooses the leaders of one command. ``asked`` is the node that executes it: it may lead partitions although it
    was registered without listeners, as a node that has a store to itself may be."""

    def __init__(self, view: ImageView, asked: NodeMetadata) -> None:
        self._nodes = [
            node
            for node in view.nodes.values()
            if node.is_live and not node.is_draining and (node.listeners or node.node_id == asked.node_id)
        ]
        self._counts = {node.node_id: view.leader_counts.get(node.node_id, 0) for node in self._nodes}
        self._racks: Counter[str | None] = Counter()

    def leader(self, topic_id: str, index: int) -> int:
        """Returns the leader of one more partition. Raises NoLiveNode."""
        if not self._nodes:
            raise NoLiveNode(
                "no live node can lead another partition: each is fenced or being drained; start a node"
            )
        if len(self._nodes) == 1:
            return self._nodes[0].node_id
        fewest = min(map(self._load, self._nodes))
        tied = [node for node in self._nodes if self._load(node) == fewest]
        chosen = (
            tied[0] if len(tied) == 1 else max(tied, key=lambda node: _hash(topic_id, index, node.node_id))
        )
        self._counts[chosen.node_id] += 1
        self._racks[chosen.rack] += 1
        return chosen.node_id

    def _load(self, node: NodeMetadata) -> tuple[int, int]:
        return self._counts[node.node_id], self._racks[node.rack]


def _hash(topic_id: str, index: int, node_id: int) -> bytes:
    return blake2b(f"{topic_id}/{index}/{node_id}".encode(), digest_size=8).digest()


def leaders_of_new(
    view: ImageView, asked: NodeMetadata, topic_id: str, numbers: range, assigned: Sequence[int]
) -> list[int]:
    """Returns the leaders of the topic's new partitions ``numbers``: those assigned, or if there are none, those
    chosen. Raises CommandMalformed, TargetUnfit, NoLiveNode."""
    if not assigned:
        placement = Placement(view, asked)
        return [placement.leader(topic_id, index) for index in numbers]
    if len(assigned) != len(numbers):
        raise CommandMalformed(
            f"{len(assigned)} leaders are given for {len(numbers)} partitions; give one for each, or none"
        )
    for node_id in set(assigned):
        check_fit(view, node_id)
    return list(assigned)


def decide_place_partitions(view: ImageView, command: PlacePartitions, now_ms: int) -> Decision[None]:
    """Decides the placement of partitions. A partition that was being moved is placed at its target if that node is
    fit. Topics that were deleted, and partitions whose leader is live, are passed over: another node placed them
    first."""
    asked = check_node(view, command.node_id, command.node_epoch)
    check_number_of_partitions(len(command.partitions))
    placement = Placement(view, asked)
    placed: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for topic_id, index in command.partitions:
        topic = view.topics.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions) or index in placed[topic_id]:
            continue
        partition = topic.partitions[index]
        leader = view.nodes.get(partition.leader)
        if leader is None or not leader.is_live:
            _check_closed(view, partition)
            target = _fit_target(view, partition)
            placed[topic_id][index] = placement.leader(topic_id, index) if target is None else target
    return Decision(
        tuple(
            PartitionsPlaced(topic_id, tuple(leaders.items()))
            for topic_id, leaders in placed.items()
            if leaders
        ),
        None,
    )


def _fit_target(view: ImageView, partition: PartitionMetadata) -> int | None:
    target = view.nodes.get(partition.target)
    return target.node_id if target is not None and target.is_live and not target.is_draining else None


def _check_closed(view: ImageView, partition: PartitionMetadata) -> None:
    for stream_id in (partition.data_stream_id, partition.meta_stream_id):
        stream = existing_stream(view, stream_id)
        if stream.state is StreamState.OPENED:
            raise StreamNotClosed(
                f"stream {stream_id} is open at node {stream.owner}, whose log may hold the only copy of its records; "
                "that log has to be replayed first"
            )
