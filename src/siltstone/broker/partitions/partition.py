"""An open partition: a data stream with batches, a meta stream with snapshots, and what the headers of the batches say.

Everything happens on the event loop, in the order of arrival. A batch is visible to readers when it is durable.

    log_start_offset ≤ high_watermark ≤ next_offset        the data stream's start, confirmed and next offset
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import msgspec

from siltstone.broker.partitions.aborted_pages import AbortedPages, entries_per_page
from siltstone.broker.partitions.admission import Admitted, WritableBuffer, admit
from siltstone.broker.partitions.leader_epochs import EpochEnd, epoch_end, epoch_of
from siltstone.broker.partitions.producer_state import ProducerState
from siltstone.broker.partitions.segments import PartitionSegments
from siltstone.broker.partitions.share_progress import (
    CHANGES_PER_SNAPSHOT_MAX,
    KnownShare,
    PartitionShares,
)
from siltstone.broker.partitions.time_index import TimeIndex
from siltstone.broker.partitions.transaction_state import (
    MarkerVerdict,
    PartitionTransactions,
    TransactionEnding,
    TransactionPermission,
)
from siltstone.kafka_protocol.batch_header import BatchHeader, patch_offset_and_epoch, read_batch_header
from siltstone.kafka_protocol.records.control import TransactionMarker, build_control_batch
from siltstone.metadata.entities import OwnerRange
from siltstone.model.record_batch import NO_TIMESTAMP, RecordBatch
from siltstone.object_formats.aborted_page import encode_aborted_page
from siltstone.object_formats.partition_snapshot import (
    AbortedPage,
    AbortedTransaction,
    PartitionSnapshot,
    SequencedBatch,
    SnapshotBody,
    encode_snapshot,
    pack_aborted,
)
from siltstone.object_formats.share_state import ShareChange, encode_share_change
from siltstone.runtime.clock import Clock
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.errors import EngineNotRunning, StreamHeld
from siltstone.stream_engine.stream import Stream
from siltstone.topic_configs.table import TopicConfig


class PartitionStreams(msgspec.Struct, frozen=True):
    data: Stream
    meta: Stream


class Appended(msgspec.Struct, frozen=True):
    """``durable`` is None if the producer repeated a batch that is durable already. ``append_time_ms`` is -1 unless the
    topic has LogAppendTime."""

    base_offset: int
    append_time_ms: int
    durable: "asyncio.Future[int] | None"


class BatchKnowledge(msgspec.Struct):
    """What the broker knows from the batches' headers and the transaction markers. The newest snapshot holds what was
    known before ``snapshot_offset``; ``bytes_since_snapshot`` were appended after it. ``pages`` hold its older
    aborted transactions. ``shares``: how far the share groups have come, which only the meta stream says."""

    producers: ProducerState
    transactions: PartitionTransactions
    times: TimeIndex
    segments: PartitionSegments
    snapshot_offset: int
    bytes_since_snapshot: int
    pages: tuple[AbortedPage, ...] = ()
    shares: PartitionShares = msgspec.field(default_factory=PartitionShares)


class PartitionListener(Protocol):
    """What a partition calls when work is due that is not part of an append."""

    def snapshot_due(self, partition: "Partition") -> None: ...

    def segment_closed(self, partition: "Partition") -> None: ...


class Partition:
    """Made by ``opening.PartitionOpening``. ``owner_ranges`` returns the offsets that each epoch appended, from the
    metadata."""

    def __init__(
        self,
        engine: StreamEngine,
        streams: PartitionStreams,
        known: BatchKnowledge,
        clock: Clock,
        owner_ranges: Callable[[], tuple[OwnerRange, ...]],
        snapshot_bytes: int,
        listener: PartitionListener,
    ) -> None:
        self._engine = engine
        self._data = streams.data
        self._meta = streams.meta
        self._producers = known.producers
        self._transactions = known.transactions
        self._times = known.times
        self.segments = known.segments
        self.shares = known.shares
        self._clock = clock
        self._owner_ranges = owner_ranges
        self._snapshot_bytes = snapshot_bytes
        self._bytes_since_snapshot = known.bytes_since_snapshot
        self._snapshot_offset = self._durable_snapshot_offset = known.snapshot_offset
        self._pages = AbortedPages(entries_per_page(engine.append_bytes_max), known.pages)
        self._listener = listener
        self._in_flight: dict[int, asyncio.Future[int]] = {}
        self._held_waiters: dict[asyncio.Future[None], None] = {}
        self._may_be_led_elsewhere = False
        self.bytes_in = self.bytes_out = self.requests = 0
        self._data.on_trim = self._start_moved

    @property
    def stream_id(self) -> int:
        """The id of the data stream."""
        return self._data.stream_id

    @property
    def streams(self) -> PartitionStreams:
        return PartitionStreams(self._data, self._meta)

    @property
    def leader_epoch(self) -> int:
        return self._data.epoch

    @property
    def log_start_offset(self) -> int:
        return self._data.start_offset

    @property
    def high_watermark(self) -> int:
        return self._data.confirmed_offset

    @property
    def last_stable_offset(self) -> int:
        """The end for a client that reads committed records: below it every transaction is decided."""
        return self._transactions.last_stable_offset(self.high_watermark, self.log_start_offset)

    @property
    def next_offset(self) -> int:
        return self._data.next_offset

    @property
    def is_closed(self) -> bool:
        return self._data.is_closed

    @property
    def is_held(self) -> bool:
        """Whether appends wait, because the partition is being handed over."""
        return self._data.is_held

    @property
    def knows_its_end(self) -> bool:
        """Returns False when another node may have appended: a client that asks for the end has to ask again (M24)."""
        return not self._may_be_led_elsewhere and not self.is_closed

    @property
    def times(self) -> TimeIndex:
        return self._times

    @property
    def producers(self) -> ProducerState:
        return self._producers

    @property
    def transactions(self) -> PartitionTransactions:
        return self._transactions

    # -- append ------------------------------------------------------------------------------------------

    def append(
        self,
        records: WritableBuffer,
        config: TopicConfig,
        produce_version: int,
        permission: TransactionPermission | None = None,
    ) -> Appended:
        """Appends a client's batch, which is changed in place; offsets are assigned in the order of the calls. Raises
        what ``admit`` and ``append_admitted`` raise; then nothing was appended."""
        admitted = admit(records, config, self._clock.now_ms(), produce_version)
        return self.append_admitted(admitted, permission)

    def append_admitted(
        self, admitted: Admitted, permission: TransactionPermission | None = None
    ) -> Appended:
        """``permission``: for the first batch of a transaction. Raises what ``PartitionTransactions.find_repeated``,
        ``require_appendable`` and ``StreamEngine.append`` raise, and EngineNotRunning; then nothing was appended."""
        now_ms = self._clock.now_ms()
        header = admitted.header
        if header.producer_id < 0:
            return self._append(admitted, now_ms)
        repeated = self._transactions.find_repeated(header)
        if repeated is not None:
            return self._answered_before(repeated)
        self._transactions.require_appendable(header, permission)
        appended = self._append(admitted, now_ms)
        self._transactions.batch_appended(
            header, appended.base_offset, appended.append_time_ms, now_ms, permission
        )
        self._remember_in_flight(appended)
        return appended

    def append_marker(self, ending: TransactionEnding) -> "asyncio.Future[int] | None":
        """Returns None if the marker is here already. Raises what ``PartitionTransactions.judge_marker`` and
        ``StreamEngine.append`` raise; then nothing was appended."""
        if self._transactions.judge_marker(ending) is MarkerVerdict.IS_REPEATED:
            return None
        now_ms = self._clock.now_ms()
        batch, header = _marker_batch(ending.marker, ending.producer_id, ending.producer_epoch, now_ms)
        appended = self._append(Admitted(bytearray(batch), header, NO_TIMESTAMP), now_ms)
        self._transactions.marker_appended(ending, appended.base_offset, now_ms)
        return appended.durable

    def append_own(self, batch: bytearray) -> "asyncio.Future[int]":
        """Appends a batch of the broker itself, without the checks of a client's."""
        appended = self._append(Admitted(batch, read_batch_header(batch), NO_TIMESTAMP), self._clock.now_ms())
        assert appended.durable is not None
        return appended.durable

    def _append(self, admitted: Admitted, now_ms: int) -> Appended:
        header = admitted.header
        base_offset = self._data.next_offset
        batch = _apart_from_its_request(admitted.batch)
        # In place, since Kafka's CRC covers neither field: the batch is neither copied nor checked a second time.
        patch_offset_and_epoch(batch, base_offset, self._data.epoch)
        durable = self._engine.append(
            self._data,
            batch,
            header.last_offset_delta + 1,
            _smallest_timestamp_ms(header),
            header.max_timestamp_ms,
        )
        self._account(header, base_offset, len(batch), now_ms)
        return Appended(base_offset, admitted.append_time_ms, durable)

    def _account(self, header: BatchHeader, base_offset: int, size_bytes: int, now_ms: int) -> None:
        end_offset = self._data.next_offset
        self.bytes_in += size_bytes
        self.requests += 1
        self._times.appended(header.max_timestamp_ms, base_offset, end_offset, size_bytes)
        if self.segments.appended(end_offset, size_bytes, header.max_timestamp_ms, now_ms):
            self._listener.segment_closed(self)
        self._bytes_since_snapshot += size_bytes
        if self._bytes_since_snapshot >= self._snapshot_bytes:
            self._bytes_since_snapshot = 0
            self._listener.snapshot_due(self)

    def _answered_before(self, repeated: SequencedBatch) -> Appended:
        """Returns the answer to a repeated batch: the same as to the first one, and durable when that is. Raises
        EngineNotRunning when the first append failed: only recovery will show whether that batch was stored."""
        durable = self._in_flight.get(repeated.base_offset)
        if durable is None and repeated.base_offset >= self.high_watermark:
            raise EngineNotRunning(
                f"the first append of this batch failed at offset {repeated.base_offset}: retry later"
            )
        return Appended(repeated.base_offset, repeated.append_time_ms, durable)

    def _remember_in_flight(self, appended: Appended) -> None:
        if appended.durable is not None:
            self._in_flight[appended.base_offset] = appended.durable
            appended.durable.add_done_callback(lambda _: self._in_flight.pop(appended.base_offset, None))

    # -- handing over ------------------------------------------------------------------------------------

    def hold(self) -> None:
        """From now on nothing is appended to the data stream; snapshots are still written. Reads continue.
        Idempotent."""
        self._data.hold()

    def hold_snapshots(self) -> None:
        """From now on nothing is appended to the meta stream either."""
        self._meta.hold()

    def forget_end(self) -> None:
        """From now on, until ``release``, another node may lead the partition."""
        self._may_be_led_elsewhere = True

    def release(self) -> None:
        """Appends continue, here or not at all: the ones that wait in ``wait_while_held`` look again. Idempotent."""
        self._may_be_led_elsewhere = False
        self._data.release()
        self._meta.release()
        for waiter in self._held_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._held_waiters.clear()

    def check_not_held(self) -> None:
        """Raises StreamHeld. A trim may need a snapshot, and none is written after the last one (M21)."""
        if self.is_held:
            raise StreamHeld(f"stream {self.stream_id} is being handed over: retry, perhaps at another node")

    async def wait_while_held(self, wait_ms: float) -> None:
        """Returns when the partition is released, at most ``wait_ms`` later."""
        if not self.is_held:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held_waiters[waiter] = None
        timer = self._clock.call_after_ms(wait_ms, lambda: None if waiter.done() else waiter.set_result(None))
        try:
            await waiter
        finally:
            timer.cancel()
            self._held_waiters.pop(waiter, None)

    async def wait_until_durable(self) -> None:
        """Returns when every append that has started is durable. Raises EngineNotRunning when one never will be."""
        if (last := self._data.next_offset - 1) >= 0:
            await self.wait_for(last)

    # -- share groups ------------------------------------------------------------------------------------

    def put_share(self, group_id: str, after: KnownShare) -> "asyncio.Future[int] | None":
        """Takes a share group's next state, and writes what the log does not have. Returns when that is durable; None
        if there was nothing to write. Raises TooManyShareGroups and what ``StreamEngine.append`` raises; then nothing
        has changed."""
        change = self.shares.change_to(group_id, after, self.leader_epoch)
        written = None if change is None else self._write_share(change)
        self.shares.put(group_id, after)
        return written

    def forget_share(self, group_id: str) -> "asyncio.Future[int] | None":
        """Deletes a share group's state. Returns and raises what ``put_share`` does."""
        change = self.shares.gone(group_id, self.leader_epoch)
        written = None if change is None else self._write_share(change)
        self.shares.forget(group_id)
        return written

    def _write_share(self, change: ShareChange) -> "asyncio.Future[int]":
        written = self._engine.append(self._meta, encode_share_change(change), 1)
        self.shares.changes_since_snapshot += 1
        if self.shares.changes_since_snapshot >= CHANGES_PER_SNAPSHOT_MAX:
            self.shares.changes_since_snapshot = 0
            self._listener.snapshot_due(self)
        return written

    # -- read --------------------------------------------------------------------------------------------

    async def read(self, offset: int, bytes_max: int) -> list[RecordBatch]:
        """See StreamEngine.read. At least one batch if there is any; the first one contains ``offset``."""
        return await self._engine.read(self._data, offset, bytes_max)

    def read_cached(self, offset: int, bytes_max: int) -> list[RecordBatch] | None:
        """Does the same as ``read``, from the tail cache only. None when ``offset`` is only in objects."""
        return self._engine.read_cached(self._data, offset, bytes_max)

    def cached_bytes(self, offset: int) -> int | None:
        """Bytes from the batch that contains ``offset`` to the high watermark. None when some of them are only in
        objects, and when ``offset`` has been trimmed."""
        if offset < self.log_start_offset:
            return None
        return self._engine.cached_bytes(self._data, offset)

    async def wait_for(self, offset: int) -> None:
        """Returns when the record at ``offset`` is durable. Raises StreamHandleClosed or EngineNotRunning when that
        can no longer happen."""
        while offset >= self.high_watermark:  # closing the partition wakes the waiters, too
            await self._data.wait_for(offset)

    def watch(self, callback: Callable[[], None]) -> None:
        """``callback`` is called when an offset moves, and when the partition is closed or fails."""
        self._data.watch(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._data.unwatch(callback)

    def epoch_end(self, asked_epoch: int) -> EpochEnd:
        return epoch_end(self._owner_ranges(), self.leader_epoch, self.high_watermark, asked_epoch)

    def epoch_of(self, offset: int) -> int:
        return epoch_of(self._owner_ranges(), self.leader_epoch, self.high_watermark, offset)

    # -- segments, trim and snapshot ---------------------------------------------------------------------

    def check_segment(self, config: TopicConfig, active_offset: int) -> None:
        """Closes the active segment if it is due by age. Called from time to time, also when nothing is appended;
        ``active_offset`` is where the metadata lets the active segment begin."""
        self.segments.follow(active_offset)
        if self.segments.check(config, self._clock.now_ms()):
            self._listener.segment_closed(self)

    async def trim(self, offset: int) -> None:
        """Trims the partition to ``offset``. A snapshot first stores what producers sent before it, which is then known
        after a crash, too. Raises OffsetBeyondEnds, EngineOverloaded. Not to be cancelled: the metadata may then have a
        trim that the partition has not."""
        if len(self._producers) and self._snapshot_offset < offset <= self.high_watermark:
            await self.write_snapshot()
        await self._engine.trim(self._data, offset)

    def _start_moved(self) -> None:
        """Called after every trim. Maintenance trims as well, and no snapshot may hold what producers sent in a trimmed
        segment that maintenance closed itself; so a snapshot is due."""
        self._times.trim(self.log_start_offset)
        self._transactions.trim(self.log_start_offset)
        self._pages.trim(self.log_start_offset)
        if len(self._producers) and self._snapshot_offset < self.log_start_offset:
            self._listener.snapshot_due(self)

    def expire_producers(self, before_ms: int) -> None:
        self._producers.expire(before_ms)

    @property
    def needs_snapshot(self) -> bool:
        return self._snapshot_offset != self._data.next_offset

    async def write_down_producers(self, offset: int) -> None:
        """Returns when a durable snapshot holds what producers sent before ``offset``, so that it survives a crash and
        a trim. Raises what ``write_snapshot`` raises."""
        if len(self._producers) and self._durable_snapshot_offset < offset:
            await self.write_snapshot()

    async def write_snapshot(self) -> None:
        """Appends a snapshot to the meta stream. In the write-ahead log it comes after the batches that it covers, so
        recovery never finds a snapshot without its batches."""
        covered = self._data.next_offset
        segments = self.segments
        aborted = self._write_full_pages()
        body = SnapshotBody(
            tuple(self._producers.entries()), self._times.state, segments.active, segments.unwritten,
            pack_aborted(aborted), self._pages.all, self.shares.states(self.leader_epoch),
        )  # fmt: skip
        written = self._engine.append(self._meta, encode_snapshot(PartitionSnapshot(covered, body)), 1)
        self._snapshot_offset = covered
        self.shares.changes_since_snapshot = 0
        meta_offset = await written
        self._durable_snapshot_offset = max(self._durable_snapshot_offset, covered)
        await self._engine.trim(self._meta, self._pages.oldest_needed(meta_offset))

    def _write_full_pages(self) -> list[AbortedTransaction]:
        """Appends the pages of aborted transactions that are full; returns the transactions behind them. The snapshot
        after them becomes durable later than they do, so it never names a page that is not there."""
        full, rest = self._pages.split(self._transactions.aborted)
        for page in full:
            meta_offset = self._meta.next_offset
            self._engine.append(self._meta, encode_aborted_page(pack_aborted(page)), 1)
            self._pages.written(meta_offset, page)
        return rest


MARKER_BATCHES_MAX = 16
"""Batches of markers that are kept, so that a commit builds one for all its partitions. A commit is one turn of the
event loop: the one before it is not needed again, unless its partitions are led by many nodes."""


@lru_cache(MARKER_BATCHES_MAX)
def _marker_batch(
    marker: TransactionMarker, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> tuple[bytes, BatchHeader]:
    """Returns the batch without an offset and a leader epoch, which the partition writes into its copy."""
    batch = build_control_batch(
        marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=timestamp_ms
    )
    return bytes(batch), read_batch_header(batch)


def _apart_from_its_request(batch: WritableBuffer) -> WritableBuffer:
    """Returns the batch, copied if it is less than half of its request. The tail cache counts the bytes of the batch,
    but a slice keeps the whole request in memory (rule 9)."""
    if isinstance(batch, memoryview) and 2 * len(batch) < memoryview(batch.obj).nbytes:
        return bytearray(batch)
    return batch


def _smallest_timestamp_ms(header: BatchHeader) -> int:
    """Returns the smallest timestamp as far as the header says: that of the first record, unless the largest is
    smaller."""
    if header.is_log_append_time:
        return header.max_timestamp_ms
    return min(header.base_timestamp_ms, header.max_timestamp_ms)
