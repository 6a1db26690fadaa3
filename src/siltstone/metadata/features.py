"""The features of Kafka's protocol that all nodes of the store have, as keys of the metadata.

A client learns from one broker that a feature is there, and uses it with all. So a level of a feature is *final* when
every registered node has it: it is then a promise. A node that does not have that level does not start; one that comes
while the level is made final is either counted or finds the promise, because both are in one log.

A node that has ended counts until it is started again or unregistered: it may be started again as it was.
"""

from collections.abc import Mapping

from siltstone.metadata.commands import Command, PutKey
from siltstone.metadata.entities import NodeLife
from siltstone.metadata.image import ImageView
from siltstone.model.errors import InvalidRequest

TRANSACTION_VERSION = "transaction.version"

GROUP_VERSION = "group.version"
"""Level 1: the groups of KIP-848."""

SHARE_VERSION = "share.version"
"""Level 1: share groups (KIP-932), whose states are in the meta streams of partitions."""

FEATURES = {TRANSACTION_VERSION: 2, GROUP_VERSION: 1, SHARE_VERSION: 1}
"""The highest level of each that this program has."""

_FINAL_PREFIX, _NODE_PREFIX = "feature/", "node-feature/"


class PromiseFeature(Command[int], frozen=True):
    """→ the level that is final after the command (int). The level becomes final if every registered node has told that
    it has it; it never falls. Idempotent."""

    name: str
    level: int


class FeatureIsFinal(InvalidRequest):
    """The nodes of the store have promised their clients a feature that this program does not have."""


def put_own_level(life: NodeLife, name: str, level: int) -> PutKey:
    """Returns a command that says which level the node has, in this life."""
    value = f"{life.node_epoch}:{level}"
    return PutKey(f"{_NODE_PREFIX}{life.node_id}/{name}", value.encode(), overwrite=True)


def level_of_node(image: ImageView, life: NodeLife, name: str) -> int:
    """Returns the level that the node has told in this life; 0 if it has told none."""
    told = image.keys.get(f"{_NODE_PREFIX}{life.node_id}/{name}")
    epoch, _, level = ("" if told is None else told.decode()).partition(":")
    return int(level) if epoch == str(life.node_epoch) else 0


def final_level(image: ImageView, name: str) -> int:
    """Returns the level that every node has; 0 if none is promised."""
    stored = image.keys.get(f"{_FINAL_PREFIX}{name}")
    return 0 if stored is None else int(stored.decode())


def key_of_final(name: str) -> str:
    return f"{_FINAL_PREFIX}{name}"


def every_node_has(image: ImageView, command: PromiseFeature) -> bool:
    """Whether all registered nodes have told that they have the level."""
    return all(
        level_of_node(image, node.life, command.name) >= command.level for node in image.nodes.values()
    )


def refuse_to_start(image: ImageView, features: Mapping[str, int]) -> None:
    """Raises FeatureIsFinal for a program that has only these levels. A feature that it has never heard of counts, too:
    it would not know what the others have written for it."""
    for key in image.keys:
        if not key.startswith(_FINAL_PREFIX):
            continue
        name = key.removeprefix(_FINAL_PREFIX)
        if (promised := final_level(image, name)) > (own := features.get(name, 0)):
            raise FeatureIsFinal(
                f"the nodes of this store have promised {name} {promised} to their clients, and this program has "
                f"{own}: start a version that has it"
            )
