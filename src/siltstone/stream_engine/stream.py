"""One open stream: its offsets, the readers that wait for an offset, and the watchers, callbacks for every change.

    start_offset ≤ confirmed_offset ≤ next_offset

[start, confirmed) can be read; [confirmed, next) is being written to the WAL.
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
"""The largest end offset. A frame could hold twice that, but Kafka and the plans of maintenance use signed offsets."""


class Stream:
    """The handle of an open stream. It holds state only; ``StreamEngine`` appends and reads."""

    def __init__(self, metadata: StreamMetadata) -> None:
        self.stream_id = metadata.stream_id
        self.epoch = metadata.epoch
        self.start_offset = metadata.start_offset
        self.next_offset = metadata.end_offset
        self.confirmed_offset = metadata.end_offset
        self.is_closed = False
        self.is_held = False
        """Whether appends are refused for now; reads continue."""
        self._failure: Exception | None = None
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._ticket = count()
        self._watchers: dict[Callable[[], None], None] = {}
        self.on_trim: Callable[[], None] | None = None
        """Called when the start offset has moved; the partition that owns the stream sets it, to drop state that it
        keeps by offset."""

    def continue_at(self, end_offset: int) -> None:
        """The log of an earlier start holds records up to ``end_offset``, which are in the tail cache. Is called before
        any other caller has the handle."""
        self.next_offset = self.confirmed_offset = max(self.next_offset, end_offset)

    def next_batch(
        self,
        payload: Buffer,
        record_count: int,
        smallest_timestamp_ms: int = NO_TIMESTAMP,
        largest_timestamp_ms: int = NO_TIMESTAMP,
    ) -> RecordBatch:
        """Makes a batch with the stream's next offsets. Raises ImpossibleBatch, TypeError; then no offset is used."""
        base_offset = self.next_offset
        record_count = index(record_count)  # numpy's integers would fail later, in the commit to the metadata
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
        encode_frame_header(
            batch
        )  # raises now: a batch that only the log refused would leave a hole in the offsets
        self.next_offset = batch.end_offset
        return batch

    def confirm(self, end_offset: int) -> None:
        """Records below ``end_offset`` are durable and cached: wakes the readers that wait for them, calls the
        watchers."""
        assert end_offset > self.confirmed_offset
        self.confirmed_offset = end_offset
        while self._waiters and self._waiters[0][0] < end_offset:
            waiter = heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)
        if self._watchers:
            self._tell_watchers()

    async def wait_for(self, offset: int) -> None:
        """Waits until the record at ``offset`` can be read, or the stream is closed during the wait. Raises
        StreamHandleClosed when it was closed before (a reader that retries in a loop would otherwise block the event
        loop), and the failure of the engine."""
        if offset < self.confirmed_offset:
            return
        if self.is_closed:
            raise StreamHandleClosed(
                f"the handle of stream {self.stream_id} was closed: no offset beyond {self.confirmed_offset} will come"
            )
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
        """Calls ``callback`` whenever an offset moves and when the stream is closed or fails, so one reader can watch
        hundreds of streams without a future for each. The call happens before appends are answered, so it must be
        quick; it may call ``unwatch``."""
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Removes the callback. Idempotent."""
        self._watchers.pop(callback, None)

    def _tell_watchers(self) -> None:
        for callback in tuple(self._watchers):
            try:
                callback()
            except Exception:  # a bug in a reader must not leave producers without answers
                log.exception("a watcher of stream %d failed", self.stream_id)

    def trim(self, start_offset: int) -> None:
        if start_offset > self.start_offset:
            self.start_offset = start_offset
            if self.on_trim is not None:
                self.on_trim()
            self._tell_watchers()

    def hold(self) -> None:
        """From now on appends are refused with StreamHeld, so that ``next_offset`` stays. Pending appends continue.
        Unlike ``close``, it can be taken back, by ``release``. Idempotent."""
        self.is_held = True

    def release(self) -> None:
        """Appends are accepted again. Idempotent."""
        self.is_held = False

    def close(self) -> None:
        """Closes the handle and wakes the readers that wait. Pending appends are still answered. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        for _, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        self._tell_watchers()

    def fail(self, failure: Exception) -> None:
        """Is called when the engine has failed, so that nothing will be confirmed any more: waiting readers get
        ``failure``."""
        self._failure = failure
        for _, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(failure)
        self._waiters.clear()
        self._tell_watchers()

    @property
    def failure(self) -> Exception | None:
        """The failure of the engine, after which nothing is confirmed; None while there is none."""
        return self._failure

    @property
    def waiters(self) -> int:
        """The number of readers that wait for an offset; tests look for leaks here."""
        return len(self._waiters)

    @property
    def watchers(self) -> int:
        """The number of registered callbacks; tests look for leaks here."""
        return len(self._watchers)

    def _forget_cancelled(self) -> None:
        """Removes cancelled waiters. A reader with a time limit leaves one behind each time, and no ``confirm`` would
        remove them while the stream is idle for days."""
        self._waiters = [entry for entry in self._waiters if not entry[2].cancelled()]
        heapify(self._waiters)
