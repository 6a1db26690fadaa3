"""Gathering what a fetch asks for, within its byte limits.

Partitions are looked at in the client's order. The first batch found is given whole even if it is larger than every
limit (KIP-74), so that a consumer always gets on; others only where they fit. What lies in the tail cache is taken at
once; what lies in objects is read for several partitions side by side, and dropped again where the limit was reached
before it.
"""

import asyncio
from collections.abc import Sequence

from siltstone.broker.error_codes import error_code
from siltstone.broker.fetching.partition_checks import leader_epoch_error, offset_error
from siltstone.broker.fetching.wanted import FoundPartition, WantedPartition
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import FETCH_READS_SIDE_BY_SIDE
from siltstone.model.record_batch import RecordBatch

Batches = Sequence[RecordBatch]


class Gathering:
    """One look at all partitions of a fetch."""

    def __init__(self, partitions: Partitions, bytes_max: int) -> None:
        self._partitions = partitions
        self._bytes_left = bytes_max
        self._has_data = False

    async def gather(self, wanted: Sequence[WantedPartition]) -> list[FoundPartition]:
        found: list[FoundPartition] = []
        position = 0
        while position < len(wanted):
            group = wanted[position : position + FETCH_READS_SIDE_BY_SIDE]
            found += await self._gather_group(group)
            position += len(group)
        return found

    async def _gather_group(self, group: Sequence[WantedPartition]) -> list[FoundPartition]:
        opened = [await self._opened(one) for one in group]
        checked = [self._checked(one, partition) for one, partition in zip(group, opened, strict=True)]
        reads = await asyncio.gather(*(
            self._read(found.wanted, partition)
            for found, partition in zip(checked, opened, strict=True)
        ))  # fmt: skip
        return [self._within_limits(*row) for row in zip(checked, reads, strict=True)]

    async def _opened(self, wanted: WantedPartition) -> Partition | ErrorCode:
        topic = wanted.topic
        if topic is None:
            return unknown_topic_error(wanted)
        if not 0 <= wanted.index < topic.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = self._partitions.opened(topic.id, wanted.index)
        if partition is not None:
            return partition
        try:
            return await self._partitions.open(topic, wanted.index)
        except SiltstoneError as failure:
            return error_code(failure)

    def _checked(self, wanted: WantedPartition, partition: Partition | ErrorCode) -> FoundPartition:
        if isinstance(partition, ErrorCode):
            return FoundPartition(wanted, partition)
        if partition.is_closed:
            return FoundPartition(wanted, unknown_topic_error(wanted))
        state = (partition.high_watermark, partition.log_start_offset, partition.leader_epoch)
        error = leader_epoch_error(partition, wanted.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return FoundPartition(wanted, error, leader_epoch=partition.leader_epoch)
        if wanted.last_fetched_epoch >= 0:
            end = partition.epoch_end(wanted.last_fetched_epoch)
            if end.leader_epoch != wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
                return FoundPartition(wanted, ErrorCode.NONE, *state, diverging=end)
        return FoundPartition(wanted, offset_error(partition, wanted.fetch_offset), *state)

    async def _read(
        self, wanted: WantedPartition, partition: Partition | ErrorCode
    ) -> Batches | SiltstoneError:
        """Nothing where there is nothing, or no room for more, or a check has failed."""
        if isinstance(partition, ErrorCode) or partition.is_closed:
            return ()
        if not partition.log_start_offset <= wanted.fetch_offset < partition.high_watermark:
            return ()
        if self._bytes_left <= 0 and self._has_data:
            return ()
        bytes_max = min(wanted.bytes_max, self._bytes_left)
        cached = partition.read_cached(wanted.fetch_offset, bytes_max)
        if cached is not None:
            return cached
        try:
            return await partition.read(wanted.fetch_offset, bytes_max)
        except SiltstoneError as failure:
            return failure

    def _within_limits(self, found: FoundPartition, read: Batches | SiltstoneError) -> FoundPartition:
        if found.ends_the_wait:
            return found
        if isinstance(read, SiltstoneError):
            return FoundPartition(found.wanted, error_code(read))
        taken: list[memoryview | bytes | bytearray] = []
        size_bytes = 0
        for batch in read:
            fits = size_bytes + len(batch) <= min(found.wanted.bytes_max, self._bytes_left)
            if not fits and (self._has_data or taken):
                break
            taken.append(batch.payload)
            size_bytes += len(batch)
        self._bytes_left -= size_bytes
        self._has_data = self._has_data or bool(taken)
        return FoundPartition(
            found.wanted, ErrorCode.NONE, found.high_watermark, found.log_start_offset, found.leader_epoch,
            tuple(taken), size_bytes,
        )  # fmt: skip


def unknown_topic_error(wanted: WantedPartition) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if wanted.topic_name else ErrorCode.UNKNOWN_TOPIC_ID
