"""What a partition knows of its batches, to be compared; and which streams are read."""

from typing import Any

import msgspec

from siltstone.broker.partitions.partition import Partition
from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.stream import Stream


def knowledge(partition: Partition) -> tuple[Any, ...]:
    """But for the time at which producers were last seen: after a crash that is the time of the opening."""
    producers = [msgspec.structs.replace(entry, seen_ms=0) for entry in partition.producers.entries()]
    ends = (partition.log_start_offset, partition.high_watermark, partition.next_offset)
    return producers, partition.times.state, ends


class ReadOffsets:
    """Where the engine was asked to read a stream, and what it gave: (stream id, offset, batches)."""

    def __init__(self, engine: StreamEngine) -> None:
        self.reads: list[tuple[int, int, int]] = []
        self._read = engine.read
        engine.read = self._noted  # type: ignore[method-assign]

    async def _noted(self, stream: Stream, start_offset: int, *limits: Any) -> list[RecordBatch]:
        batches = await self._read(stream, start_offset, *limits)
        self.reads.append((stream.stream_id, start_offset, len(batches)))
        return batches

    def of(self, stream_id: int) -> list[tuple[int, int]]:
        """(offset, batches)"""
        return [(offset, count) for read_id, offset, count in self.reads if read_id == stream_id]
