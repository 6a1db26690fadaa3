"""One open stream: its offsets, and who waits for them.

    start_offset ≤ confirmed_offset ≤ next_offset

[start, confirmed) may be read; [confirmed, next) is on its way through the WAL.
"""

import asyncio
from heapq import heappop, heappush
from itertools import count

from siltstone.metadata.entities import StreamMetadata
from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import NO_TIMESTAMP, RecordBatch


class Stream:
    """State only; ``StreamEngine`` acts on it. Offsets are assigned at the call, in call order."""

    def __init__(self, metadata: StreamMetadata) -> None:
        self.stream_id = metadata.stream_id
        self.epoch = metadata.epoch
        self.start_offset = metadata.start_offset
        self.next_offset = metadata.end_offset
        self.confirmed_offset = metadata.end_offset
        self.is_closed = False
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._ticket = count()

    def next_batch(
        self,
        payload: Buffer,
        record_count: int,
        smallest_timestamp_ms: int = NO_TIMESTAMP,
        largest_timestamp_ms: int = NO_TIMESTAMP,
    ) -> RecordBatch:
        base_offset = self.next_offset
        self.next_offset = base_offset + record_count
        return RecordBatch(
            self.stream_id,
            self.epoch,
            base_offset,
            self.next_offset,
            record_count,
            smallest_timestamp_ms,
            largest_timestamp_ms,
            payload,
        )

    def confirm(self, end_offset: int) -> None:
        """Records below ``end_offset`` are durable and cached: wake who waited for them."""
        assert end_offset > self.confirmed_offset
        self.confirmed_offset = end_offset
        while self._waiters and self._waiters[0][0] < end_offset:
            waiter = heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for(self, offset: int) -> None:
        """Until the record at ``offset`` may be read, or the stream is closed."""
        if offset < self.confirmed_offset or self.is_closed:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiters, (offset, next(self._ticket), waiter))
        await waiter

    def trim(self, start_offset: int) -> None:
        self.start_offset = max(self.start_offset, start_offset)

    def close(self) -> None:
        self.is_closed = True
        for _, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
