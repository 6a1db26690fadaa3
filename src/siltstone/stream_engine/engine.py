"""The stream engine of one node opens, appends to, reads, trims and closes streams.

Appends are answered in WAL order, each when the WAL holds it durably and it is in the tail cache (rule 1). The engine
runs on one event loop; only calls to the disk, the buckets and the metadata log run in threads. After a failure of the
WAL, or of a prepare or commit, the engine accepts no more appends; opening it again recovers.
Next: ``append_queue`` (from the call to the answer), ``sealing``, ``upload.pipeline``, ``stream_reads``.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from siltstone.metadata.commands import (
    CloseStream,
    CreateStream,
    DeleteStream,
    OpenPartition,
    OpenStream,
    TrimStream,
)
from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import OffsetNotMatched, StreamFenced, StreamNotExist
from siltstone.metadata.service import ServiceClosed
from siltstone.model.buffers import Buffer, is_buffer
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.record_batch import NO_TIMESTAMP, RecordBatch
from siltstone.runtime.tasks import TaskGroup, ends_while_it_progresses
from siltstone.stream_engine.append_queue import AppendQueue
from siltstone.stream_engine.components import EngineComponents, EngineState, EngineStatistics, Readiness
from siltstone.stream_engine.errors import (
    AppendTooLarge,
    EngineNotRunning,
    OffsetBeyondEnds,
    PayloadNotBytes,
    StreamAlreadyOpen,
    StreamHandleClosed,
    StreamHeld,
)
from siltstone.stream_engine.recovery import NOTHING_CARRIED, CarriedLog, close_in_metadata
from siltstone.stream_engine.sealing import Sealing
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.stream_reads import StreamReads
from siltstone.stream_engine.tail.cache_block import CacheBlock
from siltstone.stream_engine.tail.tail_cache import TailCache
from siltstone.stream_engine.upload.pipeline import UploadPipeline
from siltstone.stream_engine.version_marks import VersionMarks
from siltstone.stream_engine.wal.ownership import leave_empty, note_metadata

log = logging.getLogger(__name__)


class StreamEngine:
    """Made by ``siltstone.stream_engine.opening.open_engine``, which recovers first."""

    def __init__(self, components: EngineComponents, settings: EngineSettings, *, node_epoch: int) -> None:
        self._settings = settings
        self.append_bytes_max = settings.append_bytes_max
        self._metadata = components.metadata
        self._wal = components.wal
        self._clock = components.clock
        self._upload_calls = components.upload_calls
        self.silent_buckets = components.buckets.silent_urls
        self.node_id = settings.node_id
        self.node_epoch = node_epoch
        self._state = EngineState.RUNNING
        self._failure: Exception | None = None
        self._failed = asyncio.Event()
        self._is_metadata_damaged = False  # or has lost entries: this node may have read what is gone
        self.is_clean = False
        """Whether the engine was closed with everything committed, so that the next start has nothing to recover."""
        self.reason_not_clean = ""
        """Why it was closed without that; empty while it runs."""
        self._carried_streams: tuple[StreamMetadata, ...] = ()
        self._carried_ends: dict[int, int] = {}
        self._streams: dict[int, Stream] = {}
        self._opening: set[int] = set()
        self._ending = asyncio.Lock()
        self._cache = TailCache(settings.tail_cache_bytes_max)
        self._reads = StreamReads(self._cache, components.reader)
        self._pipeline = UploadPipeline(
            components.metadata, components.buckets, components.upload_calls, components.clock, settings.upload,
            node_id=self.node_id, node_epoch=node_epoch, guards=components.guards,
            on_committed=self._block_committed, on_failure=self._fail,
        )  # fmt: skip
        self._sealing = Sealing(self._cache, settings.upload, components.clock, self._pipeline.submit)
        self._appends = AppendQueue(
            self._wal, self._cache, settings.waiting_bytes_max, components.clock, lambda: self._image.version,
            on_cached=self._sealing.batch_cached, on_room_wanted=self._sealing.seal,
        )  # fmt: skip
        self._marks = VersionMarks(
            components.guards, components.metadata, components.upload_calls, components.clock
        )
        self._tasks = TaskGroup("engine", self._fail)
        self._image = components.metadata.image
        self._stop_following = components.metadata.add_listener(self._follow)

    async def start(self, carried: CarriedLog = NOTHING_CARRIED) -> None:
        self._carried_streams, self._carried_ends = carried.streams, carried.stream_ends
        await self._wal.start(self.node_epoch, self._appends.made_durable, self._fail, carried.end_position)
        for block in carried.blocks:
            self._cache.carry(block)
            self._cache.active.first_put_ms = self._clock.monotonic_ms()
            self._sealing.seal()
        self._tasks.start("seal-by-age", self._sealing.by_age())
        self._tasks.start("mark-versions", self._marks.from_time_to_time())
        probing = self._pipeline.upload_buckets.probe_from_time_to_time
        self._tasks.start("probe-buckets", probing(self._upload_calls, self.node_id, self._tasks))
        self._metadata.add_failure_listener(self._metadata_failed)

    def run_beside(self, name: str, body: Coroutine[Any, Any, None]) -> None:
        """Runs a task of the node until the engine is closed. When it fails the engine has failed, as with its own."""
        self._tasks.start(name, body)

    def _follow(self, image: MetadataImage) -> None:
        """Trims the open streams whose start offset maintenance has moved in the metadata."""
        for stream_id, metadata in image.streams.changed_from(self._image.streams):
            if (stream := self._streams.get(stream_id)) is not None:
                stream.trim(min(metadata.start_offset, stream.confirmed_offset))
        self._image = image

    # -- streams -----------------------------------------------------------------------------------------

    async def create_stream(self, tags: dict[str, str] | None = None) -> int:
        """Creates a closed, empty stream and returns its id."""
        return await self._metadata.execute(CreateStream(self.node_id, self.node_epoch, tags or {}))

    async def open_stream(self, stream_id: int, stream_epoch: int) -> Stream:
        """Opens a stream. Streams that are opened at the same time share one append to the metadata log. Raises the
        refusals of OpenStream (StreamFenced, StreamNotClosed, …), StreamAlreadyOpen, EngineNotRunning."""
        self._refuse_unless_running()
        command = OpenStream(self.node_id, self.node_epoch, stream_id, stream_epoch)
        async with self._opening_of(stream_id):
            metadata = await self._metadata.execute(command)
            self._refuse_unless_running()
            return self._opened(metadata)

    async def open_partition(
        self, topic_id: str, index: int, stream_ids: tuple[int, int]
    ) -> tuple[Stream, Stream]:
        """Opens the data stream and the meta stream of a partition with one command, each under its next epoch.
        ``stream_ids`` are theirs, in that order. Raises the refusals of OpenPartition (NotLeader, …),
        StreamAlreadyOpen, EngineNotRunning."""
        self._refuse_unless_running()
        command = OpenPartition(self.node_id, self.node_epoch, topic_id, index)
        async with self._opening_of(*stream_ids):
            opened = await self._metadata.execute(command)
            self._refuse_unless_running()
            return self._opened(opened.data), self._opened(opened.meta)

    @asynccontextmanager
    async def _opening_of(self, *stream_ids: int) -> AsyncIterator[None]:
        """A handle whose closing failed, as while the metadata log was out, is closed first: its partition would have
        no leader until this node ends."""
        handles = [self._streams[stream_id] for stream_id in stream_ids if stream_id in self._streams]
        for stream_id in stream_ids:
            is_open = any(each.stream_id == stream_id and not each.is_closed for each in handles)
            if is_open or stream_id in self._opening:
                raise StreamAlreadyOpen(
                    f"stream {stream_id} is open at this engine already: use that handle, or close it first"
                )
        self._opening.update(stream_ids)
        try:
            with suppress(StreamFenced):  # another node has opened it since
                await self.close_streams(handles)
            yield
        finally:
            self._opening.difference_update(stream_ids)

    def _opened(self, metadata: StreamMetadata) -> Stream:
        stream_id = metadata.stream_id
        stream = self._streams[stream_id] = Stream(metadata)
        stream.continue_at(self._carried_ends.get(stream_id, 0))
        if (newest := self._metadata.image.streams.get(stream_id)) is not None:
            stream.trim(min(newest.start_offset, stream.confirmed_offset))
        return stream

    async def close_stream(self, stream: Stream) -> None:
        """Waits until everything appended to the stream is committed, then closes the stream in the metadata.
        Idempotent, also after a failure. Raises EngineNotRunning."""
        await self.close_streams((stream,))

    async def close_streams(self, streams: Iterable[Stream]) -> None:
        """Closes several streams as ``close_stream`` does, with one seal and one wait for all of them, and without
        either when everything is committed."""
        closing = [stream for stream in streams if self._streams.get(stream.stream_id) is stream]
        if not closing:
            return
        for stream in closing:
            stream.close()
        if any(self._has_uncommitted(stream) for stream in closing):
            await self.flush()
        self._refuse_after_failure()
        outcomes = await asyncio.gather(*map(self._close_in_metadata, closing), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _has_uncommitted(self, stream: Stream) -> bool:
        return stream.confirmed_offset < stream.next_offset or self._cache.has_uncommitted(stream.stream_id)

    async def _close_in_metadata(self, stream: Stream) -> None:
        try:
            await self._metadata.execute(
                CloseStream(self.node_id, self.node_epoch, stream.stream_id, stream.epoch)
            )
        except StreamNotExist:  # the stream was deleted since: there is nothing to close
            pass
        except StreamFenced:  # all of it is committed, and another node has it
            self.forget_stream(stream)
            raise
        self.forget_stream(stream)

    def forget_stream(self, stream: Stream) -> None:
        """Closes the handle of a stream whose deletion is committed, without committing what was appended to it.
        Readers that wait for an offset of the stream are woken, later appends are refused, pending ones are answered.
        Idempotent."""
        stream.close()
        if self._streams.get(stream.stream_id) is stream:
            del self._streams[stream.stream_id]

    async def trim(self, stream: Stream, start_offset: int) -> None:
        """Moves the stream's start forward: records below ``start_offset`` can no longer be read. A ``start_offset`` at
        or below the current one changes nothing. Raises OffsetBeyondEnds."""
        if start_offset > stream.confirmed_offset:
            raise OffsetBeyondEnds(
                f"stream {stream.stream_id} cannot be trimmed to {start_offset}: it ends at {stream.confirmed_offset}"
            )
        if start_offset <= stream.start_offset:
            return
        with suppress(OffsetNotMatched):  # another trim has moved the start further
            await self._metadata.execute(
                TrimStream(self.node_id, self.node_epoch, stream.stream_id, stream.epoch, start_offset)
            )
        stream.trim(start_offset)

    async def delete_stream(self, stream_id: int, stream_epoch: int) -> None:
        """Deletes a closed stream. Compaction and garbage collection remove its data. Raises the refusals of
        DeleteStream."""
        await self._metadata.execute(DeleteStream(self.node_id, self.node_epoch, stream_id, stream_epoch))

    # -- append ------------------------------------------------------------------------------------------

    def append(
        self,
        stream: Stream,
        payload: Buffer,
        record_count: int,
        smallest_timestamp_ms: int = NO_TIMESTAMP,
        largest_timestamp_ms: int = NO_TIMESTAMP,
    ) -> "asyncio.Future[int]":
        """Queues a batch; the future returns its base offset when the batch is durable and readable. Offsets are
        assigned in the order of the calls. The payload must not change before the future is done. Without room in the
        tail cache or the WAL the append waits, in call order. Raises EngineNotRunning, EngineOverloaded, LogDiskFull,
        PayloadNotBytes, AppendTooLarge, StreamHandleClosed, StreamHeld, ImpossibleBatch before anything is queued; the
        future raises EngineNotRunning."""
        self._refuse_unless_running()
        self._refuse_append(stream, payload)
        # Refusals come before next_batch gives the offset away: a refused append must leave no gap in the stream.
        must_wait = self._appends.must_wait(len(payload))
        batch = stream.next_batch(payload, record_count, smallest_timestamp_ms, largest_timestamp_ms)
        return self._appends.submit(stream, batch, must_wait=must_wait)

    def _refuse_unless_running(self) -> None:
        if self._state is EngineState.RUNNING:
            return
        reason = f": {self._failure}" if self._failure else ""
        raise EngineNotRunning(f"the stream engine is {self._state.name.lower()}{reason}")

    def _refuse_append(self, stream: Stream, payload: Buffer) -> None:
        if stream.is_closed or self._streams.get(stream.stream_id) is not stream:
            raise StreamHandleClosed(
                f"the handle of stream {stream.stream_id} was closed, or another engine opened it: open the stream here"
            )
        if stream.is_held:
            raise StreamHeld(
                f"stream {stream.stream_id} is being handed over: retry, perhaps at another node"
            )
        if not is_buffer(payload):
            kind = type(payload).__name__
            raise PayloadNotBytes(
                f"the payload of an append to stream {stream.stream_id} is a {kind}: give bytes, a bytearray or a "
                "memoryview of bytes"
            )
        if len(payload) > (most := self.append_bytes_max):
            appended = f"an append to stream {stream.stream_id} has {len(payload)} bytes"
            raise AppendTooLarge(f"{appended}: at most {most} are allowed (append_bytes_max)")

    @property
    def has_waiting_appends(self) -> bool:
        """Whether appends wait for room. A server then accepts no further requests until there is room."""
        return self._appends.appends_waiting > 0

    @property
    def bytes_waiting(self) -> int:
        """Bytes reserved by appends that are waiting for room."""
        return self._appends.bytes_waiting

    async def wait_for_room(self) -> None:
        await self._appends.wait_for_room()

    async def flush(self) -> None:
        """Waits until everything appended before this call is committed. Raises EngineNotRunning when it cannot be."""
        await self._appends.wait_until_settled()
        self._refuse_after_failure()
        self._sealing.seal()
        await self._pipeline.drain()
        self._refuse_after_failure()

    async def forget_uploaded(self) -> None:
        """Drops committed batches from the tail cache and the files of the log."""
        self._cache.evict_committed()
        await self._wal.forget_trimmed()

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            raise EngineNotRunning(f"the stream engine failed: {self._failure}")

    async def _block_committed(self, block: CacheBlock) -> None:
        await self._wal.trim(block.end_position)
        self._cache.commit(block)
        self._appends.make_room()

    # -- read --------------------------------------------------------------------------------------------

    async def read(
        self, stream: Stream, start_offset: int, bytes_max: int, end_offset: int | None = None
    ) -> list[RecordBatch]:
        """Returns batches in order and without gap, beginning with the one that holds ``start_offset``; at least one
        if there is any.

        The read stops at ``end_offset``, at the confirmed end, or before the payloads exceed ``bytes_max``. The list is
        empty at the end of the stream, where ``stream.wait_for(offset)`` waits for more. Raises OffsetBeyondEnds,
        RangeNotCovered, CorruptData.
        """
        return await self._reads.read(stream, start_offset, bytes_max, end_offset)

    def read_cached(
        self, stream: Stream, start_offset: int, bytes_max: int, end_offset: int | None = None
    ) -> list[RecordBatch] | None:
        """Returns what ``read`` would return, without waiting; None when some of it is in objects only. Raises
        OffsetBeyondEnds."""
        return self._reads.read_cached(stream, start_offset, bytes_max, end_offset)

    def cached_bytes(self, stream: Stream, start_offset: int) -> int | None:
        """Returns the number of payload bytes from the batch that holds ``start_offset`` to the confirmed end; None
        when some of them are in objects only. Raises OffsetBeyondEnds."""
        return self._reads.cached_bytes(stream, start_offset)

    # -- end ---------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Commits everything, closes all streams in the metadata, closes the WAL. When committing fails, or makes no
        progress for ``close_time_limit_ms``, the rest is left to recovery. Idempotent: a caller that cancelled the
        first call may call again, and the engine then ends without further commits."""
        async with self._ending:
            if self._state is EngineState.RUNNING:
                self._state = EngineState.CLOSING
                await self._close_streams_if_possible()
            await self._tasks.cancel()
            await self._pipeline.abort()
            if self._is_metadata_damaged:
                await self._in_time(self._note_metadata())
            await self._wal.close()
            self._stop_following()
            if self._state is not EngineState.FAILED:
                self._state = EngineState.CLOSED
                self._fail_waiting("the stream engine was closed")

    async def _close_streams_if_possible(self) -> None:
        try:
            in_time = await self._in_time(self._close_streams())
        except SiltstoneError as failure:
            self._note_not_clean(str(failure))
            return
        if not in_time:
            outage, limit_ms = self._pipeline.outage, self._settings.close_time_limit_ms
            cause = "" if outage is None else f": uploads to {outage.place} fail: {outage.cause}"
            self._note_not_clean(f"no progress for {limit_ms} ms (close_time_limit_ms){cause}")

    async def _in_time(self, work: Coroutine[Any, Any, None]) -> bool:
        limit_ms = self._settings.close_time_limit_ms
        return await ends_while_it_progresses(work, lambda: self.progress, self._clock, limit_ms)

    def _note_not_clean(self, reason: str) -> None:
        self.reason_not_clean = reason
        log.error(
            "node %d: the engine stopped before everything was uploaded: %s; the write-ahead log has the rest, the "
            "next start uploads it",
            self.node_id, reason,
        )  # fmt: skip

    async def _close_streams(self) -> None:
        await self.flush()
        await self.close_streams(list(self._streams.values()))
        await self._close_carried()
        await leave_empty(self._wal, self._metadata, self.node_id, self.node_epoch)
        self.is_clean = True
        await self._note_metadata()

    async def _note_metadata(self) -> None:
        """Records in the log's folder and in the buckets the newest metadata that this node has read."""
        await note_metadata(self._wal, self._metadata.image.position)
        await self._marks.mark()

    async def _close_carried(self) -> None:
        """Closes the streams of the earlier start that were not opened since. All their records are committed now."""
        image = self._metadata.image
        left = [image.streams.get(stream.stream_id) for stream in self._carried_streams]
        await close_in_metadata(
            self._metadata, self.node_id, self.node_epoch,
            [stream for stream in left if stream is not None and stream.state is StreamState.OPENED],
        )  # fmt: skip

    async def raise_when_failed(self) -> None:
        """Waits until the engine has failed, then raises EngineNotRunning: nothing can be stored until it is opened
        again."""
        await self._failed.wait()
        self._refuse_after_failure()

    def statistics(self) -> EngineStatistics:
        readiness, reason = self.readiness
        return EngineStatistics(
            state=self._state.name,
            readiness=readiness.value,
            reason=reason,
            streams_open=len(self._streams),
            appends_pending=self._appends.appends_pending,
            appends_waiting=self._appends.appends_waiting,
            bytes_waiting=self._appends.bytes_waiting,
            wal=self._wal.statistics(),
            tail=self._cache.statistics(),
            upload=self._pipeline.statistics(),
            append_seconds=self._appends.seconds,
            oldest_uncommitted_seconds=self._oldest_uncommitted_seconds(),
        )

    def _oldest_uncommitted_seconds(self) -> float:
        since_ms = self._cache.oldest_uncommitted_ms
        return 0.0 if since_ms is None else (self._clock.monotonic_ms() - since_ms) / 1000

    @property
    def progress(self) -> tuple[int, ...]:
        """Changes whenever something was made durable, uploaded or committed."""
        return (self._wal.statistics().bytes_written, *self._pipeline.progress)

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def readiness(self) -> tuple[Readiness, str]:
        """Whether appends are answered, and if not, or not for long, why and what to do."""
        if self._state is not EngineState.RUNNING:
            why = f"the stream engine is {self._state.name.lower()}: {self._failure or ''}"
            return Readiness.STOPPED, why
        if trouble := self._wal.statistics().words_of_trouble:
            return Readiness.FULL, trouble
        if (outage := self._pipeline.outage) is None:
            return Readiness.READY, ""
        reason = f"uploads to {outage.place} fail: {outage.cause}. {outage.remedy}"
        if self.has_waiting_appends:
            return Readiness.FULL, f"appends wait for room, because {reason}"
        full = "appends will wait as soon as the log or the tail cache is full"
        return Readiness.FILLING, f"{full}, because {reason}"

    def abandon(self, reason: str) -> None:
        """Stops the engine as a failure does: closing it commits nothing, and what is acknowledged and not committed
        is in the write-ahead log, for the next start."""
        self._fail(EngineNotRunning(reason))

    def _fail(self, failure: BaseException) -> None:
        """Stops the engine: unanswered appends fail (some may be durable; recovery finds those), later ones are
        refused."""
        if self._state in (EngineState.FAILED, EngineState.CLOSED):
            return
        log.error(
            "the stream engine of node %d has failed and accepts no more appends: %s", self.node_id, failure
        )
        self._state = EngineState.FAILED
        self.reason_not_clean = str(failure)
        self._failure = failure if isinstance(failure, Exception) else RuntimeError(repr(failure))
        self._failed.set()
        self._sealing.stop()
        self._fail_waiting(f"the stream engine failed: {failure}")

    def _metadata_failed(self, failure: BaseException) -> None:
        """Fails the engine even if it has nothing to commit now: nothing could be committed any more."""
        self._is_metadata_damaged = isinstance(failure, CorruptData)
        self._fail(ServiceClosed(f"the metadata service failed: {failure!r}"))

    def _fail_waiting(self, reason: str) -> None:
        """Fails every unanswered append, and every wait for an offset of an open stream."""
        self._appends.fail(reason)
        for stream in list(self._streams.values()):  # a watcher that is called may forget streams
            stream.fail(EngineNotRunning(reason))
