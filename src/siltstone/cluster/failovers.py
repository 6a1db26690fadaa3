"""The loop of a node that looks for dead nodes whose write-ahead log it can reach, and fails them over.

Every node looks at the image a few times a second. A node *waits for its failover* when it is not live, left streams
open, and no live node has the claim. The live node with the n-th lowest id tries after n times TURN_MS, as with fences
(``membership``). If two try at once, ClaimFailover refuses one of them, which is no error. A claimer that dies is
fenced like every node, which makes its claim void: the others see the same node waiting again.

This module does not know how a log is failed over: the server passes ``fail_over`` (``server.failing_over``).
"""

import logging
from collections.abc import Awaitable, Callable

from siltstone.cluster.membership import TURN_MS
from siltstone.cluster.suspicion import turn_of
from siltstone.metadata.commands import ClaimFailover
from siltstone.metadata.decisions.membership import claimer_of
from siltstone.metadata.entities import NodeLife, NodeMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import FailoverUnderWay, NodeInUse
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.port import AppendUncertain, LogUnavailable
from siltstone.model.errors import Fenced, SiltstoneError
from siltstone.model.limits import MINUTE_MS
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

FAILOVER_LOOK_INTERVAL_MS = 100
IDLE_LOOK_INTERVAL_MS = 1_000
"""While every node lives, there is a look after each change of the metadata, but not more often than the shorter time,
in which a fenced node may be back."""

LOOK_AGAIN_MS = 1_000
"""After another node was faster, or the metadata log did not answer."""

LEFT_ALONE_MS = MINUTE_MS
"""How long a node leaves a dead one alone whose log it could not replay, so that another node tries."""

QUIET = (FailoverUnderWay, NodeInUse, Fenced, LogUnavailable, AppendUncertain)
"""Another node does it, the dead one is back or only stopped, this node was fenced itself, or the metadata log is
out."""

log = logging.getLogger(__name__)


def has_open_streams(image: MetadataImage, node_id: int) -> bool:
    """Returns whether only the node's log may have the newest records of some stream. It looks at every stream."""
    return any(
        stream.owner == node_id and stream.state is StreamState.OPENED for stream in image.streams.values()
    )


class Failovers:
    """The loop of one node, in the life ``life``. ``reaches`` says whether this process can open the log of a node;
    ``fail_over`` claims, replays and places, and gives the claim back however it ends."""

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        life: NodeLife,
        reaches: Callable[[NodeMetadata], bool],
        fail_over: Callable[[NodeMetadata], Awaitable[object]],
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._life = life
        self._reaches = reaches
        self._fail_over = fail_over
        self._tasks = TaskGroup("failovers", lambda _: None)
        self._since_ms: dict[tuple[int, int], float] = {}
        self._without_streams: dict[int, NodeMetadata] = {}
        self._left_alone_until_ms: dict[int, float] = {}

    def start(self) -> None:
        self._tasks.start("looks", self._looks())

    async def close(self) -> None:
        """A failover under way ends where it is; another node finishes it when this one is fenced."""
        await self._tasks.cancel()

    async def _looks(self) -> None:
        seen = 0
        while True:
            if not self._since_ms:  # only a change of the metadata gives something to do
                await self._metadata.newer_than(seen, IDLE_LOOK_INTERVAL_MS)
            await self._clock.sleep_ms(FAILOVER_LOOK_INTERVAL_MS)
            image = self._metadata.image
            seen = image.version
            own = image.nodes.get(self._life.node_id)
            if own is None or not own.is_live or own.node_epoch != self._life.node_epoch:
                self._since_ms.clear()
            elif (dead := self._due(image)) is not None:
                await self._attempt(dead)

    def _due(self, image: MetadataImage) -> NodeMetadata | None:
        """Returns the node whose failover this one is to try now."""
        now_ms = self._clock.monotonic_ms()
        waiting = [image.nodes[node_id] for node_id in sorted(image.nodes) if self._waits(image, node_id)]
        lives = [(node.node_id, node.node_epoch) for node in waiting]
        self._since_ms = {life: self._since_ms.get(life, now_ms) for life in lives}
        if not waiting:
            return None
        turn_ms = turn_of(self._life.node_id, image, ()) * TURN_MS
        for node, life in zip(waiting, lives, strict=True):
            is_left_alone = now_ms < self._left_alone_until_ms.get(node.node_id, now_ms)
            if now_ms - self._since_ms[life] >= turn_ms and not is_left_alone:
                return node
        return None

    def _waits(self, image: MetadataImage, node_id: int) -> bool:
        node = image.nodes[node_id]
        if node.is_live or node_id == self._life.node_id:
            return False
        claimer = claimer_of(image, node)
        if claimer is not None:
            return claimer.node_id == self._life.node_id  # the answer to the claim, or to its end, was lost
        return self._reaches(node) and self._has_open_streams(image, node)

    def _has_open_streams(self, image: MetadataImage, node: NodeMetadata) -> bool:
        """A node that is not live opens no streams, so they are searched until none is open. The node's entry in the
        image tells whether that still holds: it is another object after a resumption, also in the same life."""
        if self._without_streams.get(node.node_id) is node:
            return False
        if has_open_streams(image, node.node_id):
            return True
        self._without_streams[node.node_id] = node
        return False

    async def _attempt(self, node: NodeMetadata) -> None:
        wait_ms = LOOK_AGAIN_MS
        try:
            if self._has_open_streams(self._metadata.image, node):
                await self._fail_over_or_give_back(node)
            else:
                await self._give_back(node)
        except QUIET as refusal:
            log.info("node %d is not failed over by this node now: %s", node.node_id, refusal)
        except SiltstoneError as trouble:
            wait_ms = LEFT_ALONE_MS
            log.error(
                "node %d could not be failed over, and its partitions wait: %s. This node tries again in a minute, "
                "another one at once",
                node.node_id, trouble,
            )  # fmt: skip
        except Exception:  # a bug: the claim was withdrawn, and without this loop no node would try again
            wait_ms = LEFT_ALONE_MS
            log.exception("node %d could not be failed over, and its partitions wait", node.node_id)
        self._left_alone_until_ms[node.node_id] = self._clock.monotonic_ms() + wait_ms

    async def _fail_over_or_give_back(self, node: NodeMetadata) -> None:
        """When a process holds the log, this node keeps no claim whose recording it did not notice: the process may be
        the node itself, which waits for the claim's end."""
        try:
            await self._fail_over(node)
        except NodeInUse:
            claimer = claimer_of(self._metadata.image, node)
            if claimer is not None and claimer.node_id == self._life.node_id:
                await self._give_back(node)
            raise

    async def _give_back(self, node: NodeMetadata) -> None:
        """Nothing is left to replay: only the end of the claim was not recorded."""
        life = self._life
        await self._metadata.execute(
            ClaimFailover(life.node_id, life.node_epoch, node.node_id, gives_back=True)
        )
