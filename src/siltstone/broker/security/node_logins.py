"""Logins of other nodes, for the authenticator: who may claim to be a node, and whether the claim is true.

A node is taken at the listener by which the nodes of the store reach each other, and nowhere else. Its session belongs
to a life: the image that ends the life ends the session, too.
"""

from collections.abc import Callable
from typing import Protocol

from siltstone.broker.request import ConnectionContext, Listener
from siltstone.broker.security.sasl.node import NONCE_BYTES, NodeExchange
from siltstone.metadata.entities import NodeLife
from siltstone.metadata.image import MetadataImage
from siltstone.model.secret import Secret
from siltstone.runtime.randomness import Random


class KnownSecrets(Protocol):
    """The secrets of nodes, as this node has read them from the lease board: ``cluster.node_secrets``."""

    @property
    def own(self) -> NodeLife:
        """The life of this node."""
        ...

    def secret_of(self, life: NodeLife) -> Secret | None: ...

    async def read_again(self) -> None:
        """Returns when the board was read once more, or could not be read in time."""
        ...


class NodeLogins:
    """``is_entrance``: whether the nodes reach this one by the listener."""

    def __init__(
        self,
        secrets: KnownSecrets,
        image: Callable[[], MetadataImage],
        is_entrance: Callable[[Listener], bool],
        rng: Random,
    ) -> None:
        self._secrets = secrets
        self._image = image
        self._is_entrance = is_entrance
        self._rng = rng

    def takes(self, connection: ConnectionContext) -> bool:
        """Whether a connection may become one of a node: nobody has logged in on it."""
        return connection.session.mechanism is None and self._is_entrance(connection.listener)

    def exchange(self, connection: ConnectionContext) -> NodeExchange:
        challenge = self._rng.getrandbits(8 * NONCE_BYTES).to_bytes(NONCE_BYTES, "big")
        return NodeExchange(self._secrets.own, self._secret_of_live, challenge, connection.channel)

    def _secret_of_live(self, life: NodeLife) -> Secret | None:
        return self._secrets.secret_of(life) if is_live(self._image(), life) else None

    def is_to_be_learned(self, life: NodeLife) -> bool:
        """Whether the secret of a life is not known yet, and the life may be a new one, which the image need not
        know either."""
        if self._secrets.secret_of(life) is not None:
            return False
        node = self._image().nodes.get(life.node_id)
        return node is None or node.node_epoch < life.node_epoch or (node.is_live and node.life == life)

    async def learn(self) -> None:
        await self._secrets.read_again()


def is_live(image: MetadataImage, life: NodeLife) -> bool:
    """Returns whether the metadata knows the life as one that serves."""
    node = image.nodes.get(life.node_id)
    return node is not None and node.is_live and node.life == life
