"""Collects the batches of a fetch from its partitions, within the byte limits.

Partitions are read in the client's order. The first batch that is found is returned whole even if it is larger than
every limit (KIP-74), so that a consumer always makes progress; others are returned only if they fit. Batches in the
tail cache are taken at once, without a task. Batches in objects are read for several partitions at the same time, and
dropped again where earlier partitions have reached the limit.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from siltstone.broker.error_codes import error_code
from siltstone.broker.fetching.damaged_reads import DamagedReads
from siltstone.broker.fetching.wanted import FoundPartition, WantedPartition, check_partition, opening_error
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import PartitionGone, Partitions
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import FETCH_READS_SIDE_BY_SIDE
from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.errors import OffsetBeyondEnds

Opened: TypeAlias = Partition | ErrorCode
Batches: TypeAlias = Sequence[RecordBatch]


class Gathering:
    """One pass over all partitions of a fetch."""

    def __init__(self, partitions: Partitions, reads: DamagedReads, bytes_max: int) -> None:
        self._partitions = partitions
        self._reads = reads
        self._bytes_left = bytes_max
        self._has_data = False

    async def gather(self, wanted: Sequence[WantedPartition]) -> list[FoundPartition]:
        """Returns a row for each partition, in their order."""
        opened = await self._opened(wanted)
        found: list[FoundPartition] = []
        while (position := len(found)) < len(wanted):
            row = self._found_at_once(wanted[position], opened[position])
            if row is not None:
                found.append(row)
                continue
            group = slice(position, position + FETCH_READS_SIDE_BY_SIDE)
            found += await self._read_side_by_side(wanted[group], opened[group])
        return found

    # -- opening -----------------------------------------------------------------------------------------

    async def _opened(self, wanted: Sequence[WantedPartition]) -> list[Opened]:
        """Returns each partition, or the error if it cannot be opened. Partitions that are not open yet are opened at
        the same time."""
        found = [self._opened_before(one) for one in wanted]
        closed = [position for position, partition in enumerate(found) if partition is None]
        if closed:
            opened = await asyncio.gather(*(self._open(wanted[position]) for position in closed))
            for position, partition in zip(closed, opened, strict=True):
                found[position] = partition
        return [partition for partition in found if partition is not None]

    def _opened_before(self, wanted: WantedPartition) -> Opened | None:
        topic = wanted.topic
        if topic is None:
            return unknown_topic_error(wanted)
        if not 0 <= wanted.index < topic.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._partitions.opened(topic.id, wanted.index)

    async def _open(self, wanted: WantedPartition) -> Opened:
        assert wanted.topic is not None
        try:
            return await self._partitions.open(wanted.topic, wanted.index)
        except PartitionGone:
            return unknown_topic_error(wanted)
        except SiltstoneError as failure:
            self._reads.failed(wanted, failure)
            known_epoch = self._partitions.leader_epoch(wanted.topic, wanted.index)
            return opening_error(failure, known_epoch, wanted.current_leader_epoch)

    def _is_there(self, wanted: WantedPartition) -> bool:
        return wanted.topic is not None and self._partitions.exists(wanted.topic.id, wanted.index)

    # -- reading -----------------------------------------------------------------------------------------

    def _found_at_once(self, wanted: WantedPartition, partition: Opened) -> FoundPartition | None:
        """Returns the row of a partition that needs no read from objects; None if it needs one."""
        row = _checked(wanted, partition, self._is_there)
        if isinstance(partition, ErrorCode) or not self._is_to_be_read(row):
            return row
        batches = partition.read_cached(wanted.fetch_offset, self._bytes_max(wanted))
        return None if batches is None else self._within_limits(row, partition, batches)

    async def _read_side_by_side(
        self, group: Sequence[WantedPartition], opened: Sequence[Opened]
    ) -> list[FoundPartition]:
        """Rows of the first partitions of ``group``: of as many as may be read at once."""
        rows = self._within_memory(
            [_checked(*each, self._is_there) for each in zip(group, opened, strict=True)]
        )
        reads = await asyncio.gather(*(self._read(*each) for each in zip(rows, opened, strict=False)))
        return [self._taken(*each) for each in zip(rows, opened, reads, strict=False)]

    def _within_memory(self, rows: list[FoundPartition]) -> list[FoundPartition]:
        """Returns the first of ``rows``: as many as may be read at once, so that their limits together are within what
        is left."""
        bytes_left = self._bytes_left
        for count, row in enumerate(rows):
            if self._is_to_be_read(row):
                bytes_max = self._bytes_max(row.wanted)
                if count and bytes_max > bytes_left:
                    return rows[:count]
                bytes_left -= bytes_max
        return rows

    async def _read(self, row: FoundPartition, partition: Opened) -> Batches | SiltstoneError:
        if isinstance(partition, ErrorCode) or not self._is_to_be_read(row):
            return ()
        try:
            return await self._reads.read(partition, row.wanted, self._bytes_max(row.wanted))
        except SiltstoneError as failure:
            return failure

    def _taken(
        self, row: FoundPartition, partition: Opened, read: Batches | SiltstoneError
    ) -> FoundPartition:
        if isinstance(read, OffsetBeyondEnds):  # trimmed during the read
            return _checked(row.wanted, partition, self._is_there)
        if isinstance(read, SiltstoneError):
            return FoundPartition(row.wanted, error_code(read))
        if isinstance(partition, ErrorCode):
            return row
        return self._within_limits(row, partition, read)

    def _is_to_be_read(self, row: FoundPartition) -> bool:
        """False when a check has failed, when there is no record to read, and when there is no room for more."""
        if row.ends_the_wait or row.wanted.fetch_offset >= row.end_offset:
            return False
        return self._bytes_left > 0 or not self._has_data

    def _bytes_max(self, wanted: WantedPartition) -> int:
        return min(wanted.bytes_max, self._bytes_left)

    def _within_limits(self, row: FoundPartition, partition: Partition, read: Batches) -> FoundPartition:
        """``row`` with the batches that fit. They may have become durable during the read; then the high watermark of
        the row is raised to their end."""
        bytes_max = self._bytes_max(row.wanted)
        stable_offset = partition.last_stable_offset
        taken: list[RecordBatch] = []
        size_bytes = 0
        for batch in read:
            if size_bytes + len(batch) > bytes_max and (self._has_data or taken):
                break
            if row.wanted.reads_committed and batch.base_offset >= stable_offset:
                break
            taken.append(batch)
            size_bytes += len(batch)
        if not taken:
            return row
        self._bytes_left -= size_bytes
        self._has_data = True
        end_offset = taken[-1].end_offset
        high_watermark = max(row.high_watermark, end_offset)
        aborted = partition.transactions.aborted if row.wanted.reads_committed else ()
        return FoundPartition(
            row.wanted,
            ErrorCode.NONE,
            high_watermark,
            row.log_start_offset,
            row.leader_epoch,
            tuple([batch.payload for batch in taken]),
            size_bytes,
            last_stable_offset=min(stable_offset, high_watermark),
            aborted=tuple(aborted.between(row.wanted.fetch_offset, end_offset)) if aborted else (),
        )


def _checked(
    wanted: WantedPartition, partition: Opened, is_there: Callable[[WantedPartition], bool]
) -> FoundPartition:
    """Checks a row after the read. A partition that was closed meanwhile was deleted, or handed over to another
    node."""
    if isinstance(partition, ErrorCode):
        return FoundPartition(wanted, partition)
    if partition.is_closed:
        moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return FoundPartition(wanted, moved if is_there(wanted) else unknown_topic_error(wanted))
    return check_partition(wanted, partition)


def unknown_topic_error(wanted: WantedPartition) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if wanted.topic_name else ErrorCode.UNKNOWN_TOPIC_ID
