"""RegisterNode: the registration of a process under a node id, which fences the process registered before.

Next: ``membership``, which fences, resumes, drains and forgets nodes, and gives out claims on their failover.
"""

from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.decisions.membership import NODE_EPOCHS, check_no_failover, claimer_of
from siltstone.metadata.entities import NodeMetadata, NodeRegistration, StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import NodeRegistered
from siltstone.metadata.refusals import ClaimLost, NodeEpochNotExist, NodeLogBehind

FIRST_NODE_EPOCH = 1


def decide_register_node(view: ImageView, command: RegisterNode, now_ms: int) -> Decision[NodeRegistration]:
    node = view.nodes.get(command.node_id)
    if command.failover:
        return _fail_over(view, command)
    opened = opened_streams(view, command.node_id)
    if node is None:
        epoch = max(FIRST_NODE_EPOCH, view.sequences.get(NODE_EPOCHS, 0))
    elif node.incarnation == command.incarnation and not node.failover:
        return Decision((), NodeRegistration(command.node_id, node.node_epoch, opened))
    else:
        check_no_failover(view, node)
        if opened:
            _check_log(node, command)
        epoch = node.node_epoch + 1
    record = NodeRegistered(
        node_id=command.node_id,
        node_epoch=epoch,
        incarnation=command.incarnation,
        failover=False,
        wal_location=command.wal_location,
        listeners=command.listeners,
        rack=command.rack,
    )
    return Decision((record,), NodeRegistration(command.node_id, epoch, opened))


def _fail_over(view: ImageView, command: RegisterNode) -> Decision[NodeRegistration]:
    """A failover keeps the dead node's WAL location, because that log will be replayed. Without the claim, two
    recoverers would fence each other for ever. Raises NodeEpochNotExist, ClaimLost, NodeLogBehind."""
    node = view.nodes.get(command.node_id)
    if node is None:
        raise NodeEpochNotExist(
            f"node {command.node_id} was never registered, so it cannot be failed over; check the node id"
        )
    claimer = claimer_of(view, node)
    if claimer is None or claimer.incarnation != command.incarnation:
        raise ClaimLost(
            f"this process does not have the claim on the failover of node {node.node_id}; stop replaying its log"
        )
    opened = opened_streams(view, command.node_id)
    if node.failover and node.incarnation == command.incarnation:
        return Decision((), NodeRegistration(node.node_id, node.node_epoch, opened))
    if opened:
        _check_log(node, command)
    record = NodeRegistered(
        node_id=node.node_id,
        node_epoch=node.node_epoch + 1,
        incarnation=command.incarnation,
        failover=True,
        wal_location=node.wal_location,
        listeners=node.listeners,
        rack=node.rack,
    )
    return Decision((record,), NodeRegistration(node.node_id, record.node_epoch, opened))


def _check_log(node: NodeMetadata, command: RegisterNode) -> None:
    """Refuses a process that starts with another log folder, before it could raise the epoch and so fence the process
    that runs. Raises NodeLogBehind."""
    if command.log_epoch is None or command.log_epoch >= node.log_epoch:
        return
    if command.lost_log_epoch != node.log_epoch:
        raise NodeLogBehind(
            f"node {node.node_id} left streams open under node epoch {node.log_epoch}",
            log_epoch=node.log_epoch,
        )


def opened_streams(view: ImageView, node_id: int) -> tuple[StreamMetadata, ...]:
    """Returns the streams that the node has open, sorted by id. It scans all streams, since a node rarely starts."""
    opened = (
        stream
        for stream in view.streams.values()
        if stream.owner == node_id and stream.state is StreamState.OPENED
    )
    return tuple(sorted(opened, key=lambda stream: stream.stream_id))
