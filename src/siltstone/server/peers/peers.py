"""Keeps a proved connection to each node that was asked something, and asks: the broker's ``Peers``.

A connection is opened at the first request, and belongs to the life of the other node: it ends with the image that ends
the life. One on which nothing comes back in the time of a request is closed: the way may be cut, which no packet says.
An address is that of the listener by which the nodes of the store reach each other, by its name.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

import msgspec

from siltstone.broker.peers import PEER_TIME_LIMIT_MS, M, PeerUnreachable
from siltstone.broker.security.node_logins import is_live
from siltstone.broker.security.sasl.node import NONCE_BYTES
from siltstone.cluster.node_secrets import NodeSecrets
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.entities import NodeLife, NodeMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit
from siltstone.runtime.randomness import Random
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.peers.connection import OPENING_MS_MAX, PeerAddress, PeerConnection, in_time, open_peer

AGAIN_AFTER_MS = 250
"""A node that could not be reached is not called again before. Many requests wait for a node that is gone, and each
would connect to it."""

log = logging.getLogger(__name__)


class _Failed(msgspec.Struct, frozen=True):
    at_ms: float
    reason: str


class PeerConnections:
    """``image`` returns the newest image; ``address_of`` returns where a node is reached, and raises PeerUnreachable.
    The proofs are by the secrets of ``secrets``."""

    def __init__(
        self,
        secrets: NodeSecrets,
        image: Callable[[], MetadataImage],
        address_of: Callable[[NodeMetadata], Awaitable[PeerAddress]],
        clock: Clock,
        rng: Random,
    ) -> None:
        self._secrets = secrets
        self._image = image
        self._address_of = address_of
        self._clock = clock
        self._rng = rng
        self._tasks = TaskGroup("peers", lambda _: None)
        self._opening: dict[NodeLife, asyncio.Task[None]] = {}
        self._open: dict[NodeLife, PeerConnection] = {}
        self._failed: dict[NodeLife, _Failed] = {}
        self._limit = LogLimit(clock)

    async def ask(
        self, node_id: int, request: Message, answer: type[M], time_limit_ms: float = PEER_TIME_LIMIT_MS
    ) -> M:
        """See Peers. Raises PeerUnreachable."""
        connection = self._connection_to(node_id)
        answered = 0 if connection is None else connection.answered_count
        try:
            return await in_time(self._ask(node_id, request, answer), self._clock, time_limit_ms, node_id)
        except PeerUnreachable as trouble:
            if connection is not None and connection.is_open and connection.answered_count == answered:
                connection.close(trouble.reason)
                self._note_failure(self._image().nodes[node_id].life, trouble)
            raise

    def _connection_to(self, node_id: int) -> PeerConnection | None:
        node = self._image().nodes.get(node_id)
        return None if node is None else self._open.get(node.life)

    def unreachable(self) -> Collection[int]:
        """See Peers."""
        return sorted(life.node_id for life in self._failed)

    async def try_again(self) -> None:
        """Tries to reach the nodes that could not be reached, whether they are needed now or not."""
        for life in list(self._failed):
            node = self._image().nodes.get(life.node_id)
            if node is not None and node.is_live and node.life == life:
                with suppress(PeerUnreachable):
                    await self._opened(node)

    async def _ask(self, node_id: int, request: Message, answer: type[M]) -> M:
        node = self._image().nodes.get(node_id)
        if node is None or not node.is_live:
            raise PeerUnreachable(node_id, "it is not live")
        connection = self._open.get(node.life)
        if connection is None or not connection.is_open:
            connection = await self._opened(node)
        return await connection.ask(request, answer)

    async def _opened(self, node: NodeMetadata) -> PeerConnection:
        """Returns a connection to the node; all that wait for it share one attempt. Raises PeerUnreachable."""
        life = node.life
        failed = self._failed.get(life)
        if failed is not None and self._clock.monotonic_ms() - failed.at_ms < AGAIN_AFTER_MS:
            raise PeerUnreachable(life.node_id, failed.reason)
        if (opening := self._opening.get(life)) is None:
            opening = self._opening[life] = self._tasks.start(
                f"open node {life.node_id}", self._connect(node)
            )
        await asyncio.wait((opening,))
        connection = self._open.get(life)
        if connection is None or not connection.is_open:
            failed = self._failed.get(life)
            raise PeerUnreachable(
                life.node_id, "the connection was closed" if failed is None else failed.reason
            )
        return connection

    async def _connect(self, node: NodeMetadata) -> None:
        life = node.life
        try:
            connection = await in_time(self._prove(node), self._clock, OPENING_MS_MAX, life.node_id)
        except PeerUnreachable as trouble:
            self._note_failure(life, trouble)
        else:
            self._failed.pop(life, None)
            self._open[life] = connection
            if not is_live(self._image(), life):
                connection.close("the life of the node has ended")
        finally:
            del self._opening[life]

    def _note_failure(self, life: NodeLife, trouble: PeerUnreachable) -> None:
        self._failed[life] = _Failed(self._clock.monotonic_ms(), trouble.reason)
        if self._limit.is_due(life.node_id):
            log.warning("%s. This is logged once a minute for each node", trouble)

    async def _prove(self, node: NodeMetadata) -> PeerConnection:
        nonce = self._rng.getrandbits(8 * NONCE_BYTES).to_bytes(NONCE_BYTES, "big")
        return await open_peer(
            await self._address_of(node),
            self._secrets.own,
            self._secrets.own_secret,
            node.life,
            nonce,
            self._tasks,
        )

    def follow(self, image: MetadataImage) -> None:
        """Closes the connections to lives that the image has ended."""
        for life in [life for life in self._open if not is_live(image, life)]:
            self._open.pop(life).close("the life of the node has ended")
        for life in [life for life in self._failed if not is_live(image, life)]:
            del self._failed[life]

    async def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        await self._tasks.cancel()
