"""The stream engine of one node: streams are opened, appended to, read, trimmed and closed here.

An append is answered when the WAL holds it durably and it stands in the tail cache, in WAL order (DESIGN rule 1).
Everything on this object happens on one event loop; only disk, store and metadata calls leave it. After a failure
of the WAL, or of a prepare or commit, the engine takes no more appends: opening it again recovers.
"""

import asyncio
import logging
from collections import deque
from contextlib import suppress

from siltstone.metadata.commands import CloseStream, CreateStream, DeleteStream, OpenStream, TrimStream
from siltstone.metadata.refusals import OffsetNotMatched
from siltstone.model.buffers import Buffer, is_buffer
from siltstone.model.errors import SiltstoneError
from siltstone.model.record_batch import NO_TIMESTAMP, RecordBatch
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.engine_state import EngineState, EngineStatistics
from siltstone.stream_engine.errors import (
    AppendTooLarge,
    EngineNotRunning,
    EngineOverloaded,
    OffsetBeyondEnds,
    PayloadNotBytes,
    RangeNotCovered,
    StreamAlreadyOpen,
    StreamHandleClosed,
)
from siltstone.stream_engine.pending import PendingAppend
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.tail.cache_block import CacheBlock
from siltstone.stream_engine.tail.cached_batch import charge_of
from siltstone.stream_engine.tail.stream_tail import first_within
from siltstone.stream_engine.tail.tail_cache import TailCache
from siltstone.stream_engine.upload.pipeline import UploadPipeline

log = logging.getLogger(__name__)


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
        self._opening: set[int] = set()
        self._ending = asyncio.Lock()
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
        if stream_id in self._streams or stream_id in self._opening:
            raise StreamAlreadyOpen(f"stream {stream_id} is open already: use that handle, or close it first")
        self._opening.add(stream_id)
        try:
            metadata = await self._metadata.execute(
                OpenStream(self._node_id, self.node_epoch, stream_id, stream_epoch)
            )
        finally:
            self._opening.discard(stream_id)
        self._refuse_unless_running()
        stream = self._streams[stream_id] = Stream(metadata)
        return stream

    async def close_stream(self, stream: Stream) -> None:
        """Waits until all of it is committed, then gives the stream back. Idempotent, after a failure too."""
        if self._streams.get(stream.stream_id) is not stream:
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
        with suppress(OffsetNotMatched):  # a trim that was asked for meanwhile went further
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
        tail cache or the WAL the append waits, in order. Raises EngineNotRunning, EngineOverloaded, PayloadNotBytes,
        AppendTooLarge, StreamHandleClosed, ImpossibleBatch before anything is queued.
        """
        self._refuse_unless_running()
        self._refuse_append(stream, payload)
        must_wait = bool(self._waiting) or not self._has_room_for(len(payload))
        if must_wait:
            self._refuse_overload(len(payload))
        batch = stream.next_batch(payload, record_count, smallest_timestamp_ms, largest_timestamp_ms)
        pending = PendingAppend(stream, batch, asyncio.get_running_loop().create_future())
        if must_wait:
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

    def _refuse_append(self, stream: Stream, payload: Buffer) -> None:
        if stream.is_closed or self._streams.get(stream.stream_id) is not stream:
            raise StreamHandleClosed(f"stream {stream.stream_id} was closed, or another engine opened it")
        if not is_buffer(payload):
            kind = type(payload).__name__
            raise PayloadNotBytes(f"a payload is bytes, a bytearray or a memoryview of bytes, not {kind}")
        if len(payload) > self._settings.append_bytes_max:
            raise AppendTooLarge(
                f"append of {len(payload)} bytes: at most {self._settings.append_bytes_max} "
                "(append_bytes_max)"
            )

    def _refuse_overload(self, payload_bytes: int) -> None:
        if self._waiting_bytes + charge_of(payload_bytes) > self._settings.waiting_bytes_max:
            raise EngineOverloaded(
                f"{len(self._waiting)} appends wait for room, {self._waiting_bytes} bytes: try again later"
            )

    def _has_room_for(self, payload_bytes: int) -> bool:
        return self._cache.has_room_for(charge_of(payload_bytes)) and self._wal.has_room_for(payload_bytes)

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
        while self._waiting and self._has_room_for(len(self._waiting[0].batch.payload)):
            pending = self._waiting.popleft()
            self._waiting_bytes -= pending.charge_bytes
            self._enqueue(pending)
        if self._waiting and not self._cache.is_uploading:
            self._seal()

    def _seal(self) -> None:
        if self._failure is None and not self._cache.active.is_empty:
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
        if queue := self._waiting or self._pending:
            await queue[-1].wait_until_settled()
        self._refuse_after_failure()
        self._seal()
        await self._pipeline.drain()
        self._refuse_after_failure()

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            raise EngineNotRunning(f"the stream engine failed: {self._failure}")

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
        return batches + first_within(cached, bytes_max - sum(map(len, batches)), at_least_one=not batches)

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
        """Commit everything, give all streams back, close the WAL. What cannot be committed is left to recovery.
        Idempotent; who gave up waiting may call it again and gets an end without commits."""
        async with self._ending:
            if self._state is EngineState.RUNNING:
                self._state = EngineState.CLOSING
                await self._close_streams_if_possible()
            await self._tasks.cancel()
            await self._pipeline.abort()
            await self._wal.close()
            if self._state is not EngineState.FAILED:
                self._state = EngineState.CLOSED

    async def _close_streams_if_possible(self) -> None:
        try:
            await self._close_streams()
        except SiltstoneError as failure:
            log.error("closed without committing everything: %s", failure)

    async def _close_streams(self) -> None:
        await self._commit_everything()
        closings = [self.close_stream(stream) for stream in list(self._streams.values())]
        for outcome in await asyncio.gather(*closings, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

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
        self._waiting_bytes = 0
        for append in unanswered:
            append.fail(EngineNotRunning(f"the stream engine failed: {failure}"))
        for stream in self._streams.values():
            stream.fail(EngineNotRunning(f"the stream engine failed: {failure}"))
