"""Decisions about nodes that are silent, return, are drained, or whose write-ahead log another node replays.

Leases only say when to look (``cluster.suspicion``): these decisions look at epochs and claims, never at a clock. A
node that was fenced wrongly resumes and has lost nothing but time. A claim is held in one life of the claimer, and only
while that life is not fenced itself (``claimer_of``); another live node may then take the claim over.
"""

from siltstone.metadata import records
from siltstone.metadata.commands import ClaimFailover, DrainNode, FenceNode, ResumeNode, UnregisterNode
from siltstone.metadata.decisions.fences import Decision, check_node
from siltstone.metadata.entities import NO_EPOCH, NO_NODE, NodeMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.refusals import (
    CommandMalformed,
    FailoverUnderWay,
    FencedNode,
    LastNode,
    NodeEpochExpired,
    NodeEpochNotExist,
    NodeInUse,
)

NODE_EPOCHS = "node epochs"
"""The sequence of epochs from which a node that the metadata does not know gets its first one: it is above every epoch
of a node that was unregistered, so a process of a forgotten node stays fenced (rule 7)."""

NO_LIFE = 0
"""The newest epoch of a node that has never been registered."""

FAILOVERS_MAX = 2
"""The most failovers in the cluster at a time: each recoverer reads and uploads a whole log beside its own work."""


def newest_epoch(view: ImageView, node_id: int) -> int:
    """Returns the newest epoch that the metadata may have given the node. Of a node that is not registered it only
    knows that each epoch so far was below NODE_EPOCHS: such a node may have been unregistered."""
    node = view.nodes.get(node_id)
    return max(NO_LIFE, view.sequences.get(NODE_EPOCHS, 0) - 1) if node is None else node.node_epoch


def known_node(view: ImageView, node_id: int) -> NodeMetadata:
    """Returns the node. Raises NodeEpochNotExist."""
    node = view.nodes.get(node_id)
    if node is None:
        raise NodeEpochNotExist(f"node {node_id} is not registered; check the node id")
    return node


def claimer_of(view: ImageView, node: NodeMetadata) -> NodeMetadata | None:
    """Returns the live node that has claimed the failover of ``node``, or None."""
    claimer = view.nodes.get(node.claimed_by)
    if claimer is None or claimer.node_epoch != node.claimed_by_epoch or not claimer.is_live:
        return None
    return claimer


def check_no_failover(view: ImageView, node: NodeMetadata) -> None:
    """Raises FailoverUnderWay when a live node has the claim on the node's failover."""
    claimer = claimer_of(view, node)
    if claimer is not None:
        raise FailoverUnderWay(
            f"node {claimer.node_id} is replaying the write-ahead log of node {node.node_id}; try again when it is done"
        )


def check_life(node: NodeMetadata, node_epoch: int) -> None:
    """Raises NodeEpochNotExist and NodeEpochExpired when the node is not in this life."""
    if node_epoch > node.node_epoch:
        raise NodeEpochNotExist(
            f"node {node.node_id} is not registered under epoch {node_epoch}; read the metadata again"
        )
    if node_epoch < node.node_epoch:
        raise NodeEpochExpired(
            f"node {node.node_id} was registered again with epoch {node.node_epoch}; look at that life of it"
        )


def life_unregistered(node_id: int, node_epoch: int) -> FencedNode:
    """Returns the error for a process that runs in a life of a node that is not registered any more."""
    return FencedNode(
        f"node {node_id} was unregistered, so epoch {node_epoch} is fenced; stop this process, and start it again if "
        "the node is to come back"
    )


def decide_fence_node(view: ImageView, command: FenceNode, now_ms: int) -> Decision[None]:
    node = known_node(view, command.node_id)
    check_life(node, command.node_epoch)
    if node.failover:
        raise FailoverUnderWay(
            f"node {node.node_id} is being failed over and sends no beats; watch node {node.claimed_by}, which does it"
        )
    return Decision(() if node.is_fenced else (records.NodeFenced(node.node_id, node.node_epoch),), None)


def decide_resume_node(view: ImageView, command: ResumeNode, now_ms: int) -> Decision[None]:
    node = view.nodes.get(command.node_id)
    if node is None:
        raise life_unregistered(command.node_id, command.node_epoch)
    if command.node_epoch > node.node_epoch:
        raise NodeEpochNotExist(
            f"node {node.node_id} is not registered under epoch {command.node_epoch}; register it first"
        )
    if command.node_epoch < node.node_epoch or command.incarnation != node.incarnation:
        raise FencedNode(
            f"node {node.node_id} was registered again with epoch {node.node_epoch}; stop this process"
        )
    if node.claimed_by != NO_NODE:
        raise FencedNode(
            f"node {node.claimed_by} has claimed the failover of node {node.node_id}; stop this process and start it "
            "again"
        )
    return Decision((records.NodeResumed(node.node_id, node.node_epoch),) if node.is_fenced else (), None)


def decide_drain_node(view: ImageView, command: DrainNode, now_ms: int) -> Decision[None]:
    node = known_node(view, command.node_id)
    if node.is_draining == command.is_draining:
        return Decision((), None)
    others = (other for other in view.nodes.values() if other.node_id != node.node_id)
    if command.is_draining and not any(other.is_live and not other.is_draining for other in others):
        raise LastNode(
            f"node {node.node_id} cannot be drained: no other live node could take its partitions; start one first"
        )
    return Decision((records.NodeDraining(node.node_id, command.is_draining),), None)


def decide_unregister_node(view: ImageView, command: UnregisterNode, now_ms: int) -> Decision[None]:
    node = view.nodes.get(command.node_id)
    if node is None:
        return Decision((), None)
    if not node.is_fenced and not node.failover:
        raise NodeInUse(f"node {node.node_id} is live; stop it, then unregister it")
    check_no_failover(view, node)
    opened = sum(
        stream.owner == node.node_id and stream.state is StreamState.OPENED
        for stream in view.streams.values()
    )
    if opened:
        raise NodeInUse(
            f"node {node.node_id} has {opened} streams open, whose records its write-ahead log may hold; start it, or "
            "let another node take it over"
        )
    if leads := view.leader_counts.get(node.node_id, 0):
        raise NodeInUse(f"node {node.node_id} leads {leads} partitions; move them to other nodes first")
    forgotten: tuple[records.Record, ...] = (records.NodeUnregistered(node.node_id),)
    if view.sequences.get(NODE_EPOCHS, 0) <= node.node_epoch:
        forgotten = (*forgotten, records.NumbersTaken(NODE_EPOCHS, node.node_epoch + 1))
    return Decision(forgotten, None)


def decide_claim_failover(view: ImageView, command: ClaimFailover, now_ms: int) -> Decision[None]:
    claimer = check_node(view, command.node_id, command.node_epoch)
    node = known_node(view, command.dead_node_id)
    if node.node_id == claimer.node_id or claimer.failover:
        raise CommandMalformed(
            f"node {node.node_id} cannot claim its own failover; register it again, which replays its log"
        )
    has_claim = (node.claimed_by, node.claimed_by_epoch) == (claimer.node_id, claimer.node_epoch)
    if command.gives_back:
        return Decision(
            (records.FailoverClaimed(node.node_id, NO_NODE, NO_EPOCH),) if has_claim else (), None
        )
    if node.is_live:
        raise NodeInUse(f"node {node.node_id} is live, so it is not failed over")
    if has_claim:
        return Decision((), None)
    check_no_failover(view, node)
    claimers = [
        other.node_id for each in view.nodes.values() if (other := claimer_of(view, each)) is not None
    ]
    if claimer.node_id in claimers or len(claimers) >= FAILOVERS_MAX:
        raise FailoverUnderWay(
            f"nodes {sorted(claimers)} are replaying the write-ahead logs of others, and node {node.node_id} has to "
            "wait; try again when one is done"
        )
    return Decision((records.FailoverClaimed(node.node_id, claimer.node_id, claimer.node_epoch),), None)
