"""By which listener the nodes of a store, and scans and sinks, reach this node; and where it reaches the others.

The metadata names one listener for all nodes (``siltstone nodes listener``). Where it names none, each node takes the
one of its own that needs least. A node follows the metadata while it runs.
"""

import logging
import ssl
from collections.abc import Callable, Mapping, Sequence

from siltstone.broker.peers import PeerUnreachable
from siltstone.broker.request import Listener
from siltstone.foundation.credentials import is_this_machine
from siltstone.metadata.entities import NodeMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.node_address import ListenerMissing, node_listener
from siltstone.model.acls import AuthorizationMode
from siltstone.runtime.blocking import BlockingCalls
from siltstone.server.network.certificates import Certificates
from siltstone.server.network.listener_settings import PLAIN, InvalidListenerSetting, ListenerSettings
from siltstone.server.network.tls import peer_context
from siltstone.server.peers.connection import PeerAddress

log = logging.getLogger(__name__)


def told_listener(node_id: int, listeners: Sequence[Listener], image: MetadataImage) -> Listener:
    """Returns the listener whose address nodes, scans and sinks use: the one that the store names, or else the first
    without a login and without TLS, or else the first. Raises ListenerMissing."""
    named = node_listener(image)
    for each in listeners:
        if each.name == named:
            return each
    if named is not None:
        raise ListenerMissing(
            f"node {node_id} has no listener {named}, by which the nodes of this store are reached: add it to "
            "listeners, or choose another for all nodes (siltstone nodes listener)"
        )
    return min(listeners, key=lambda each: (each.protocol.wants_login, each.protocol.is_encrypted))


def warn_of_plaintext(told: Listener, node_id: int, image: MetadataImage) -> None:
    """Says that a network could take over what nodes have proved, where rights would be worth nothing then."""
    others = any(each.is_live and each.node_id != node_id for each in image.nodes.values())
    has_rights = image.authorization.mode is not AuthorizationMode.OFF
    if others and has_rights and not told.protocol.is_encrypted and not is_this_machine(told.advertised_host):
        log.warning(
            "the nodes of this store reach each other by listener %s without TLS, so a network that changes what it "
            "carries can act as a node: choose a listener with TLS (siltstone nodes listener NAME)", told.name,
        )  # fmt: skip


class NodesListener:
    """The listener of the nodes, by the newest image. ``calls`` reads certificates."""

    def __init__(
        self,
        node_id: int,
        listeners: Sequence[Listener],
        image: Callable[[], MetadataImage],
        settings_of: Mapping[str, ListenerSettings],
        certificates: Certificates,
        calls: BlockingCalls,
    ) -> None:
        self._node_id = node_id
        self._listeners = tuple(listeners)
        self._image = image
        self._settings_of = settings_of
        self._certificates = certificates
        self._calls = calls
        self._contexts: dict[str, tuple[bytes, ssl.SSLContext]] = {}

    @property
    def told(self) -> Listener:
        """Raises ListenerMissing."""
        return told_listener(self._node_id, self._listeners, self._image())

    def is_entrance(self, listener: Listener) -> bool:
        """Whether other nodes come by this listener."""
        try:
            return listener.name == self.told.name
        except ListenerMissing:
            return False

    async def address_of(self, node: NodeMetadata) -> PeerAddress:
        """Returns where another node is reached. Raises PeerUnreachable."""
        try:
            told = self.told
        except ListenerMissing as missing:
            raise PeerUnreachable(node.node_id, str(missing)) from missing
        found = next((each for each in node.listeners if each.name == told.name), None)
        if found is None:
            raise PeerUnreachable(
                node.node_id, f"it has no listener {told.name}, by which the nodes reach each other"
            )
        if not told.protocol.is_encrypted:
            return PeerAddress(found.host, found.port)
        try:
            return PeerAddress(found.host, found.port, await self._context(told.name))
        except InvalidListenerSetting as refusal:
            raise PeerUnreachable(node.node_id, str(refusal)) from refusal

    async def _context(self, name: str) -> ssl.SSLContext:
        """Returns the context for calls, which is made again when the files have changed. Raises
        InvalidListenerSetting."""
        serving = self._certificates.of(name)
        assert serving is not None
        known = self._contexts.get(name)
        if known is None or known[0] != serving.fingerprint:
            made = await self._calls.run(peer_context, name, self._settings_of.get(name, PLAIN))
            known = self._contexts[name] = (serving.fingerprint, made)
        return known[1]
