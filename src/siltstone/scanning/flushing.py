"""Asks the owners of open partitions to upload the records that they have acknowledged, and waits until these are
committed. Then the objects hold every record that was acknowledged before the call, and no tail has to be fetched from
a broker.

The request is a key of the metadata (``metadata.flushes``), which the owner follows; no connection to a broker is made.

An erasure and a backup ask all nodes: one that owned a partition before may have the partition's records in its log.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from siltstone.metadata.entities import StreamState
from siltstone.metadata.flushes import AskFlush, flushes_of, may_log_hold_records
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.model.limits import SECOND_MS
from siltstone.offline.context import MaintenanceContext, check_metadata_is_newest
from siltstone.scanning.failures import NodeNotFlushed, TailNotReadable
from siltstone.scanning.planning import ScanPartition

log = logging.getLogger(__name__)

FLUSH_MS_MAX = 30 * SECOND_MS
"""How long a scan waits for an owner. A node uploads 100 MiB in seconds; one that was killed never answers."""

FLUSH_LOOK_INTERVAL_MS = 50


def flush_tails(source: MaintenanceContext, partitions: Sequence[ScanPartition]) -> MetadataImage:
    """Waits until every record that was acknowledged in the partitions is committed, and returns the image that shows
    it. Closed partitions need no wait. Raises TailNotReadable, and what the metadata raises."""
    by_node: dict[int, list[ScanPartition]] = {}
    for each in partitions:
        if each.stream.state is StreamState.OPENED:
            by_node.setdefault(each.stream.owner, []).append(each)
    if not by_node:
        return source.metadata.image
    check_metadata_is_newest(source)
    numbers = {node_id: _ask(source, node_id, theirs) for node_id, theirs in by_node.items()}

    def is_done(image: MetadataImage, node_id: int) -> bool:
        return _is_done(image, node_id, numbers[node_id], by_node[node_id])

    image, late = _waited(source, numbers, is_done)
    if late is not None:
        raise TailNotReadable([each.name for each in by_node[late]], late, _too_late())
    return image


def flush_nodes(source: MaintenanceContext, check: Callable[[], None] = lambda: None) -> None:
    """Waits until all nodes have uploaded what they have acknowledged and, while an erasure is pending, have dropped
    what they keep of it. Nodes whose logs are empty are not asked. ``check`` is called again and again, and may raise.
    Raises NodeNotFlushed, and what the metadata raises."""
    check_metadata_is_newest(source)
    image = source.metadata.refresh()
    numbers: dict[int, int] = {}
    for node_id, node in sorted(image.nodes.items()):
        if may_log_hold_records(image, node):
            try:
                numbers[node_id] = source.metadata.execute(AskFlush(node_id))
            except Refusal as refusal:
                raise NodeNotFlushed(
                    node_id, node.wal_location, f"it cannot be asked: {refusal}"
                ) from refusal

    def has_answered(image: MetadataImage, node_id: int) -> bool:
        return _has_answered(image, node_id, numbers[node_id])

    image, late = _waited(source, numbers, has_answered, check)
    if late is not None:
        raise NodeNotFlushed(late, image.nodes[late].wal_location, _too_late())


def _waited(
    source: MaintenanceContext,
    node_ids: Iterable[int],
    is_done: Callable[[MetadataImage, int], bool],
    check: Callable[[], None] = lambda: None,
) -> tuple[MetadataImage, int | None]:
    """Waits until all of the nodes are done, for FLUSH_MS_MAX at most. Returns the newest image, and a node that was
    not done in time."""
    limit_ms = source.clock.monotonic_ms() + FLUSH_MS_MAX
    while True:
        check()
        image = source.metadata.refresh()
        late = next((each for each in node_ids if not is_done(image, each)), None)
        if late is None or source.clock.monotonic_ms() >= limit_ms:
            return image, late
        source.clock.block_ms(FLUSH_LOOK_INTERVAL_MS)


def _too_late() -> str:
    return f"it has not uploaded them within {FLUSH_MS_MAX // SECOND_MS} s"


def _has_answered(image: MetadataImage, node_id: int, number: int) -> bool:
    node = image.nodes.get(node_id)
    return (
        node is None or flushes_of(image, node_id).answered >= number or not may_log_hold_records(image, node)
    )


def _ask(source: MaintenanceContext, node_id: int, theirs: Sequence[ScanPartition]) -> int:
    try:
        return source.metadata.execute(AskFlush(node_id))
    except Refusal as refusal:
        raise TailNotReadable(
            [each.name for each in theirs], node_id, f"it cannot be asked: {refusal}"
        ) from refusal


def _is_done(image: MetadataImage, node_id: int, number: int, theirs: Sequence[ScanPartition]) -> bool:
    """Returns whether the owner has uploaded the tail. A stream that was closed, or that another node has opened since,
    was committed to its end before that."""
    if flushes_of(image, node_id).answered >= number:
        return True
    streams = (image.streams.get(each.stream.stream_id) for each in theirs)
    return not any(
        stream is not None
        and (stream.state, stream.owner) == (StreamState.OPENED, node_id)
        and stream.epoch == epoch
        for stream, epoch in zip(streams, (each.stream.epoch for each in theirs), strict=True)
    )
