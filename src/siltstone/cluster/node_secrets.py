"""The secrets of nodes, for the proofs between them: one of this node, and one of each other node.

A process makes a secret for its life and puts it on the lease board. Each second it reads the board, and puts its own
secret there again if it is gone: the board does not outlive a crash of its server. A secret that was read stays known
while its life is registered, so an empty board ends no connection.
"""

import asyncio
import logging

from siltstone.cluster.membership import BoardCalls
from siltstone.cluster.suspicion import BEAT_INTERVAL_MS
from siltstone.metadata.entities import NodeLife
from siltstone.metadata.leases.board import BoardUnavailable, NodeSecret
from siltstone.metadata.node_address import NODE_SECRETS_KEY
from siltstone.metadata.service import MetadataService
from siltstone.model.secret import Secret
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit
from siltstone.runtime.randomness import Random
from siltstone.runtime.tasks import ends_in_time

SECRET_BITS = 256
READ_AGAIN_MS_MAX = 2.5 * BEAT_INTERVAL_MS
"""Within this time the board is usually read once more, even if the read under way began too early."""

log = logging.getLogger(__name__)


class NodeSecrets:
    """``own``: the life of this process. ``Membership`` calls ``exchange`` in each of its rounds."""

    def __init__(
        self, board: BoardCalls, metadata: MetadataService, clock: Clock, rng: Random, own: NodeLife
    ) -> None:
        self.own = own
        self._rng = rng
        self._asked = metadata.image.keys.get(NODE_SECRETS_KEY)
        self.own_secret = self._made()
        self._board = board
        self._metadata = metadata
        self._clock = clock
        self._known: dict[NodeLife, Secret] = {}
        self._has_read = asyncio.Event()
        self._limit = LogLimit(clock)

    def _made(self) -> Secret:
        return Secret(f"{self._rng.getrandbits(SECRET_BITS):0{SECRET_BITS // 4}x}")

    def secret_of(self, life: NodeLife) -> Secret | None:
        return self._known.get(life)

    async def exchange(self) -> None:
        """Reads all secrets, and puts the own one on the board if it is not there; makes a new one first if the
        store has asked for that. A board that cannot be used is tried
        again in the next round."""
        if (asked := self._metadata.image.keys.get(NODE_SECRETS_KEY)) != self._asked:
            self._asked, self.own_secret = asked, self._made()
            log.info("node %d has a new secret, as siltstone nodes new-secrets asked for", self.own.node_id)
        try:
            rows = await self._board.secrets()
            if self._own_row not in rows:
                await self._board.put_secret(self._own_row)
        except BoardUnavailable as trouble:
            if self._limit.is_due("board"):
                log.warning(
                    "node %d cannot exchange secrets with the other nodes, which refuse its requests then: %s",
                    self.own.node_id, trouble,
                )  # fmt: skip
            return
        nodes = self._metadata.image.nodes
        read = {NodeLife(row.node_id, row.node_epoch, row.incarnation): row.secret for row in rows}
        kept = {
            life: secret
            for life, secret in self._known.items()
            if (node := nodes.get(life.node_id)) is not None and node.node_epoch <= life.node_epoch
        }
        self._known = kept | read  # the image may not know yet what is on the board
        self._has_read.set()
        self._has_read = asyncio.Event()

    async def read_again(self) -> None:
        """Returns when the board was read once more, or could not be read in time."""
        await ends_in_time(self._read(self._has_read), self._clock, READ_AGAIN_MS_MAX)

    async def _read(self, has_read: asyncio.Event) -> None:
        await has_read.wait()

    @property
    def _own_row(self) -> NodeSecret:
        return NodeSecret(self.own.node_id, self.own.node_epoch, self.own.incarnation, self.own_secret)
