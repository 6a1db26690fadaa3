"""Records closed segments in the metadata: after the appends, in order, with segments of many partitions in one
command.

The producers' last sequences in a segment are stored in a snapshot first, as Kafka does when it rolls: retention
deletes closed segments whole, and after a crash only the snapshot has those sequences.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice

from siltstone.broker.partitions.partition import Partition
from siltstone.metadata.commands import RollSegments
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import Fenced, SiltstoneError, Unavailable
from siltstone.model.limits import SEGMENT_CHECK_INTERVAL_MS, SEGMENTS_PER_COMMAND_MAX
from siltstone.model.segments import ClosedSegment
from siltstone.runtime.clock import Clock
from siltstone.runtime.turns import side_by_side

log = logging.getLogger(__name__)


class SegmentRolls:
    """``node_id`` and ``node_epoch`` fence the commands."""

    def __init__(self, metadata: MetadataService, clock: Clock, *, node_id: int, node_epoch: int) -> None:
        self._metadata = metadata
        self._clock = clock
        self._node_id = node_id
        self._node_epoch = node_epoch
        self._due: dict[Partition, None] = {}
        self._arrived = asyncio.Event()

    def due(self, partition: Partition) -> None:
        """Requests that the closed segments of ``partition`` are recorded."""
        self._due[partition] = None
        self._arrived.set()

    async def write(self) -> None:
        """Records due segments, for ever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._due:
                if not await self._write_some():
                    await self._clock.sleep_ms(SEGMENT_CHECK_INTERVAL_MS)

    async def _write_some(self) -> bool:
        """Executes one command, with the oldest segment of each partition. Returns False when it has to be tried again
        later."""
        some = list(islice(self._due, SEGMENTS_PER_COMMAND_MAX))
        for partition in some:
            self._follow(partition)
        written_down = [each for each in await side_by_side(_written_down, some) if each is not None]
        if not written_down:
            self._forget_finished(some)
            return not self._due
        try:
            await self._metadata.execute(
                RollSegments(
                    tuple((partition.stream_id, segment) for partition, segment in written_down),
                    node_id=self._node_id,
                    node_epoch=self._node_epoch,
                )
            )
        except Unavailable as trouble:  # NodeSuspended too, which is a refusal: the node resumes
            return _postponed(trouble)
        except Refusal as refusal:
            self._refused(written_down, refusal)
            return True
        except SiltstoneError as trouble:
            return _postponed(trouble)
        for partition, segment in written_down:
            partition.segments.follow(segment.end_offset)
        self._forget_finished(some)
        return len(written_down) == len(some)

    def _follow(self, partition: Partition) -> None:
        """Drops the segments that maintenance has closed or trimmed in the meantime."""
        stream = self._metadata.image.streams.get(partition.stream_id)
        if stream is not None:
            partition.segments.follow(stream.active_offset)

    def _forget_finished(self, some: Sequence[Partition]) -> None:
        for partition in some:
            if partition.is_closed or not partition.segments.unwritten:
                self._due.pop(partition, None)

    def _refused(self, written_down: Sequence[tuple[Partition, ClosedSegment]], refusal: Refusal) -> None:
        """Drops the segments: this node is fenced or the command is wrong, so a retry would be refused, too."""
        if not isinstance(refusal, Fenced):
            log.error("closed segments are not recorded in the metadata, and not retried: %s", refusal)
        for partition, segment in written_down:
            partition.segments.follow(segment.end_offset)
        self._due.clear()


def _postponed(trouble: SiltstoneError) -> bool:
    log.warning("closed segments were not recorded in the metadata, which will be retried: %s", trouble)
    return False


async def _written_down(partition: Partition) -> tuple[Partition, ClosedSegment] | None:
    """Returns the oldest unrecorded segment of the partition, when a snapshot has its producers' sequences; None if
    there is no segment, or the snapshot cannot be written now."""
    if partition.is_closed or not partition.segments.unwritten:
        return None
    segment = partition.segments.unwritten[0]
    try:
        await partition.write_down_producers(segment.end_offset)
    except SiltstoneError as trouble:
        log.warning(
            "a closed segment of stream %d is not recorded yet, because no snapshot was written: %s",
            partition.stream_id,
            trouble,
        )
        return None
    return partition, segment
