"""The stream engine of one node: streams are opened, appended to, read, trimmed and closed here.

An append is answered when the WAL holds it durably and it stands in the tail cache, in WAL order (DESIGN rule 1).
Everything on this object happens on one event loop; only disk, store and metadata calls leave it. After a failure
of the WAL, or of a prepare or commit, the engine takes no more appends: opening it again recovers.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from siltstone.metadata.commands import CloseStream, CreateStream, DeleteStream, OpenStream, TrimStream
from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import NO_TIMESTAMP, RecordBatch
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.errors import (
    AppendTooLarge,
    EngineNotRunning,
    EngineOverloaded,
    OffsetBeyondEnds,
    RangeNotCovered,
    StreamAlreadyOpen,
    StreamHandleClosed,
)
from siltstone.stream_engine.pending import PendingAppend
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.tail.cache_block import CacheBlock
from siltstone.stream_engine.tail.tail_cache import TailCache, TailCacheStatistics
from siltstone.stream_engine.upload.pipeline import UploadPipeline, UploadStatistics
from siltstone.stream_engine.wal.port import WalStatistics

log = logging.getLogger(__name__)


class EngineState(Enum):
    """RUNNING → CLOSING → CLOSED; RUNNING | CLOSING → FAILED."""

    RUNNING = auto()
    CLOSING = auto()
    FAILED = auto()
    CLOSED = auto()


class EngineStatistics(msgspec.Struct, frozen=True):
    state: str
    streams_open: int
    appends_pending: int
    appends_waiting: int
    bytes_waiting: int
    wal: WalStatistics
    tail: TailCacheStatistics
    upload: UploadStatistics


class StreamEngine:
    """Made by ``siltstone.stream_engine.opening.open_engine``, which recovers first."""

    def __init__(self, components: EngineComponents, settings: EngineSettings, *, node_epoch: int) -> None:
        self._settings = settings
        self._metadata = components.metadata
        self._reader = components.reader
        self._wal = components.wal
        self._clock = components.clock
        self._node_id = settings.node_id
        self.node_epoch = node_epoch
        self._state = EngineState.RUNNING
        self._failure: Exception | None = None
        self._streams: dict[int, Stream] = {}
        self._pending: deque[PendingAppend] = deque()
        self._waiting: deque[PendingAppend] = deque()
        self._waiting_bytes = 0
        self._cache = TailCache(settings.tail_cache_bytes_max)
        self._pipeline = UploadPipeline(
            components.metadata, components.buckets, components.upload_calls, self._clock, settings.upload,
            node_id=self._node_id, node_epoch=node_epoch,
            on_committed=self._block_committed, on_failure=self._fail,
        )  # fmt: skip
        self._tasks = TaskGroup("engine", self._fail)

    async def start(self) -> None:
        await self._wal.start(self.node_epoch, self._made_durable, self._fail)
        self._tasks.start("seal-by-age", self._seal_by_age())

    # -- streams -----------------------------------------------------------------------------------------

    async def create_stream(self, tags: dict[str, str] | None = None) -> int:
        """A new, closed, empty stream's id."""
        return await self._metadata.execute(CreateStream(self._node_id, self.node_epoch, tags or {}))

    async def open_stream(self, stream_id: int, stream_epoch: int) -> Stream:
        """Raises the refusals of OpenStream (StreamFenced, StreamNotClosed, …), StreamAlreadyOpen."""
        self._refuse_unless_running()
        if stream_id in self._streams:
            raise StreamAlreadyOpen(f"stream {stream_id} is open already: use that handle, or close it first")
        metadata = await self._metadata.execute(
            OpenStream(self._node_id, self.node_epoch, stream_id, stream_epoch)
        )
        stream = self._streams[stream_id] = Stream(metadata)
        return stream

    async def close_stream(self, stream: Stream) -> None:
        """Waits until all of it is committed, then gives the stream back. Idempotent."""
        if stream.is_closed:
            return
        stream.close()
        await self._commit_everything()
        await self._metadata.execute(
            CloseStream(self._node_id, self.node_epoch, stream.stream_id, stream.epoch)
        )
        self._streams.pop(stream.stream_id, None)

    async def trim(self, stream: Stream, start_offset: int) -> None:
        """Records below ``start_offset`` are gone for readers. Moving it back changes nothing. Raises
        OffsetBeyondEnds."""
        if start_offset > stream.confirmed_offset:
            raise OffsetBeyondEnds(
                f"cannot trim stream {stream.stream_id} to {start_offset}: it ends at {stream.confirmed_offset}"
            )
        if start_offset <= stream.start_offset:
            return
        await self._metadata.execute(
            TrimStream(self._node_id, self.node_epoch, stream.stream_id, stream.epoch, start_offset)
        )
        stream.trim(start_offset)

    async def delete_stream(self, stream_id: int, stream_epoch: int) -> None:
        """The stream must be closed. Its data goes with compaction and garbage collection."""
        await self._metadata.execute(DeleteStream(self._node_id, self.node_epoch, stream_id, stream_epoch))

    # -- append ------------------------------------------------------------------------------------------

    def append(
        self,
        stream: Stream,
        payload: Buffer,
        record_count: int,
        smallest_timestamp_ms: int = NO_TIMESTAMP,
        largest_timestamp_ms: int = NO_TIMESTAMP,
    ) -> "asyncio.Future[int]":
        """Queue a batch; the future gives its base offset when it is durable and readable.

        Offsets are assigned here, in call order. The payload must not change until the answer. Without room in the
        tail cache or the WAL the append waits, in order. Raises EngineNotRunning, EngineOverloaded, AppendTooLarge,
        StreamHandleClosed before anything is queued.
        """
        self._refuse_unless_running()
        self._refuse_append(stream, payload, record_count)
        batch = stream.next_batch(payload, record_count, smallest_timestamp_ms, largest_timestamp_ms)
        pending = PendingAppend(stream, batch, asyncio.get_running_loop().create_future())
        if self._waiting or not self._has_room_for(pending):
            self._waiting.append(pending)
            self._waiting_bytes += pending.charge_bytes
            self._make_room()
        else:
            self._enqueue(pending)
        return pending.answer

    def _refuse_unless_running(self) -> None:
        if self._state is EngineState.RUNNING:
            return
        reason = f": {self._failure}" if self._failure else ""
        raise EngineNotRunning(f"the stream engine is {self._state.name.lower()}{reason}")

    def _refuse_append(self, stream: Stream, payload: Buffer, record_count: int) -> None:
        if stream.is_closed:
            raise StreamHandleClosed(f"stream {stream.stream_id} was closed: open it again")
        if record_count < 1:
            raise ValueError(f"a batch has at least one record, not {record_count}")
        if len(payload) > self._settings.append_bytes_max:
            raise AppendTooLarge(
                f"append of {len(payload)} bytes: at most {self._settings.append_bytes_max} "
                "(append_bytes_max)"
            )
        if self._waiting_bytes + len(payload) > self._settings.waiting_bytes_max:
            raise EngineOverloaded(
                f"{len(self._waiting)} appends wait for room, {self._waiting_bytes} bytes: try again later"
            )

    def _has_room_for(self, pending: PendingAppend) -> bool:
        return self._cache.has_room_for(pending.charge_bytes) and self._wal.has_room_for(
            len(pending.batch.payload)
        )

    def _enqueue(self, pending: PendingAppend) -> None:
        self._cache.reserve(pending.charge_bytes)
        queued = self._wal.append(pending.batch)
        pending.queued(queued.end_position, queued.frame_header)
        self._pending.append(pending)

    def _made_durable(self, position: int) -> None:
        """The WAL is durable up to ``position``: cache, confirm, answer; in WAL order (#3064)."""
        pending = self._pending
        upload = self._settings.upload
        if self._cache.active.is_empty:
            self._cache.active.first_put_ms = self._clock.monotonic_ms()
        while pending and pending[0].end_position <= position:
            append = pending.popleft()
            self._cache.put(append.cached(), append.end_position)
            append.stream.confirm(append.batch.end_offset)
            append.succeed()
            active = self._cache.active
            if (
                active.size_bytes >= upload.cache_block_bytes_max
                or len(active.streams) >= upload.cache_block_streams_max
            ):
                self._seal()
                self._cache.active.first_put_ms = self._clock.monotonic_ms()
        if self._waiting:
            self._make_room()

    # -- room, seal, upload ------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Admit who fits, in order; when the first does not, see that something is being uploaded (T16)."""
        while self._waiting and self._has_room_for(self._waiting[0]):
            pending = self._waiting.popleft()
            self._waiting_bytes -= pending.charge_bytes
            self._enqueue(pending)
        if self._waiting and self._pipeline.is_idle and not self._cache.active.is_empty:
            self._seal()

    def _seal(self) -> None:
        if not self._cache.active.is_empty:
            self._pipeline.submit(self._cache.seal())

    async def _seal_by_age(self) -> None:
        age_ms_max = self._settings.upload.cache_block_age_ms_max
        while True:
            active = self._cache.active
            age_ms = 0.0 if active.is_empty else self._clock.monotonic_ms() - active.first_put_ms
            if age_ms >= age_ms_max:
                self._seal()
            await self._clock.sleep_ms(max(age_ms_max - age_ms, age_ms_max / 10))

    async def _block_committed(self, block: CacheBlock) -> None:
        await self._wal.trim(block.end_position)
        self._cache.commit(block)
        self._make_room()

    async def flush(self) -> None:
        """Until everything appended before is committed. Raises EngineNotRunning when that cannot be."""
        await self._commit_everything()

    async def _commit_everything(self) -> None:
        waited_for = [append.answer for append in (*self._pending, *self._waiting)]
        if waited_for:
            await asyncio.wait(waited_for)
        self._seal()
        await self._pipeline.drain()
        if self._failure is not None:
            raise EngineNotRunning(f"the stream engine is failed: {self._failure}")

    # -- read --------------------------------------------------------------------------------------------

    async def read(
        self, stream: Stream, start_offset: int, bytes_max: int, end_offset: int | None = None
    ) -> list[RecordBatch]:
        """Batches from the one that holds ``start_offset`` on, in order, without gap, at least one if there is any.

        Stops at ``end_offset``, at the confirmed end, or when the payloads reach ``bytes_max``. Empty at the end of
        the stream: ``stream.wait_for(offset)`` waits for more. Raises OffsetBeyondEnds, RangeNotCovered, CorruptData.
        """
        confirmed = stream.confirmed_offset
        if not stream.start_offset <= start_offset <= confirmed:
            raise OffsetBeyondEnds(
                f"offset {start_offset} of stream {stream.stream_id} is outside "
                f"[{stream.start_offset}, {confirmed}]"
            )
        end = confirmed if end_offset is None else min(end_offset, confirmed)
        if start_offset >= end:
            return []
        cached = self._cache.suffix(stream.stream_id, start_offset, end)
        committed_end = cached[0].base_offset if cached else end
        batches: list[RecordBatch] = []
        if start_offset < committed_end:
            batches = await self._read_committed(stream, start_offset, committed_end, bytes_max)
            if batches[-1].end_offset < committed_end:
                return batches
        return batches + _within(cached, bytes_max - sum(map(len, batches)), at_least_one=not batches)

    async def _read_committed(
        self, stream: Stream, start: int, end: int, bytes_max: int
    ) -> list[RecordBatch]:
        """What objects hold of [start, end). The image of this node covers all it has committed or opened."""
        batches = await self._reader.read(stream.stream_id, start, end, bytes_max)
        if not batches:
            raise RangeNotCovered(
                f"no object holds offset {start} of stream {stream.stream_id}: run siltstone check"
            )
        return batches

    # -- end ---------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Commit everything, give all streams back, close the WAL. After a failure: leave the rest to recovery."""
        if self._state is EngineState.RUNNING:
            self._state = EngineState.CLOSING
            try:
                await self._close_streams()
            except EngineNotRunning as failure:
                log.error("closed without committing everything: %s", failure)
        await self._tasks.cancel()
        await self._pipeline.abort()
        await self._wal.close()
        if self._state is not EngineState.FAILED:
            self._state = EngineState.CLOSED

    async def _close_streams(self) -> None:
        await self._commit_everything()
        await asyncio.gather(*(self.close_stream(stream) for stream in list(self._streams.values())))

    def statistics(self) -> EngineStatistics:
        return EngineStatistics(
            state=self._state.name,
            streams_open=len(self._streams),
            appends_pending=len(self._pending),
            appends_waiting=len(self._waiting),
            bytes_waiting=self._waiting_bytes,
            wal=self._wal.statistics(),
            tail=self._cache.statistics(),
            upload=self._pipeline.statistics(),
        )

    def _fail(self, failure: BaseException) -> None:
        """Stop taking appends. What is not answered fails; whether it stands, recovery will tell."""
        if self._state in (EngineState.FAILED, EngineState.CLOSED):
            return
        log.error("the stream engine stops: %s", failure)
        self._state = EngineState.FAILED
        self._failure = failure if isinstance(failure, Exception) else RuntimeError(repr(failure))
        unanswered = [*self._pending, *self._waiting]
        self._pending.clear()
        self._waiting.clear()
        for append in unanswered:
            append.fail(EngineNotRunning(f"the stream engine failed: {failure}"))


def _within(batches: Sequence[RecordBatch], bytes_max: int, *, at_least_one: bool) -> list[RecordBatch]:
    """The first batches whose payloads together stay within ``bytes_max``."""
    taken: list[RecordBatch] = []
    for batch in batches:
        bytes_max -= len(batch.payload)
        if bytes_max < 0 and not (at_least_one and not taken):
            break
        taken.append(batch)
    return taken
