"""Finds offsets by time, exact to the record (item 35).

The time index says where to begin, the batches' largest timestamps say which batch has the record, and that batch is
decoded, in a thread when it is large.
"""

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import msgspec

from siltstone.broker.partitions.partition import Partition
from siltstone.kafka_protocol.records.looking_up import (
    OffsetAndTimestamp,
    first_record_at_or_after,
    record_with_max_timestamp,
)
from siltstone.kafka_protocol.records.reading import takes_long_to_read
from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.partition_snapshot import TimeEntry
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.turns import let_others_run
from siltstone.stream_engine.errors import DamagedRange, OffsetBeyondEnds

SCAN_BYTES = 1024 * 1024
"""The size of one read; the event loop runs other tasks between two reads."""

TURNS_OF_A_TRIM_MAX = 100
"""Turns of the event loop by which a partition may lag behind a trim in the metadata; usually one."""


class TimedOffset(msgspec.Struct, frozen=True):
    offset: int
    timestamp_ms: int


OnDamage: TypeAlias = Callable[[DamagedRange], None]
"""Called with damage that a lookup skips. Without it, a lookup raises DamagedRange."""


async def offset_for_time(
    partition: Partition, timestamp_ms: int, calls: BlockingCalls, on_damage: OnDamage | None = None
) -> TimedOffset | None:
    """Returns the first record in offset order that is at or after the time; None if there is none."""
    start = max(partition.log_start_offset, partition.times.scan_from(timestamp_ms))
    async for batch in _batches(partition, start, on_damage):
        if batch.largest_timestamp_ms < timestamp_ms:
            continue
        start = partition.log_start_offset
        found = await _looked_up(calls, first_record_at_or_after, batch.payload, timestamp_ms, start)
        if found is not None:
            return TimedOffset(*found)
    return None


async def offset_of_newest_time(
    partition: Partition, calls: BlockingCalls, on_damage: OnDamage | None = None
) -> TimedOffset | None:
    """Returns the first record with the largest timestamp in the partition. Raises what Partition.wait_for raises."""
    newest = partition.times.newest
    if newest.offset >= partition.log_start_offset:
        await partition.wait_for(newest.offset)
        found = await _newest_from(partition, newest, calls, on_damage)
        if found is not None and found.timestamp_ms == newest.timestamp_ms:
            if partition.times.newest == newest:
                partition.times.renew_newest(TimeEntry(found.timestamp_ms, found.offset))
            return found
    return await _newest_by_scan(partition, newest, calls, on_damage)


async def _newest_from(
    partition: Partition, newest: TimeEntry, calls: BlockingCalls, on_damage: OnDamage | None
) -> TimedOffset | None:
    """Returns the newest record of the first batch, from the offset in the index on, that reaches the time. That is the
    batch at the offset, unless a sink has loaded it: the index has only the newest time of each loaded object."""
    async for batch in _batches(partition, newest.offset, on_damage):
        if batch.largest_timestamp_ms < newest.timestamp_ms:
            continue
        found = await _looked_up(calls, record_with_max_timestamp, batch.payload, partition.log_start_offset)
        return None if found is None else TimedOffset(*found)
    return None


async def _newest_by_scan(
    partition: Partition, gone: TimeEntry, calls: BlockingCalls, on_damage: OnDamage | None
) -> TimedOffset | None:
    """Finds the newest record when the one in the index was trimmed or removed by key compaction. The result goes into
    the index, so the scan is not repeated; but not if damage was skipped, which may be repaired."""
    newest: TimedOffset | None = None
    damages: list[DamagedRange] = []
    end = partition.log_start_offset

    def skip(damage: DamagedRange) -> None:
        assert on_damage is not None
        damages[:] = [damage]
        on_damage(damage)

    async for batch in _batches(partition, end, None if on_damage is None else skip):
        end = batch.end_offset
        if newest is None or batch.largest_timestamp_ms > newest.timestamp_ms:
            start = partition.log_start_offset
            found = await _looked_up(calls, record_with_max_timestamp, batch.payload, start)
            if found is not None and (newest is None or found[1] > newest.timestamp_ms):
                newest = TimedOffset(*found)
    is_all = end == partition.next_offset and partition.times.newest == gone and not damages
    if newest is not None and is_all:
        partition.times.renew_newest(TimeEntry(newest.timestamp_ms, newest.offset))
    return newest


async def _looked_up(
    calls: BlockingCalls, look: Callable[..., OffsetAndTimestamp | None], batch: Buffer, *asked: int
) -> OffsetAndTimestamp | None:
    if takes_long_to_read(batch):
        return await calls.run(look, batch, *asked)
    return look(batch, *asked)


async def _batches(
    partition: Partition, offset: int, on_damage: OnDamage | None
) -> AsyncIterator[RecordBatch]:
    """Yields the batches from the one that contains ``offset`` to the high watermark. After a trim the iteration
    continues at the new start; it raises OffsetBeyondEnds if the partition does not learn of the trim in time."""
    turns_left = TURNS_OF_A_TRIM_MAX
    while (offset := max(offset, partition.log_start_offset)) < partition.high_watermark:
        try:
            found = await partition.read(offset, SCAN_BYTES)
        except OffsetBeyondEnds:
            found = []
            turns_left -= 1
            if not turns_left:
                raise
        except DamagedRange as damage:
            if on_damage is None:
                raise
            on_damage(damage)
            found, offset = [], damage.end_offset
        for batch in found:
            yield batch
            offset = batch.end_offset
        await let_others_run()
