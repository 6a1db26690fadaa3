"""Nodes as rows, with what they lead and their load. Pure."""

import shlex
from collections.abc import Iterable

import msgspec

from siltstone.cluster.balancing.goals import Load
from siltstone.cluster.balancing.planning import BalancePlan
from siltstone.metadata.entities import NO_NODE, NodeState, TopicMetadata
from siltstone.metadata.image import MetadataImage


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """``leads`` counts partitions; ``arriving`` and ``leaving`` count partitions on their way to the node and away from
    it."""

    node_id: int
    state: str
    is_live: bool
    epoch: int
    listeners: tuple[str, ...]
    rack: str
    wal_location: str
    leads: int
    arriving: int
    leaving: int
    note: str


def moves_of(topics: Iterable[TopicMetadata]) -> list[tuple[str, int, int, int]]:
    """Returns topic, partition, leader and target of each partition on its way."""
    return [
        (topic.name, number, partition.leader, partition.target)
        for topic in topics
        for number, partition in enumerate(topic.partitions)
        if partition.target != NO_NODE
    ]


def node_views(
    image: MetadataImage, moves: Iterable[tuple[str, int, int, int]] | None = None
) -> list[NodeView]:
    """``moves``: what ``moves_of`` returns, where the caller has it already."""
    arriving: dict[int, int] = {}
    leaving: dict[int, int] = {}
    for _, _, leader, target in moves_of(image.topics.values()) if moves is None else moves:
        arriving[target] = arriving.get(target, 0) + 1
        leaving[leader] = leaving.get(leader, 0) + 1
    rows = []
    for node in sorted(image.nodes.values(), key=lambda each: each.node_id):
        note = {
            NodeState.LIVE: "being drained" if node.is_draining else "",
            NodeState.FENCED: "was silent: it has no partitions to lead until it returns, or is failed over",
            NodeState.FAILING_OVER: f"node {node.claimed_by} replays its log",
            NodeState.FAILED_OVER: "others have replayed its log; it may be started again",
        }[node.state]
        rows.append(
            NodeView(
                node_id=node.node_id,
                state=node.state.value,
                is_live=node.is_live,
                epoch=node.node_epoch,
                listeners=tuple(f"{each.name} {each.host}:{each.port}" for each in node.listeners),
                rack=node.rack or "",
                wal_location=node.wal_location,
                leads=image.leader_counts.get(node.node_id, 0),
                arriving=arriving.get(node.node_id, 0),
                leaving=leaving.get(node.node_id, 0),
                note=note,
            )
        )
    return rows


class LoadView(msgspec.Struct, frozen=True):
    """``after``: the load that the plan would bring about."""

    node_id: int
    before: Load
    after: Load


def load_views(made: BalancePlan) -> list[LoadView]:
    return [
        LoadView(each, made.before[each], made.after.get(each, made.before[each]))
        for each in sorted(made.before)
    ]


def nodes_to_lead(image: MetadataImage) -> list[int]:
    """Returns the nodes that a partition may be moved to."""
    return sorted(
        each.node_id
        for each in image.nodes.values()
        if each.is_live and not each.is_draining and each.listeners
    )


def move_command(image: MetadataImage, topic: str, number: int, leader: int) -> str:
    """Returns a command that moves the partition to one of the other nodes."""
    to = next((each for each in nodes_to_lead(image) if each != leader), 0)
    return f"siltstone topics move {shlex.quote(f'{topic}:{number}')} --to {to}"
