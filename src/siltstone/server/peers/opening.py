"""Puts together what a node needs for the other nodes: its listener for them, its logins of them, its calls to them."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from siltstone.broker.request import Listener
from siltstone.broker.security.node_logins import NodeLogins
from siltstone.cluster.node_secrets import NodeSecrets
from siltstone.metadata.service import MetadataService
from siltstone.metadata.unreachable_nodes import put_unreachable, told_unreachable
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import MINUTE_MS
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.components import Node
from siltstone.server.network.certificates import Certificates
from siltstone.server.peers.listener import NodesListener, warn_of_plaintext
from siltstone.server.peers.peers import PeerConnections
from siltstone.server.settings.node import NodeSettings

TELL_INTERVAL_MS = MINUTE_MS

log = logging.getLogger(__name__)


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
    telling = TaskGroup("telling", lambda _: None)
    telling.start("unreachable nodes", tell_for_ever(peers, secrets, metadata, clock))
    try:
        yield NodeNetwork(told, peers, logins)
    finally:
        stop_following()
        await telling.cancel()
        await peers.close()


async def tell_for_ever(
    peers: PeerConnections, secrets: NodeSecrets, metadata: MetadataService, clock: Clock
) -> None:
    """Writes to the metadata which other nodes this one cannot reach, so that ``siltstone nodes`` shows a network that
    is cut between two nodes: both reach the metadata, and clients reach both. Each minute they are tried again."""
    while True:
        await clock.sleep_ms(TELL_INTERVAL_MS)
        await peers.try_again()
        await _tell(peers, secrets, metadata)


async def _tell(peers: PeerConnections, secrets: NodeSecrets, metadata: MetadataService) -> None:
    found, life = tuple(peers.unreachable()), secrets.own
    if found == told_unreachable(metadata.image, life):
        return
    try:
        await metadata.execute(put_unreachable(life, found))
    except SiltstoneError as trouble:  # it is written a minute later
        log.warning("that nodes %s cannot be reached was not written: %s", found, trouble)
