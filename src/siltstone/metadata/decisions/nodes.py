"""RegisterNode: the registration of a process under a node id, which fences the process registered before."""

from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.entities import NodeMetadata, NodeRegistration, StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import NodeRegistered
from siltstone.metadata.refusals import NodeEpochNotExist, NodeLogBehind

FIRST_NODE_EPOCH = 1


def decide_register_node(view: ImageView, command: RegisterNode, now_ms: int) -> Decision[NodeRegistration]:
    """A fail-over keeps the dead node's WAL location, because that log will be replayed."""
    node = view.nodes.get(command.node_id)
    if node is None and command.failover:
        raise NodeEpochNotExist(
            f"node {command.node_id} was never registered, so it cannot be failed over; check the node id"
        )
    opened = opened_streams(view, command.node_id)
    if node is not None and node.incarnation == command.incarnation:
        return Decision((), NodeRegistration(command.node_id, node.node_epoch, opened))
    if node is not None and opened:
        _check_log(node, command)
    epoch = FIRST_NODE_EPOCH if node is None else node.node_epoch + 1
    record = NodeRegistered(
        node_id=command.node_id,
        node_epoch=epoch,
        incarnation=command.incarnation,
        failover=command.failover,
        wal_location=node.wal_location if node is not None and command.failover else command.wal_location,
    )
    return Decision((record,), NodeRegistration(command.node_id, epoch, opened))


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
