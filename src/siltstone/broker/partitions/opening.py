"""Opening a partition: both streams under the next leader epoch, the newest snapshot, and what came after it.

A clean end writes a snapshot, so nothing is read again. After a crash it is at most ``partition_snapshot_bytes`` a
partition, give or take what was appended while the snapshot was written.
"""

import asyncio
import logging
from collections.abc import Callable

from siltstone.broker.partitions.partition import Partition, PartitionStreams
from siltstone.broker.partitions.producer_state import ProducerState
from siltstone.broker.partitions.snapshot import PartitionSnapshot, decode_snapshot
from siltstone.broker.partitions.time_index import TimeIndex
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.metadata.entities import OwnerRange, PartitionMetadata, StreamMetadata
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import CorruptData
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.runtime.clock import Clock
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.stream import Stream

REPLAY_BYTES = 8 * 1024 * 1024
"""Read at a time."""

log = logging.getLogger(__name__)


class PartitionOpening:
    """What every opening of one broker needs."""

    def __init__(
        self,
        engine: StreamEngine,
        metadata: MetadataService,
        settings: BrokerSettings,
        clock: Clock,
        on_snapshot_due: Callable[[Partition], None],
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._on_snapshot_due = on_snapshot_due

    async def open(self, partition: PartitionMetadata) -> Partition:
        """Raises the refusals of OpenStream, EngineNotRunning, and what reading raises."""
        streams = await self._open_streams(partition)
        try:
            producers, times = await self._recovered(streams)
        except BaseException:
            await self._engine.close_streams([streams.data, streams.meta])
            raise
        return Partition(
            self._engine, streams, producers, times, self._clock,
            lambda: self._owner_ranges(partition.data_stream_id),
            self._settings.partition_snapshot_bytes, self._on_snapshot_due,
        )  # fmt: skip

    def _owner_ranges(self, stream_id: int) -> tuple[OwnerRange, ...]:
        stream = self._metadata.image.streams.get(stream_id)
        return stream.owner_ranges if stream is not None else ()

    async def _open_streams(self, partition: PartitionMetadata) -> PartitionStreams:
        opened = await asyncio.gather(
            self._open_stream(partition.data_stream_id),
            self._open_stream(partition.meta_stream_id),
            return_exceptions=True,
        )
        data, meta = opened
        if isinstance(data, Stream) and isinstance(meta, Stream):
            return PartitionStreams(data, meta)
        await self._engine.close_streams([stream for stream in opened if isinstance(stream, Stream)])
        raise next(failure for failure in opened if isinstance(failure, BaseException))

    async def _open_stream(self, stream_id: int) -> Stream:
        return await self._engine.open_stream(stream_id, next_epoch(self._metadata.image.streams[stream_id]))

    async def _recovered(self, streams: PartitionStreams) -> tuple[ProducerState, TimeIndex]:
        snapshot = await self._newest_snapshot(streams.meta)
        if snapshot is None:
            producers, times = ProducerState(self._settings.producers_per_partition_max), TimeIndex()
            offset = streams.data.start_offset
        else:
            body = snapshot.body
            producers = ProducerState(self._settings.producers_per_partition_max, body.producers)
            times = TimeIndex(body.times, body.newest, interval_bytes=body.time_interval_bytes)
            offset = max(streams.data.start_offset, snapshot.next_offset)
        await self._replay(streams.data, offset, producers, times)
        return producers, times

    async def _newest_snapshot(self, meta: Stream) -> PartitionSnapshot | None:
        if meta.start_offset == meta.next_offset:
            return None
        try:
            batches = await self._engine.read(meta, meta.next_offset - 1, 1)
            return decode_snapshot(batches[0].payload)
        except CorruptData as damage:
            log.warning("partition of stream %d is read from its beginning: %s", meta.stream_id, damage)
            return None

    async def _replay(self, data: Stream, offset: int, producers: ProducerState, times: TimeIndex) -> None:
        now_ms = self._clock.now_ms()
        while offset < data.next_offset:
            for batch in await self._engine.read(data, offset, REPLAY_BYTES):
                header = read_batch_header(batch.payload)
                times.appended(
                    header.max_timestamp_ms, batch.base_offset, batch.end_offset, len(batch.payload)
                )
                if header.producer_id >= 0 and not header.is_control:
                    append_time_ms = header.max_timestamp_ms if header.is_log_append_time else NO_TIMESTAMP
                    producers.appended(header, batch.base_offset, append_time_ms, now_ms)
                offset = batch.end_offset


def next_epoch(stream: StreamMetadata) -> int:
    """The leader epoch a closed stream is opened under: one higher than ever before."""
    return stream.epoch + 1
