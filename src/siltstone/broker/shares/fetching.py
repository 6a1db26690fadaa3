"""Acquires records for a member of a share group, partition by partition, until it has some or its time is over.

What is read begins at the first record that may be delivered. Batches without records for members (markers, batches
that key compaction has emptied, aborted ones for a group that reads committed records) are passed over at once.
"""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from siltstone.broker.deliveries.steps import AcquiredRange, Acquisition, FoundOffsets, acquire
from siltstone.broker.error_codes import error_code
from siltstone.broker.fetching.damaged_reads import DamagedReads
from siltstone.broker.fetching.wanted import WantedPartition
from siltstone.broker.group_configs import ShareConfig
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.shares.shares import ShareKey, Shares
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.batch_header import read_batch_header
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.buffers import Buffer
from siltstone.model.errors import SiltstoneError
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.partition_snapshot import AbortedTransaction
from siltstone.runtime.clock import Clock

PASSES_MAX = 20
"""How many reads in a row may find nothing for members before other requests get a turn: a compacted log may be empty
for long."""


class SharedIndex(msgspec.Struct, frozen=True):
    """A partition of a topic that exists."""

    topic: Topic
    index: int


class ShareWish(msgspec.Struct, frozen=True):
    """What a member asks for. ``is_strict``: no more than ``records_max`` records, even if that cuts a batch."""

    group_id: str
    member_id: str
    records_max: int
    bytes_max: int
    is_strict: bool = False


class AcquiredBatches(msgspec.Struct, frozen=True):
    """``ranges`` of offsets are the member's; ``batches`` hold them, and perhaps more."""

    place: SharedIndex
    error: ErrorCode = ErrorCode.NONE
    ranges: tuple[AcquiredRange, ...] = ()
    batches: tuple[Buffer, ...] = ()
    size_bytes: int = 0

    @property
    def record_count(self) -> int:
        return sum(each.end - each.first for each in self.ranges)


class ShareFetching:
    def __init__(self, shares: Shares, partitions: Partitions, clock: Clock) -> None:
        self._shares = shares
        self._partitions = partitions
        self._reads = DamagedReads(partitions.damage)
        self._clock = clock

    async def fetch(
        self, wish: ShareWish, places: Sequence[SharedIndex], wait_ms_max: float
    ) -> list[AcquiredBatches]:
        """Returns the partitions that have records or an error; at once if there is one."""
        deadline_ms = self._clock.monotonic_ms() + wait_ms_max
        while True:
            news = _News(self._shares, wish.group_id, places)
            try:
                found = await self._acquired(wish, places, news)
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if found or not places or left_ms <= 0 or self._shares.are_waits_over:
                    return found
                timer = self._clock.call_after_ms(left_ms, news.ring)
                try:
                    await news.came
                finally:
                    timer.cancel()
            finally:
                news.end()

    async def _acquired(
        self, wish: ShareWish, places: Sequence[SharedIndex], news: "_News"
    ) -> list[AcquiredBatches]:
        """Returns what is acquired of each partition, and why nothing can be. A member that wants no byte gets none,
        not even the first batch [librdkafka: 0180]."""
        found: list[AcquiredBatches] = []
        records_left, bytes_left = wish.records_max if wish.bytes_max > 0 else 0, wish.bytes_max
        for place in places:
            if records_left <= 0 or (bytes_left <= 0 and any(row.batches for row in found)):
                break
            wanted = msgspec.structs.replace(wish, records_max=records_left, bytes_max=max(bytes_left, 1))
            row = await self._of_partition(
                wanted, place, news, is_first=not any(each.batches for each in found)
            )
            records_left -= row.record_count
            bytes_left -= row.size_bytes
            if row.ranges or row.error is not ErrorCode.NONE:
                found.append(row)
        return found

    async def _of_partition(
        self, wish: ShareWish, place: SharedIndex, news: "_News", *, is_first: bool
    ) -> AcquiredBatches:
        topic, index = place.topic, place.index
        if not 0 <= index < topic.partition_count:
            return AcquiredBatches(place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        key = (wish.group_id, topic.id, index)
        try:
            partition = await self._shares.open(wish.group_id, topic, index)
            news.watch(partition)
            async with self._shares.reading(key):
                for _ in range(PASSES_MAX):
                    row = await self._one_pass(wish, key, place, partition, is_first=is_first)
                    if row is not None:
                        return row
        except SiltstoneError as failure:
            self._reads.failed(_wanted(place, 0, wish.bytes_max), failure)
            return AcquiredBatches(place, error_code(failure))
        news.ring()
        return AcquiredBatches(place)

    async def _one_pass(
        self, wish: ShareWish, key: ShareKey, place: SharedIndex, partition: Partition, *, is_first: bool
    ) -> AcquiredBatches | None:
        """Returns None if something was passed over, and nothing acquired."""
        if partition.is_closed:
            return AcquiredBatches(place, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        config = self._shares.config_of(wish.group_id)
        before = self._shares.progress(wish.group_id, partition)
        offset, is_full = before.next_offset, before.in_flight >= config.locks_max
        end = partition.last_stable_offset if config.reads_committed else partition.high_watermark
        if offset >= end or (is_full and offset == before.end_offset):
            return AcquiredBatches(place)
        read = partition.read_cached(offset, wish.bytes_max)
        if read is None:
            read = await self._reads.read(partition, _wanted(place, offset, wish.bytes_max), wish.bytes_max)
        batches = [batch for batch in _within(read, wish.bytes_max, is_first) if batch.base_offset < end]
        if not batches:
            return AcquiredBatches(place)
        found = FoundOffsets(offset, batches[-1].end_offset, _with_records(partition, config, batches))
        before = self._shares.progress(wish.group_id, partition)  # as it is after the read
        wanted = Acquisition(
            wish.member_id,
            self._shares.lock_end_ms(config),
            wish.records_max,
            config.locks_max,
            wish.is_strict,
        )
        after, ranges = acquire(before, found, wanted)
        self._shares.put(key, partition, after)  # refused if the partition was closed meanwhile
        if not ranges:
            return None if after is not before else AcquiredBatches(place)
        self._shares.count_delivered(sum(each.end - each.first for each in ranges))
        payloads = tuple(batch.payload for batch in batches if _is_in(batch, ranges))
        size_bytes = sum(map(len, payloads))
        return AcquiredBatches(place, ErrorCode.NONE, tuple(ranges), payloads, size_bytes)


class _News:
    """``came`` is set when a partition has changed, or something was released there."""

    def __init__(self, shares: Shares, group_id: str, places: Iterable[SharedIndex]) -> None:
        self.came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._shares = shares
        self._keys = [(group_id, place.topic.id, place.index) for place in places]
        self._watched: list[Partition] = []
        for key in self._keys:
            shares.watch(key, self.ring)

    def watch(self, partition: Partition) -> None:
        partition.watch(self.ring)
        self._watched.append(partition)

    def ring(self) -> None:
        if not self.came.done():
            self.came.set_result(None)

    def end(self) -> None:
        for key in self._keys:
            self._shares.unwatch(key, self.ring)
        for partition in self._watched:
            partition.unwatch(self.ring)
        self._watched.clear()


def _wanted(place: SharedIndex, offset: int, bytes_max: int) -> WantedPartition:
    return WantedPartition(place.topic, place.topic.name, b"", place.index, offset, bytes_max, -1, -1, -1)


def _within(read: Sequence[RecordBatch], bytes_max: int, is_first: bool) -> list[RecordBatch]:
    """Returns the batches that fit; the first one of an answer always does."""
    taken: list[RecordBatch] = []
    size_bytes = 0
    for batch in read:
        size_bytes += len(batch)
        if size_bytes > bytes_max and (taken or not is_first):
            break
        taken.append(batch)
    return taken


def _with_records(
    partition: Partition, config: ShareConfig, batches: Sequence[RecordBatch]
) -> tuple[tuple[int, int], ...]:
    """Returns the offsets of the batches that have records for members."""
    first, end = batches[0].base_offset, batches[-1].end_offset
    aborted = partition.transactions.aborted.between(first, end) if config.reads_committed else ()
    return tuple((batch.base_offset, batch.end_offset) for batch in batches if _has_records(batch, aborted))


def _has_records(batch: RecordBatch, aborted: Iterable[AbortedTransaction]) -> bool:
    header = read_batch_header(batch.payload)
    if header.is_control or not header.record_count:
        return False
    return not header.is_transactional or not any(
        each.producer_id == header.producer_id and each.first_offset <= batch.base_offset < each.marker_offset
        for each in aborted
    )


def _is_in(batch: RecordBatch, ranges: Iterable[AcquiredRange]) -> bool:
    return any(each.first < batch.end_offset and batch.base_offset < each.end for each in ranges)
