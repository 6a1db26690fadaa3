"""An append between the call and the answer."""

import asyncio

from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.tail.cached_batch import CachedBatch, charge_of


class PendingAppend:
    __slots__ = ("answer", "batch", "charge_bytes", "end_position", "frame_header", "stream")

    def __init__(self, stream: Stream, batch: RecordBatch, answer: "asyncio.Future[int]") -> None:
        self.stream = stream
        self.batch = batch
        self.answer = answer
        self.charge_bytes = charge_of(len(batch.payload))
        self.end_position = 0
        self.frame_header: Buffer = b""

    def queued(self, end_position: int, frame_header: Buffer) -> None:
        self.end_position = end_position
        self.frame_header = frame_header

    def cached(self) -> CachedBatch:
        return CachedBatch(self.batch, self.frame_header)

    def succeed(self) -> None:
        if not self.answer.done():  # the caller may have stopped waiting; the append stands all the same
            self.answer.set_result(self.batch.base_offset)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # seen: a caller that went away is no fault worth a log line
