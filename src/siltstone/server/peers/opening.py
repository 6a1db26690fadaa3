"""Puts together what a node needs for the other nodes: its listener for them, its logins of them, its calls to them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from siltstone.broker.request import Listener
from siltstone.broker.security.node_logins import NodeLogins
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.server.components import Node
from siltstone.server.network.certificates import Certificates
from siltstone.server.peers.listener import NodesListener, warn_of_plaintext
from siltstone.server.peers.peers import PeerConnections
from siltstone.server.settings.node import NodeSettings


class NodeNetwork(msgspec.Struct, frozen=True):
    """``told``: the listener by which the others reach this node now. ``peers`` asks them, ``logins`` lets them in."""

    told: Listener
    peers: PeerConnections
    logins: NodeLogins


@asynccontextmanager
async def reaching_other_nodes(
    node: Node,
    listeners: Sequence[Listener],
    settings: NodeSettings,
    certificates: Certificates,
    calls: BlockingCalls,
    clock: Clock,
    rng: Random,
) -> AsyncIterator[NodeNetwork]:
    """Ends all calls to other nodes when the block ends. Raises ListenerMissing."""
    node_id, metadata, secrets = node.engine.node_id, node.metadata, node.place.secrets
    reached = NodesListener(
        node_id, listeners, lambda: metadata.image, settings.named_listeners, certificates, calls
    )
    told = reached.told
    warn_of_plaintext(told, node_id, metadata.image)
    peers = PeerConnections(secrets, lambda: metadata.image, reached.address_of, clock, rng)
    logins = NodeLogins(secrets, lambda: metadata.image, reached.is_entrance, rng)
    stop_following = metadata.add_listener(peers.follow)
    try:
        yield NodeNetwork(told, peers, logins)
    finally:
        stop_following()
        await peers.close()
