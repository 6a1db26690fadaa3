"""Opens a partition: both of its streams under the next leader epoch, then the newest snapshot, then the batches that
were appended after it.

Records that a sink has loaded without a broker are not read: they have no producers, and the metadata has their sizes
and times, object by object. A broker that is closed writes snapshots, so the next start reads no batches again. After a
crash the start reads at most ``partition_snapshot_bytes`` of each partition, and what was appended while the last
snapshot was written.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from siltstone.broker.partitions.damage import DamageReport
from siltstone.broker.partitions.partition import (
    BatchKnowledge,
    Partition,
    PartitionListener,
    PartitionStreams,
)
from siltstone.broker.partitions.producer_state import ProducerState
from siltstone.broker.partitions.segments import PartitionSegments
from siltstone.broker.partitions.share_progress import PartitionShares
from siltstone.broker.partitions.time_index import TimeIndex
from siltstone.broker.partitions.transaction_state import PartitionTransactions
from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.maintenance.retention.past import past_of
from siltstone.metadata.entities import SINK_NODE, OwnerRange, PartitionMetadata
from siltstone.metadata.lookup import find_ranges
from siltstone.metadata.service import MetadataService
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.model.segments import ActiveSegment
from siltstone.object_formats.aborted_page import decode_aborted_page, is_aborted_page
from siltstone.object_formats.partition_snapshot import (
    DamagedSnapshot,
    PartitionSnapshot,
    ProducerEntry,
    decode_snapshot,
    with_pages,
)
from siltstone.object_formats.share_state import (
    ShareChange,
    ShareState,
    decode_share_change,
    is_share_change,
)
from siltstone.runtime.clock import Clock
from siltstone.runtime.turns import let_others_run
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.errors import DamagedRange
from siltstone.stream_engine.stream import Stream
from siltstone.topic_configs.table import TopicConfig

REPLAY_BYTES = 1024 * 1024
"""The size of one read; the event loop runs other tasks between two reads."""

OPENINGS_SIDE_BY_SIDE = 64
"""Partitions that are recovered at the same time: the batches that a thousand of them read at once would not fit in
memory."""

log = logging.getLogger(__name__)


def _still_known(snapshot: PartitionSnapshot, start_offset: int) -> Iterable[ProducerEntry]:
    """Returns the producers of the snapshot, or none when batches behind the snapshot were trimmed before a newer one
    was written, as maintenance does when a node has died. The broker would take the sequences of the snapshot for the
    newest ones, and refuse the next batch of a producer as out of order. As in Kafka, a producer whose batches were
    deleted may send any sequence."""
    return snapshot.body.producers if snapshot.next_offset >= start_offset else ()


class PartitionOpening:
    """Opens the partitions of one broker. ``config_of`` returns the configuration of a topic by its id."""

    def __init__(
        self,
        engine: StreamEngine,
        metadata: MetadataService,
        settings: BrokerSettings,
        clock: Clock,
        config_of: Callable[[str], TopicConfig],
        listener: PartitionListener,
        damage: DamageReport,
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._config_of = config_of
        self._listener = listener
        self._damage = damage
        self._side_by_side = asyncio.Semaphore(OPENINGS_SIDE_BY_SIDE)

    async def open(self, topic_id: str, index: int, partition: PartitionMetadata) -> Partition:
        """Raises the refusals of OpenPartition, EngineNotRunning, and what ``StreamEngine.read`` raises."""
        stream_ids = (partition.data_stream_id, partition.meta_stream_id)
        streams = PartitionStreams(*await self._engine.open_partition(topic_id, index, stream_ids))
        try:
            async with self._side_by_side:
                known = await self._recovered(streams, topic_id, partition)
        except BaseException:
            await self._engine.close_streams([streams.data, streams.meta])
            raise
        return Partition(
            self._engine, streams, known, self._clock, lambda: self._owner_ranges(partition.data_stream_id),
            self._settings.partition_snapshot_bytes, self._listener,
        )  # fmt: skip

    def _owner_ranges(self, stream_id: int) -> tuple[OwnerRange, ...]:
        stream = self._metadata.image.streams.get(stream_id)
        return stream.owner_ranges if stream is not None else ()

    async def _recovered(
        self, streams: PartitionStreams, topic_id: str, partition: PartitionMetadata
    ) -> BatchKnowledge:
        config = self._config_of(topic_id)
        snapshot, shares = await self._read_meta(streams)
        producers_max = self._settings.producers_per_partition_max
        segments = self._segments(streams.data.stream_id, snapshot, config)
        if snapshot is None:
            start = streams.data.start_offset
            producers = ProducerState(producers_max)
            transactions = PartitionTransactions(producers)
            known = BatchKnowledge(producers, transactions, TimeIndex(), segments, start, 0, shares=shares)
        else:
            body = snapshot.body
            producers = ProducerState(producers_max, _still_known(snapshot, streams.data.start_offset))
            transactions = PartitionTransactions(producers, body.aborted_transactions())
            times = TimeIndex(body.times)
            pages = tuple(body.pages_from(streams.meta.start_offset))
            known = BatchKnowledge(
                producers, transactions, times, segments, snapshot.next_offset, 0, pages, shares
            )
        await self._replay(streams.data, known, partial(self._name_of, topic_id, partition))
        known.times.trim(streams.data.start_offset)
        known.transactions.trim(streams.data.start_offset)
        known.producers.expire(self._clock.now_ms() - self._settings.producer_id_expiration_ms)
        return known

    def _segments(
        self, stream_id: int, snapshot: PartitionSnapshot | None, config: TopicConfig
    ) -> PartitionSegments:
        """Returns the segments as of the snapshot; the replay adds later ones. A snapshot of version 1 holds no
        segments: then they are estimated from the objects before the snapshot's end."""
        image = self._metadata.image
        stream = image.streams[stream_id]
        if snapshot is None:
            nothing = ActiveSegment(stream.active_offset, stream.active_offset)
            return PartitionSegments(stream_id, nothing, config)
        if snapshot.body.active is None:
            past = past_of(stream, image.objects, config.segment_bytes, snapshot.next_offset)
            return PartitionSegments(stream_id, past.active, config, past.closed)
        segments = PartitionSegments(stream_id, snapshot.body.active, config, snapshot.body.unwritten)
        segments.follow(stream.active_offset)
        return segments

    async def _read_meta(self, streams: PartitionStreams) -> tuple[PartitionSnapshot | None, PartitionShares]:
        """Returns the newest snapshot with the transactions of its pages, None if there is none that can be used; and
        the share groups as the changes behind it leave them."""
        meta = streams.meta
        changes: list[ShareChange] = []
        states: tuple[ShareState, ...] = ()
        snapshot: PartitionSnapshot | None = None
        trouble: CorruptData | None = None
        for offset in reversed(range(meta.start_offset, meta.next_offset)):
            is_change = False
            try:
                payload = await self._meta_record(meta, offset)
                is_change = is_share_change(payload)
                if is_change:
                    changes.append(decode_share_change(payload))
                elif not is_aborted_page(payload):
                    snapshot = _of_this_log(decode_snapshot(payload), streams.data.next_offset)
                    states = snapshot.body.shares
                    snapshot = await self._whole(snapshot, meta)
                    break
            except CorruptData as damage:
                trouble = damage
                if not is_change:
                    snapshot = None
                    break
        if trouble is not None:
            log.warning(
                "the snapshot of stream %d, or a change behind it, is not usable, so the whole partition is read, and "
                "share groups may get records again: %s",
                streams.data.stream_id,
                trouble,
            )
        shares = PartitionShares(states)
        for change in reversed(changes):
            shares.apply(change)
        return snapshot, shares

    async def _whole(self, snapshot: PartitionSnapshot, meta: Stream) -> PartitionSnapshot:
        pages = snapshot.body.pages_from(meta.start_offset)
        records = [await self._meta_record(meta, page.meta_offset) for page in pages]
        return with_pages(snapshot, map(decode_aborted_page, records))

    async def _meta_record(self, meta: Stream, offset: int) -> Buffer:
        return (await self._engine.read(meta, offset, 1, offset + 1))[0].payload

    def _name_of(self, topic_id: str, partition: PartitionMetadata) -> str:
        topic = self._metadata.image.topics[topic_id]
        data_stream_ids = [
            each.data_stream_id for each in topic.partitions
        ]  # the leader may be another one now
        return f"{topic.name}-{data_stream_ids.index(partition.data_stream_id)}"

    async def _replay(self, data: Stream, known: BatchKnowledge, name: Callable[[], str]) -> None:
        now_ms = self._clock.now_ms()
        offset = max(data.start_offset, known.snapshot_offset)
        while offset < data.next_offset:
            if (load_end := loaded_until(self._owner_ranges(data.stream_id), offset)) > offset:
                self._count_loaded(data.stream_id, offset, load_end, known, now_ms)
                offset = load_end
                continue
            try:
                batches = await self._engine.read(data, offset, REPLAY_BYTES)
            except DamagedRange as damage:
                self._damage.opened_without(name(), damage)
                self._replay_damaged(damage, known, now_ms)
                known.transactions.damaged()
                offset, batches = damage.end_offset, []
            for batch in batches:
                header = read_batch_header(batch.payload)
                size_bytes = len(batch.payload)
                known.bytes_since_snapshot += size_bytes
                known.times.appended(header.max_timestamp_ms, batch.base_offset, batch.end_offset, size_bytes)
                known.transactions.replay(batch.payload, header, batch.base_offset, now_ms)
                _count(known.segments, batch.end_offset, size_bytes, header.max_timestamp_ms, now_ms)
                offset = batch.end_offset
            await let_others_run()

    def _count_loaded(self, stream_id: int, start: int, end: int, known: BatchKnowledge, now_ms: int) -> None:
        """Counts offsets that a sink has loaded, each object as one batch."""
        image = self._metadata.image
        start = max(start, image.streams[stream_id].start_offset)
        for held in find_ranges(image, stream_id, start, max(start, end)):
            first, last = max(held.start_offset, start), min(held.end_offset, end)
            size_bytes = held.size_bytes * (last - first) // (held.end_offset - held.start_offset)
            known.times.appended(held.largest_timestamp_ms, first, last, size_bytes)
            if last > known.segments.active.end_offset:
                came_ms = min(image.objects[held.object_id].data_time_ms, now_ms)
                known.segments.appended(last, size_bytes, held.largest_timestamp_ms, now_ms, came_ms)

    def _replay_damaged(self, damage: DamagedRange, known: BatchKnowledge, now_ms: int) -> None:
        """Counts the offsets that cannot be read as one batch with the largest timestamp that the metadata has for
        them. So lookups by time still find their records when the object has been restored."""
        start, end = damage.start_offset, damage.end_offset
        (held,) = find_ranges(self._metadata.image, damage.stream_id, start, None, 1)
        size_bytes = held.size_bytes * (end - start) // (held.end_offset - held.start_offset)
        known.times.appended(held.largest_timestamp_ms, start, end, size_bytes)
        _count(known.segments, end, size_bytes, held.largest_timestamp_ms, now_ms)


def loaded_until(owner_ranges: Iterable[OwnerRange], offset: int) -> int:
    """Returns the end of the offsets that sinks have loaded from ``offset`` on; ``offset`` if no sink has loaded it."""
    for held in owner_ranges:
        if held.node_id == SINK_NODE and held.start_offset <= offset < held.end_offset:
            offset = held.end_offset
    return offset


def _count(
    segments: PartitionSegments, end_offset: int, size_bytes: int, largest_timestamp_ms: int, now_ms: int
) -> None:
    """Counts a replayed batch in its segment. When it was appended is not known: the time of its newest record is
    taken, or now if there is none or that time is in the future."""
    if end_offset <= segments.active.end_offset:
        return  # the batch belongs to a closed segment
    came_ms = now_ms if largest_timestamp_ms == NO_TIMESTAMP else min(max(0, largest_timestamp_ms), now_ms)
    segments.appended(end_offset, size_bytes, largest_timestamp_ms, now_ms, came_ms)


def _of_this_log(snapshot: PartitionSnapshot, next_offset: int) -> PartitionSnapshot:
    """Returns the snapshot, unless it reaches beyond the end of its partition. Raises DamagedSnapshot."""
    if snapshot.next_offset > next_offset:
        raise DamagedSnapshot(
            f"a partition's snapshot reaches offset {snapshot.next_offset}, but the partition ends at {next_offset}"
        )
    return snapshot
