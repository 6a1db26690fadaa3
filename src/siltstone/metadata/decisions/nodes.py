"""Decides RegisterNode, the registration of a process under a node id, which fences the process that was registered
before; and GiveUpLog: a person fences a node whose log is gone.

Next: ``membership``, which fences, resumes, drains and forgets nodes, and gives out claims on their failover.
"""

from siltstone.metadata.commands import GiveUpLog, RegisterNode
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.decisions.membership import (
    check_life,
    check_no_failover,
    claimer_of,
    known_node,
    newest_epoch,
)
from siltstone.metadata.entities import (
    SINK_NODE,
    NodeMetadata,
    NodeRegistration,
    StreamMetadata,
    StreamState,
)
from siltstone.metadata.image import ImageView
from siltstone.metadata.records import KeySet, NodeRegistered, Record, StreamClosed
from siltstone.metadata.refusals import (
    ClaimLost,
    CommandMalformed,
    NodeEpochNotExist,
    NodeInUse,
    NodeLogBehind,
    NodeLogLost,
)

STREAMS_CLOSED_AT_ONCE_MAX = 10_000
"""The limit keeps a log entry of the metadata small."""

LOST_LOG_PREFIX = "lost-log/"
"""The key LOST_LOG_PREFIX + node id has the newest epoch whose log was declared lost. It outlives the node."""


def decide_register_node(view: ImageView, command: RegisterNode, now_ms: int) -> Decision[NodeRegistration]:
    if command.node_id >= SINK_NODE:
        raise CommandMalformed(f"node ids from {SINK_NODE} on are kept for sinks; choose a lower node id")
    node = view.nodes.get(command.node_id)
    if command.failover:
        return _fail_over(view, command)
    opened = opened_streams(view, command.node_id)
    _check_not_lost(view, command)
    if node is not None:
        if node.incarnation == command.incarnation and not node.failover:
            return Decision((), NodeRegistration(command.node_id, node.node_epoch, opened))
        check_no_failover(view, node)
        if opened:
            _check_log(node, command)
    epoch = newest_epoch(view, command.node_id) + 1
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
    """Registers a process for a failover, which keeps the dead node's WAL location, because that log will be replayed.
    Without the claim, two recoverers would fence each other for ever. Raises NodeEpochNotExist, ClaimLost,
    NodeLogBehind."""
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


def lost_log_epoch(view: ImageView, node_id: int) -> int:
    """Returns the node epoch up to which the node's logs were declared lost; 0 if none was."""
    return int(view.keys.get(f"{LOST_LOG_PREFIX}{node_id}", b"0"))


def _check_not_lost(view: ImageView, command: RegisterNode) -> None:
    """Refuses a log that was declared lost: its records no longer continue their streams, so the start would delete
    them. Raises NodeLogLost."""
    lost_epoch = lost_log_epoch(view, command.node_id)
    if command.log_epoch and command.log_epoch <= lost_epoch != command.lost_log_epoch:
        raise NodeLogLost(
            f"the write-ahead log of node {command.node_id} was declared lost up to node epoch {lost_epoch}, and the "
            "topics have continued without the records that only it holds",
            log_epoch=lost_epoch,
        )


def decide_give_up_log(view: ImageView, command: GiveUpLog, now_ms: int) -> Decision[NodeRegistration]:
    node = known_node(view, command.node_id)
    is_repeated = node.failover and node.incarnation == command.incarnation
    taken: tuple[Record, ...] = ()
    epoch = node.node_epoch
    if not is_repeated:
        check_life(node, command.node_epoch)
        if node.is_live:
            raise NodeInUse(f"node {node.node_id} is live, and so is its write-ahead log; stop it first")
        check_no_failover(view, node)
        epoch = node.node_epoch + 1
        taken = (
            NodeRegistered(
                node_id=node.node_id,
                node_epoch=epoch,
                incarnation=command.incarnation,
                failover=True,
                wal_location=node.wal_location,
                listeners=node.listeners,
                rack=node.rack,
            ),
            KeySet(f"{LOST_LOG_PREFIX}{node.node_id}", str(node.node_epoch).encode()),
        )
    opened = opened_streams(view, node.node_id)
    closed, left = opened[:STREAMS_CLOSED_AT_ONCE_MAX], opened[STREAMS_CLOSED_AT_ONCE_MAX:]
    records = (*taken, *(StreamClosed(stream.stream_id) for stream in closed))
    return Decision(records, NodeRegistration(node.node_id, epoch, left))


def opened_streams(view: ImageView, node_id: int) -> tuple[StreamMetadata, ...]:
    """Returns the streams that the node has open, sorted by id. It scans all streams, since a node rarely starts."""
    opened = (
        stream
        for stream in view.streams.values()
        if stream.owner == node_id and stream.state is StreamState.OPENED
    )
    return tuple(sorted(opened, key=lambda stream: stream.stream_id))
