"""Appends between the call and the answer: *waiting* for room, then *pending* in the write-ahead log.

Appends are answered in log order, each when the log holds it durably and its batch is in the tail cache (rule 1).
Without room in the cache or the log an append waits, in call order; the bytes that may wait are limited (rule 9).
``sealing`` makes room: a sealed block is uploaded and committed.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from siltstone.foundation.histogram import Histogram, HistogramCounts
from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import RecordBatch
from siltstone.runtime.clock import Clock
from siltstone.stream_engine.errors import EngineNotRunning, EngineOverloaded, LogDiskFull
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.tail.cache_block import CachedBatch, charge_of
from siltstone.stream_engine.tail.tail_cache import TailCache
from siltstone.stream_engine.wal.port import WriteAheadLog


class PendingAppend:
    """One append, with the future that answers it."""

    __slots__ = (
        "_settled", "answer", "batch", "begun_ms", "charge_bytes", "end_position", "frame_header", "stream",
    )  # fmt: skip

    def __init__(
        self, stream: Stream, batch: RecordBatch, answer: "asyncio.Future[int]", begun_ms: float
    ) -> None:
        self.stream = stream
        self.begun_ms = begun_ms
        self.batch = batch
        self.answer = answer
        self.charge_bytes = charge_of(len(batch.payload))
        self.end_position = 0
        self.frame_header: Buffer = b""
        self._settled: asyncio.Future[None] | None = None

    def queued(self, end_position: int, frame_header: Buffer) -> None:
        self.end_position = end_position
        self.frame_header = frame_header

    def cached(self) -> CachedBatch:
        return CachedBatch(self.batch, self.frame_header)

    def succeed(self) -> None:
        if not self.answer.done():  # the caller may have cancelled it; the append is valid all the same
            self.answer.set_result(self.batch.base_offset)
        self._settle()

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # marked as seen: asyncio need not log it when the caller does not wait any more
        self._settle()

    async def wait_until_settled(self) -> None:
        """Waits until the append has succeeded or failed. ``answer`` does not show that: its caller may cancel it."""
        if self._settled is None:
            self._settled = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._settled,))

    def _settle(self) -> None:
        if self._settled is not None:
            self._settled.set_result(None)


class AppendQueue:
    """``metadata_version`` returns the version of the metadata that the node has read. ``on_cached`` is called for each
    batch that enters the cache; ``on_room_wanted`` when appends wait and no upload that would make room for them is
    under way."""

    def __init__(
        self,
        wal: WriteAheadLog,
        cache: TailCache,
        waiting_bytes_max: int,
        clock: Clock,
        metadata_version: Callable[[], int],
        on_cached: Callable[[], None],
        on_room_wanted: Callable[[], None],
    ) -> None:
        self._wal = wal
        self._cache = cache
        self._waiting_bytes_max = waiting_bytes_max
        self._clock = clock
        self._metadata_version = metadata_version
        self._seconds = Histogram()
        self._on_cached = on_cached
        self._on_room_wanted = on_room_wanted
        self._pending: deque[PendingAppend] = deque()
        self._waiting: deque[PendingAppend] = deque()
        self._waiting_bytes = 0
        self._room_waiters: list[asyncio.Future[None]] = []

    @property
    def appends_pending(self) -> int:
        return len(self._pending)

    @property
    def appends_waiting(self) -> int:
        return len(self._waiting)

    @property
    def bytes_waiting(self) -> int:
        return self._waiting_bytes

    @property
    def seconds(self) -> HistogramCounts:
        """The seconds from the call of each append to its answer."""
        return self._seconds.counts()

    # -- in ----------------------------------------------------------------------------------------------

    def must_wait(self, payload_bytes: int) -> bool:
        """Returns whether an append of this size would have to wait for room. Raises EngineOverloaded when it would,
        and the bytes that wait would exceed their limit; LogDiskFull when the log has no space for it."""
        if why := self._wal.why_refused(payload_bytes):
            if not self._cache.is_uploading:
                self._on_room_wanted()  # what is committed gives the log files to use again
            raise LogDiskFull(why)
        if not self._waiting and self._has_room_for(payload_bytes):
            return False
        if self._waiting_bytes + charge_of(payload_bytes) > self._waiting_bytes_max:
            raise EngineOverloaded(
                f"{len(self._waiting)} appends with {self._waiting_bytes} bytes wait for room, and at most "
                f"{self._waiting_bytes_max} bytes may wait: try again later"
            )
        return True

    def submit(self, stream: Stream, batch: RecordBatch, *, must_wait: bool) -> "asyncio.Future[int]":
        """Queues the batch; returns a future of its base offset."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        pending = PendingAppend(stream, batch, answer, self._clock.monotonic_ms())
        if must_wait:
            self._waiting.append(pending)
            self._waiting_bytes += pending.charge_bytes
            self.make_room()
        else:
            self._enqueue(pending)
        return pending.answer

    def _has_room_for(self, payload_bytes: int) -> bool:
        return self._cache.has_room_for(charge_of(payload_bytes)) and self._wal.has_room_for(payload_bytes)

    def _enqueue(self, pending: PendingAppend) -> None:
        self._cache.reserve(pending.charge_bytes)
        queued = self._wal.append(pending.batch, self._metadata_version())
        pending.queued(queued.end_position, queued.frame_header)
        self._pending.append(pending)

    def make_room(self) -> None:
        """Admits waiting appends in order while there is room. When the first does not fit and nothing is being
        uploaded, calls ``on_room_wanted`` (T16)."""
        while self._waiting and self._has_room_for(len(self._waiting[0].batch.payload)):
            pending = self._waiting.popleft()
            self._waiting_bytes -= pending.charge_bytes
            self._enqueue(pending)
        if not self._waiting:
            self._wake_room_waiters()
        elif not self._cache.is_uploading:
            self._on_room_wanted()

    # -- out ---------------------------------------------------------------------------------------------

    def made_durable(self, position: int) -> None:
        """Is called when the log is durable up to ``position``: caches, confirms and answers the appends below it, in
        log order (AutoMQ #3064)."""
        pending, now_ms = self._pending, self._clock.monotonic_ms()
        while pending and pending[0].end_position <= position:
            append = pending.popleft()
            # Why not when the append is queued: a consumer must not read a record that a crash takes back.
            self._cache.put(append.cached(), append.end_position)
            append.stream.confirm(append.batch.end_offset)
            append.succeed()
            self._seconds.observe((now_ms - append.begun_ms) / 1000)
            self._on_cached()
        if self._waiting:
            self.make_room()

    def fail(self, reason: str) -> None:
        """Fails every append that is not answered yet. Some of them may be durable in the log; recovery finds those."""
        unanswered = [*self._pending, *self._waiting]
        self._pending.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        for append in unanswered:
            append.fail(
                EngineNotRunning(reason)
            )  # one for each: an exception raised twice mixes two tracebacks
        self._wake_room_waiters()

    # -- waiting -----------------------------------------------------------------------------------------

    async def wait_until_settled(self) -> None:
        """Waits until every append submitted before this call has succeeded or failed."""
        if queue := self._waiting or self._pending:
            await queue[-1].wait_until_settled()

    async def wait_for_room(self) -> None:
        """Waits until no append waits for room, or the queue has failed."""
        if self._waiting:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room_waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._room_waiters:
                    self._room_waiters.remove(waiter)

    def _wake_room_waiters(self) -> None:
        for waiter in self._room_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._room_waiters.clear()
