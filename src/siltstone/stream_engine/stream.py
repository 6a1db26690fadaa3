"""One open stream: its offsets, who waits for them, and who watches.

    start_offset ≤ confirmed_offset ≤ next_offset

[start, confirmed) may be read; [confirmed, next) is on its way through the WAL.
"""

import asyncio
import logging
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from operator import index

from siltstone.metadata.entities import StreamMetadata
from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import NO_TIMESTAMP, RecordBatch
from siltstone.object_formats.batch_frame import ImpossibleBatch, encode_frame_header
from siltstone.stream_engine.errors import StreamHandleClosed

log = logging.getLogger(__name__)

OFFSET_MAX = 2**63 - 1
"""A frame could hold twice that; plans, and Kafka, count offsets with a sign."""


class Stream:
    """State only; ``StreamEngine`` acts on it. Offsets are assigned at the call, in call order."""

    def __init__(self, metadata: StreamMetadata) -> None:
        self.stream_id = metadata.stream_id
        self.epoch = metadata.epoch
        self.start_offset = metadata.start_offset
        self.next_offset = metadata.end_offset
        self.confirmed_offset = metadata.end_offset
        self.is_closed = False
        self._failure: Exception | None = None
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._ticket = count()
        self._watchers: dict[Callable[[], None], None] = {}
        self.on_trim: Callable[[], None] | None = None
        """Of whoever keeps something by this stream's offsets: called when the start has moved."""

    def next_batch(
        self,
        payload: Buffer,
        record_count: int,
        smallest_timestamp_ms: int = NO_TIMESTAMP,
        largest_timestamp_ms: int = NO_TIMESTAMP,
    ) -> RecordBatch:
        """Takes the next offsets. Raises ImpossibleBatch, TypeError, and takes none."""
        base_offset = self.next_offset
        record_count = index(
            record_count
        )  # numpy's integers pass for int until the metadata has to hold them
        batch = RecordBatch(
            self.stream_id,
            self.epoch,
            base_offset,
            base_offset + record_count,
            record_count,
            index(smallest_timestamp_ms),
            index(largest_timestamp_ms),
            payload,
        )
        if batch.end_offset > OFFSET_MAX:
            raise ImpossibleBatch(
                f"stream {self.stream_id} would end at {batch.end_offset}: offsets end at {OFFSET_MAX}"
            )
        encode_frame_header(batch)  # refused by the log it would leave a hole in the offsets
        self.next_offset = batch.end_offset
        return batch

    def confirm(self, end_offset: int) -> None:
        """Records below ``end_offset`` are durable and cached: wake who waited for them."""
        assert end_offset > self.confirmed_offset
        self.confirmed_offset = end_offset
        while self._waiters and self._waiters[0][0] < end_offset:
            waiter = heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)
        if self._watchers:
            self._tell_watchers()

    async def wait_for(self, offset: int) -> None:
        """Until the record at ``offset`` may be read, or the stream is closed meanwhile. Raises StreamHandleClosed when
        it was closed before (a consumer that asks again and again would stop the event loop), and why the engine
        failed."""
        if offset < self.confirmed_offset:
            return
        if self.is_closed:
            raise StreamHandleClosed(f"stream {self.stream_id} was closed: nothing more will come here")
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiters, (offset, next(self._ticket), waiter))
        try:
            await waiter
        finally:
            if waiter.cancelled():
                self._forget_cancelled()

    def watch(self, callback: Callable[[], None]) -> None:
        """``callback`` is called whenever an offset moves, and when the stream is closed or fails: one reader may watch
        hundreds of streams without a future at each. It is called on the way to answering appends, so it is to be
        quick; it may unwatch."""
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Idempotent."""
        self._watchers.pop(callback, None)

    def _tell_watchers(self) -> None:
        for callback in tuple(self._watchers):
            try:
                callback()
            except Exception:  # a reader's mistake is not to cost producers their answers
                log.exception("a watcher of stream %d failed", self.stream_id)

    def trim(self, start_offset: int) -> None:
        if start_offset > self.start_offset:
            self.start_offset = start_offset
            if self.on_trim is not None:
                self.on_trim()
            self._tell_watchers()

    def close(self) -> None:
        """Idempotent. What was appended before goes its way."""
        if self.is_closed:
            return
        self.is_closed = True
        for _, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        self._tell_watchers()

    def fail(self, failure: Exception) -> None:
        """Nothing will be confirmed any more: whoever waits hears why."""
        self._failure = failure
        for _, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(failure)
        self._waiters.clear()
        self._tell_watchers()

    @property
    def failure(self) -> Exception | None:
        """Why nothing will be confirmed any more."""
        return self._failure

    @property
    def waiters(self) -> int:
        """How many readers wait for an offset; tests look for leaks here."""
        return len(self._waiters)

    @property
    def watchers(self) -> int:
        """How many callbacks are registered; tests look for leaks here."""
        return len(self._watchers)

    def _forget_cancelled(self) -> None:
        """A consumer that asks with a time limit leaves one behind each time, and the stream may stay idle for days."""
        self._waiters = [entry for entry in self._waiters if not entry[2].cancelled()]
        heapify(self._waiters)
