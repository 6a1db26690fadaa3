"""The rows and the table of ``siltstone nodes``."""

import msgspec
from rich.console import RenderableType

from siltstone.cli.output import is_drawn, results, table
from siltstone.cli.words import cell, count_words
from siltstone.metadata.entities import NodeMetadata
from siltstone.metadata.image import MetadataImage

NARROW_COLUMNS = 110
"""A narrower terminal shows no write-ahead log and no rack, so that a row stays on one line."""


class NodeRow(msgspec.Struct, frozen=True):
    """``addresses`` are those of its listeners; ``leads``: partitions that it leads; ``state``: live, draining, fenced
    (silent, or ended), or failing over (another node replays its log)."""

    node_id: int
    addresses: list[str]
    rack: str | None
    state: str
    epoch: int
    leads: int
    wal: str


def node_rows(image: MetadataImage) -> list[NodeRow]:
    return [_row(image, image.nodes[node_id]) for node_id in sorted(image.nodes)]


def _row(image: MetadataImage, node: NodeMetadata) -> NodeRow:
    return NodeRow(
        node_id=node.node_id,
        addresses=[f"{listener.host}:{listener.port}" for listener in node.listeners],
        rack=node.rack,
        state=state_words(node),
        epoch=node.node_epoch,
        leads=image.leader_counts.get(node.node_id, 0),
        wal=node.wal_location,
    )


def state_words(node: NodeMetadata) -> str:
    if node.failover:
        return "failing over"
    if node.is_fenced:
        return "fenced"
    return "draining" if node.is_draining else "live"


def nodes_table(rows: list[NodeRow]) -> RenderableType:
    is_wide = not is_drawn() or results().width >= NARROW_COLUMNS
    shown = table(
        ">id", "address", "state", ">epoch", ">leads", *(("rack", "write-ahead log") if is_wide else ())
    )
    for row in rows:
        shown.add_row(
            str(row.node_id),
            cell(", ".join(row.addresses) or "-"),
            row.state,
            str(row.epoch),
            count_words(row.leads),
            *((cell(row.rack or "-"), cell(row.wal)) if is_wide else ()),
        )
    return shown
