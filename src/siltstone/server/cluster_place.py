"""Holds the place of a node among the others of its store: its beats, its lease, and its end.

A node takes its place right after it is registered, before the recovery of its log, which may last longer than a
session (N21). It beats until its engine is closed, since a node that is fenced cannot commit. After a clean end it
fences itself, so that the others take its partitions at once and need not wait until they suspect it. When all nodes
end together, no node takes them, and each leads the same partitions after the next start: see ``rest``.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from siltstone.cluster.balancing.balancer import Balancer
from siltstone.cluster.balancing.measuring import MEASURE_INTERVAL_MS, Counts, LoadMeter, PartitionKey
from siltstone.cluster.failovers import Failovers
from siltstone.cluster.membership import BoardCalls, Membership, wait_until_silent
from siltstone.cluster.node_secrets import NodeSecrets
from siltstone.cluster.placing import Placing
from siltstone.cluster.suspicion import OwnLease
from siltstone.metadata.commands import FenceNode
from siltstone.metadata.entities import NodeLife, NodeMetadata
from siltstone.metadata.leases.board import LeaseBoard, NodeLoad
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import Unavailable
from siltstone.model.limits import SECOND_MS
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock, boottime_ms
from siltstone.runtime.randomness import Random
from siltstone.runtime.tasks import ends_in_time
from siltstone.server.failing_over import NodeFailover
from siltstone.stream_engine.engine import StreamEngine

LEAVING_MS_MAX = 2 * SECOND_MS
"""How long a node that ends waits for the record of its end. Without the record the others notice the end after a
session."""

log = logging.getLogger(__name__)


class ClusterPlace:
    """The beats and the lease of this node. ``calls`` must have a thread that nothing else uses. ``lease_clock_ms`` is
    the clock of the lease: see ``OwnLease``."""

    def __init__(
        self,
        board: LeaseBoard,
        calls: BlockingCalls,
        metadata: MetadataService,
        clock: Clock,
        rng: Random,
        lease_clock_ms: Callable[[], float] = boottime_ms,
    ) -> None:
        self._board = board
        self._calls = calls
        self._board_calls = BoardCalls(board, calls, clock)
        self._metadata = metadata
        self._clock = clock
        self._rng = rng
        self._secrets: NodeSecrets | None = None
        self._lease = OwnLease(lease_clock_ms)
        self._life: NodeLife | None = None
        self._membership: Membership | None = None
        self._placing: Placing | None = None
        self._failovers: Failovers | None = None
        self._balancer: Balancer | None = None
        self._engine: StreamEngine | None = None
        self._loss: BaseException | None = None
        self._is_listed = False
        self._rests = False

    async def wait_until_free(self, node: NodeMetadata) -> None:
        """Returns when no process runs under the id of ``node``. Raises NodeIdInUse (N02)."""
        await wait_until_silent(self._board_calls, node, self._clock)

    async def take(self, node: NodeMetadata) -> None:
        """Begins to beat, in the life that is registered, and to watch the beats of the others."""
        self._is_listed = bool(node.listeners)
        self._life = NodeLife(node.node_id, node.node_epoch, node.incarnation)
        self._membership = Membership(
            self._board_calls, self._metadata, self._clock, self._lease, self._life, self._lost
        )
        if self._is_listed:
            self._secrets = NodeSecrets(self._board_calls, self._metadata, self._clock, self._rng, self._life)
            self._membership.exchange_secrets = self._secrets.exchange
        await self._membership.start()

    @property
    def secrets(self) -> NodeSecrets:
        """The secrets of the nodes, once this node has taken its place; only a node with listeners has them."""
        assert self._secrets is not None
        return self._secrets

    def begin(self, engine: StreamEngine, failover: NodeFailover) -> None:
        """Is called when the engine has started. From now on this node fails dead nodes over, places the partitions of
        nodes that are gone, and balances where that is switched on."""
        self._engine = engine
        if self._loss is not None:
            self._lost(self._loss)
        assert self._life is not None
        self._placing = Placing(self._metadata, self._clock, self._life)
        self._placing.start()
        self._failovers = Failovers(
            self._metadata, self._clock, self._life, failover.reaches, failover.carry_out
        )
        self._failovers.start()
        assert self._membership is not None
        self._balancer = Balancer(self._membership, self._metadata, self._clock, self._life)
        self._balancer.start()

    def measure(self, counts: Callable[[], Mapping[PartitionKey, Counts]]) -> None:
        """From now on puts the load of this node's partitions on the board. ``counts`` returns the bytes and requests
        of each partition since it was opened."""
        meter, asked_ms = LoadMeter(), float("-inf")

        def measured() -> NodeLoad | None:
            nonlocal asked_ms
            now_ms = self._clock.monotonic_ms()
            if now_ms - asked_ms < MEASURE_INTERVAL_MS:
                return None
            asked_ms = now_ms
            listed, others = meter.measured(now_ms, counts())
            assert self._life is not None
            written_ms = self._clock.now_ms() + self._metadata.clock_offset_ms
            return NodeLoad(self._life.node_id, self._life.node_epoch, written_ms, listed, others)

        assert self._membership is not None
        self._membership.measure = measured

    def _lost(self, loss: BaseException) -> None:
        """Stops the engine, because this node was fenced and may not resume: only a new start recovers it. A node
        without an engine is still recovering its log; its commits are refused, which ends the start."""
        self._loss = loss
        if self._engine is not None:
            self._engine.abandon(str(loss))

    async def rest(self) -> None:
        """Is called before the end when all nodes end together. From then on this node fences no node and takes no
        partitions, and its end is not recorded, so that no node takes its own. The lease is still renewed."""
        self._rests = True
        if self._membership is not None:
            self._membership.acts_for_others = False
        await self._stop_acting()

    async def _stop_acting(self) -> None:
        for loop in (self._balancer, self._failovers, self._placing):
            if loop is not None:
                await loop.close()

    def is_lease_held(self) -> bool:
        return self._lease.is_held

    async def leave(self) -> None:
        """Ends the beats, after the engine was closed. After a clean end a record in the metadata lets the others act
        at once."""
        await self._stop_acting()
        if self._membership is not None:
            await self._membership.close()
        has_ended_well = self._engine is not None and self._engine.is_clean and self._is_listed
        if has_ended_well and self._rests:
            assert self._membership is not None
            await self._membership.tell_end()
        elif has_ended_well:
            with suppress(Refusal, Unavailable):
                if not await ends_in_time(self._fence_itself(), self._clock, LEAVING_MS_MAX):
                    log.warning("the clean end could not be recorded; other nodes notice it after a session")
        with suppress(RuntimeError):  # the thread could not be started
            await ends_in_time(self._close_board(), self._clock, LEAVING_MS_MAX)

    async def _fence_itself(self) -> None:
        assert self._life is not None
        await self._metadata.execute(FenceNode(self._life.node_id, self._life.node_epoch))

    async def _close_board(self) -> None:
        await self._calls.run(self._board.close)
