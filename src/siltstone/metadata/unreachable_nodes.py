"""Which nodes cannot reach which others, as keys of the metadata: a node writes it, ``siltstone nodes`` shows it.

All nodes reach the metadata, or they are fenced; but a network may be cut between two of them.

    key      unreachable-from/<node id>
    value    <node epoch>:<ids of the nodes that it cannot reach, such as 1,2>

What an ended life has written counts no more.
"""

from collections.abc import Collection
from typing import Any

from siltstone.metadata.commands import Command, PutKey, RemoveKey
from siltstone.metadata.entities import NodeLife
from siltstone.metadata.image import ImageView, MetadataImage

_PREFIX = "unreachable-from/"


def put_unreachable(life: NodeLife, node_ids: Collection[int]) -> Command[Any]:
    """Returns a command that says which live nodes the node cannot reach."""
    key = f"{_PREFIX}{life.node_id}"
    if not node_ids:
        return RemoveKey(key)
    value = f"{life.node_epoch}:{','.join(map(str, sorted(node_ids)))}"
    return PutKey(key, value.encode(), overwrite=True)


def told_unreachable(image: ImageView, life: NodeLife) -> tuple[int, ...]:
    """Returns what the node has written in this life."""
    stored = image.keys.get(f"{_PREFIX}{life.node_id}")
    epoch, _, others = ("" if stored is None else stored.decode()).partition(":")
    return tuple(map(int, others.split(","))) if epoch == str(life.node_epoch) else ()


def unreachable_from(image: MetadataImage, node_id: int) -> tuple[int, ...]:
    """Returns the live nodes that a live node cannot reach."""
    node = image.nodes[node_id]
    found = told_unreachable(image, node.life) if node.is_live else ()
    return tuple(each for each in found if each in image.nodes and image.nodes[each].is_live)
