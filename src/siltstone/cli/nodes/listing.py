"""The rows and the table of ``siltstone nodes``."""

from collections.abc import Sequence

import msgspec
from rich.console import RenderableType

from siltstone.cli.output import is_drawn, results, table
from siltstone.cli.words import cell, count_words, counted, seconds_words
from siltstone.cluster.suspicion import SESSION_MS
from siltstone.metadata.entities import NodeMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.leases.board import ENDED, Beat, time_of
from siltstone.metadata.unreachable_nodes import unreachable_from

ENDED_TOGETHER, SILENT = "ended", "silent"
"""States of a node that no other node has fenced, since none runs."""

NARROW_COLUMNS = 110
"""A narrower terminal shows no write-ahead log and no rack, so that a row stays on one line."""


class NodeRow(msgspec.Struct, frozen=True):
    """``addresses`` are those of its listeners; ``leads``: partitions that it leads; ``state``: live, draining, ended
    (with all others: it leads the same partitions again after the next start), silent (it has not beaten for a session,
    and no node has fenced it), fenced (silent, or ended alone), failing over (another node replays its log), or failed
    over. ``waits``: partitions that no node can lead, because this node is gone and only its write-ahead log may have
    their newest records. ``cannot_reach``: live nodes that this one cannot reach. ``last_beat_ms``: the time of the
    node's last beat, in ms since 1970, if the lease board has one."""

    node_id: int
    addresses: list[str]
    rack: str | None
    state: str
    epoch: int
    leads: int
    wal: str
    waits: int = 0
    last_beat_ms: int | None = None
    cannot_reach: list[int] = []


def node_rows(image: MetadataImage, beats: Sequence[Beat] = (), now_ms: int = 0) -> list[NodeRow]:
    newest = {beat.node_id: beat for beat in beats}
    return [_row(image, image.nodes[node_id], newest.get(node_id), now_ms) for node_id in sorted(image.nodes)]


def _row(image: MetadataImage, node: NodeMetadata, beat: Beat | None, now_ms: int) -> NodeRow:
    last_beat_ms = None if beat is None else time_of(beat)
    return NodeRow(
        node_id=node.node_id,
        addresses=[f"{listener.host}:{listener.port}" for listener in node.listeners],
        rack=node.rack,
        state=_silent_words(node, beat, now_ms) or state_words(node),
        epoch=node.node_epoch,
        leads=image.leader_counts.get(node.node_id, 0),
        wal=node.wal_location,
        waits=0 if node.is_live else _waiting_partitions(image, node.node_id),
        last_beat_ms=last_beat_ms,
        cannot_reach=list(unreachable_from(image, node.node_id)),
    )


def _waiting_partitions(image: MetadataImage, node_id: int) -> int:
    opened = {
        stream.stream_id
        for stream in image.streams.values()
        if stream.owner == node_id and stream.state is StreamState.OPENED
    }
    return sum(
        partition.data_stream_id in opened or partition.meta_stream_id in opened
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def _silent_words(node: NodeMetadata, beat: Beat | None, now_ms: int) -> str:
    """Says for how long the node has been silent; empty for a node that was fenced, and for a node that beats as far as
    is known."""
    last_beat_ms = None if beat is None else time_of(beat)
    if not node.is_live or beat is None or last_beat_ms is None:
        return ""
    if (beat.node_epoch, beat.incarnation) == (node.node_epoch, ENDED):
        return ENDED_TOGETHER
    return SILENT if now_ms - last_beat_ms > SESSION_MS else ""


def state_words(node: NodeMetadata) -> str:
    return "draining" if node.is_live and node.is_draining else node.state.value


def waiting_words(row: NodeRow) -> str:
    """Says what an operator has to know of a node with partitions that wait."""
    waits = f"{counted(row.waits, 'partition')} of node {row.node_id} wait{'s' if row.waits == 1 else ''}"
    if row.wal.startswith("bucket:"):
        return f"{waits} until a live node has replayed its write-ahead log {row.wal}, which takes seconds."
    return (
        f"{waits} until a live node on its machine has replayed its write-ahead log {row.wal}, or it is started again: "
        "the log may hold the only copy of acknowledged records. If the machine is gone and its disk is not: siltstone "
        "serve --recover on another machine. If the log is lost for good: "
        f"siltstone nodes give-up {row.node_id}"
    )


def unreachable_words(row: NodeRow) -> str:
    """Says what an operator has to know of a node that cannot reach others."""
    others = ", ".join(map(str, row.cannot_reach))
    return (
        f"Node {row.node_id} cannot reach node {others}: transactions over both wait. Look at the network between "
        f"them, and at what the log of node {row.node_id} says."
    )


def nodes_table(rows: list[NodeRow], now_ms: int) -> RenderableType:
    is_wide = not is_drawn() or results().width >= NARROW_COLUMNS
    shown = table(
        ">id",
        "address",
        "state",
        ">epoch",
        ">leads",
        ">last beat",
        *(("rack", "write-ahead log") if is_wide else ()),
    )
    for row in rows:
        shown.add_row(
            str(row.node_id),
            cell(", ".join(row.addresses) or "-"),
            row.state,
            str(row.epoch),
            count_words(row.leads),
            _ago(row, now_ms),
            *((cell(row.rack or "-"), cell(row.wal)) if is_wide else ()),
        )
    return shown


def _ago(row: NodeRow, now_ms: int) -> str:
    if row.last_beat_ms is None:
        return "-"
    return f"{seconds_words(max(0, now_ms - row.last_beat_ms) / 1000)} ago"
