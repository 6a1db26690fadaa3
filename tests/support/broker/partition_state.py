"""The state that a partition knows of its batches, for comparison; and the streams that are read."""

import asyncio
from typing import Any

import msgspec

from siltstone.broker.partitions.partition import Partition
from siltstone.broker.parts import BrokerParts
from siltstone.metadata.commands import TrimStream
from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.stream import Stream


def knowledge(partition: Partition) -> tuple[Any, ...]:
    """But for the time at which producers were last seen: after a crash that is the time of the opening."""
    producers = [msgspec.structs.replace(entry, seen_ms=0) for entry in partition.producers.entries()]
    ends = (partition.log_start_offset, partition.high_watermark, partition.next_offset)
    return producers, partition.times.state, ends


class ReadOffsets:
    """Notes where the engine was asked to read a stream, and what it returned: (stream id, offset, batches)."""

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


class TurnCounter:
    """The turns of the event loop since it was started."""

    def __init__(self) -> None:
        self.turns = 0
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.turns += 1
        self._next = self._loop.call_soon(self._turn)

    def stop(self) -> None:
        self._next.cancel()


class ReadTurns:
    """Notes in which turns of the event loop the engine was asked to read, and by how many at most at the same time."""

    def __init__(self, engine: StreamEngine) -> None:
        self.counter = TurnCounter()
        self.turns: list[int] = []
        self.at_once = self.at_once_max = 0
        self._read = engine.read
        engine.read = self._noted  # type: ignore[method-assign]

    async def _noted(self, *asked: Any) -> list[RecordBatch]:
        self.turns.append(self.counter.turns)
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        try:
            return await self._read(*asked)
        finally:
            self.at_once -= 1


async def trim_in_metadata(partition: Partition, parts: BrokerParts, offset: int) -> None:
    """Trims the stream in the metadata alone: the partition itself has not heard of it yet."""
    data = partition.streams.data
    parts.engine._stop_following()
    command = TrimStream(parts.node_id, parts.node_epoch, data.stream_id, data.epoch, offset)
    await parts.metadata.execute(command)
