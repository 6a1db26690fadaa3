"""An append between the call and the answer."""

import asyncio

from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.tail.cached_batch import CachedBatch, charge_of


class PendingAppend:
    __slots__ = ("_settled", "answer", "batch", "charge_bytes", "end_position", "frame_header", "stream")

    def __init__(self, stream: Stream, batch: RecordBatch, answer: "asyncio.Future[int]") -> None:
        self.stream = stream
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
        if not self.answer.done():  # the caller may have stopped waiting; the append stands all the same
            self.answer.set_result(self.batch.base_offset)
        self._settle()

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # seen: a caller that went away is no fault worth a log line
        self._settle()

    async def wait_until_settled(self) -> None:
        """Until it stands or has failed. ``answer`` does not tell: its caller may cancel it at any time."""
        if self._settled is None:
            self._settled = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._settled,))

    def _settle(self) -> None:
        if self._settled is not None:
            self._settled.set_result(None)
