"""Gives the partitions of nodes that are gone, and of nodes that are drained, to other nodes.

Every node looks at the image a few times a second; the live node with the n-th lowest id acts after n times TURN_MS, as
with fences (``membership``). Both commands are idempotent, so it does no harm when two nodes act.

- A node is *gone* when it is fenced or forgotten. Its partitions are placed as soon as their streams are closed: at
  once after a clean end, and after the recovery of its log otherwise. Those that were never opened are placed, too.
- A node is *drained* on request, or while it stops. Its partitions get targets; it hands them over itself.
"""

import logging
from collections.abc import Iterable, Iterator

from siltstone.cluster.membership import TURN_MS
from siltstone.cluster.suspicion import turn_of
from siltstone.foundation.quantity_words import counted
from siltstone.metadata.commands import MovePartitions, PlacePartitions
from siltstone.metadata.decisions.placement import Placement
from siltstone.metadata.entities import NO_NODE, NodeLife, PartitionMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import Unavailable
from siltstone.model.limits import PARTITIONS_PER_COMMAND_MAX
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

PLACING_INTERVAL_MS = 100
IDLE_LOOK_INTERVAL_MS = 1_000
"""While no node is gone or drained, there is a look after each change of the metadata, but not more often than the
shorter time."""

LOOK_AGAIN_MS = 1_000
"""A node that was killed may be gone for hours, with partitions that cannot be placed: then the topics are searched no
more often than this."""

log = logging.getLogger(__name__)

PartitionKey = tuple[str, int]


def needs_placing(image: MetadataImage) -> bool:
    """Returns whether a node that is gone or drained still leads partitions."""
    for node_id in image.leader_counts:
        node = image.nodes.get(node_id)
        if node is None or not node.is_live or node.is_draining:
            return True
    return False


def placeable_partitions(image: MetadataImage) -> list[PartitionKey]:
    """Returns the partitions of nodes that are gone, as far as their streams are closed; at most one command's
    worth."""
    return _first(
        (topic_id, index)
        for topic_id, index, partition in _partitions(image)
        if (leader := image.nodes.get(partition.leader)) is None or not leader.is_live
        if partition.leader != NO_NODE and _is_closed(image, partition)
    )


def drain_targets(image: MetadataImage, observer_id: int) -> tuple[tuple[str, int, int], ...]:
    """Returns the targets of partitions whose leaders are drained and that have no fit target yet; at most one
    command's worth. None when no node can take them."""
    observer = image.nodes.get(observer_id)
    fit = [node for node in image.nodes.values() if node.is_live and not node.is_draining and node.listeners]
    if observer is None or not fit:
        return ()
    placement = Placement(image, observer)
    leaving = _first(
        (topic_id, index)
        for topic_id, index, partition in _partitions(image)
        if (leader := image.nodes.get(partition.leader)) is not None and leader.is_live and leader.is_draining
        if not _has_fit_target(image, partition)
    )
    return tuple((topic_id, index, placement.leader(topic_id, index)) for topic_id, index in leaving)


def _partitions(image: MetadataImage) -> Iterator[tuple[str, int, PartitionMetadata]]:
    for topic_id, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            yield topic_id, index, partition


def _first(found: Iterable[PartitionKey]) -> list[PartitionKey]:
    return [key for _, key in zip(range(PARTITIONS_PER_COMMAND_MAX), found, strict=False)]


def _is_closed(image: MetadataImage, partition: PartitionMetadata) -> bool:
    return all(
        stream is not None and stream.state is not StreamState.OPENED
        for stream in map(image.streams.get, (partition.data_stream_id, partition.meta_stream_id))
    )


def _has_fit_target(image: MetadataImage, partition: PartitionMetadata) -> bool:
    target = image.nodes.get(partition.target)
    return target is not None and target.is_live and not target.is_draining


class Placing:
    """The loop of one node, in the life ``life``."""

    def __init__(self, metadata: MetadataService, clock: Clock, life: NodeLife) -> None:
        self._metadata = metadata
        self._clock = clock
        self._life = life
        self._tasks = TaskGroup("placing", lambda _: None)
        self._since_ms: float | None = None

    def start(self) -> None:
        self._tasks.start("looks", self._looks())

    async def close(self) -> None:
        await self._tasks.cancel()

    async def _looks(self) -> None:
        seen = 0
        while True:
            if self._since_ms is None:  # only a change of the metadata gives something to do
                await self._metadata.newer_than(seen, IDLE_LOOK_INTERVAL_MS)
            await self._clock.sleep_ms(PLACING_INTERVAL_MS)
            seen = self._metadata.image.version
            if await self._look():
                await self._clock.sleep_ms(LOOK_AGAIN_MS)

    async def _look(self) -> bool:
        """Returns whether partitions are left that cannot be placed now."""
        image, now_ms = self._metadata.image, self._clock.monotonic_ms()
        own = image.nodes.get(self._life.node_id)
        if (
            own is None
            or not own.is_live
            or own.node_epoch != self._life.node_epoch
            or not needs_placing(image)
        ):
            self._since_ms = None
            return False
        if self._since_ms is None:
            self._since_ms = now_ms
        if now_ms - self._since_ms < turn_of(self._life.node_id, image, ()) * TURN_MS:
            return False
        try:
            return not await self._place(image)
        except (Refusal, Unavailable) as trouble:
            log.info("partitions of nodes that are gone could not be placed yet: %s", trouble)
            return True

    async def _place(self, image: MetadataImage) -> bool:
        """Returns whether there was something to do. Raises Refusal, Unavailable."""
        placeable = placeable_partitions(image)
        if placeable:
            await self._metadata.execute(
                PlacePartitions(self._life.node_id, self._life.node_epoch, tuple(placeable))
            )
            log.warning(
                "%s of nodes that are gone were given to live nodes", counted(len(placeable), "partition")
            )
        targets = drain_targets(image, self._life.node_id)
        if targets:
            await self._metadata.execute(MovePartitions(targets))
        return bool(placeable or targets)
