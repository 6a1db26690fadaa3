"""A model of a stream: a plain list. Appends that were answered are certain; others may have happened or not."""

import asyncio

from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.stream import Stream


class Entry:
    """A batch that was appended."""

    def __init__(self, base: int, end: int, payload: bytes, answer: "asyncio.Future[int] | None") -> None:
        self.base = base
        self.end = end
        self.payload = payload
        self.answer = answer

    @property
    def is_acknowledged(self) -> bool:
        answer = self.answer
        return answer is None or (answer.done() and not answer.cancelled() and answer.exception() is None)

    def matches(self, batch: RecordBatch) -> bool:
        return (batch.base_offset, batch.end_offset, bytes(batch.payload)) == (
            self.base,
            self.end,
            self.payload,
        )


class ModelStream:
    def __init__(self, stream_id: int, topic_id: str | None = None) -> None:
        self.stream_id = stream_id
        self.topic_id = topic_id
        self.handle: Stream | None = None
        self.is_open = False
        self.is_closing = False
        self.is_deleted = False
        self.may_be_deleted = False
        self.epoch = -1
        self.entries: list[Entry] = []
        self.starts = {0}
        """Returns the offsets at which the stream may begin: that of the last trim that was answered, and those of
        later ones."""
        self.users = 0
        """Actions under way; the stream is given back or deleted only when there are none."""

    @property
    def next_offset(self) -> int:
        return self.entries[-1].end if self.entries else 0

    @property
    def acknowledged_end(self) -> int:
        return max((entry.end for entry in self.entries if entry.is_acknowledged), default=0)

    def may_trim(self, start_offset: int) -> None:
        self.starts.add(start_offset)

    def did_trim(self, start_offset: int) -> None:
        self.starts = {start for start in self.starts if start >= start_offset} | {start_offset}

    def check_answers(self) -> None:
        """Answered are the first ones, each with the offset that was its turn."""
        seen_unanswered = False
        for entry in self.entries:
            if entry.answer is None or entry.answer.cancelled():
                continue
            if not entry.is_acknowledged:
                seen_unanswered = True
                continue
            assert not seen_unanswered, (
                f"stream {self.stream_id}: {entry.base} answered before what is before it"
            )
            assert entry.answer.result() == entry.base, (
                f"stream {self.stream_id}: another offset was answered"
            )

    def settle(self, start_offset: int, end_offset: int) -> None:
        """After a restart: what is there is there. Nothing acknowledged is missing, and no hole is left."""
        assert start_offset in self.starts, (
            f"stream {self.stream_id} begins at {start_offset}, not {self.starts}"
        )
        assert end_offset >= self.acknowledged_end, (
            f"stream {self.stream_id} ends at {end_offset}, acknowledged is {self.acknowledged_end}"
        )
        self.entries = [entry for entry in self.entries if entry.end <= end_offset]
        assert self.next_offset == end_offset, f"stream {self.stream_id} ends at {end_offset}, inside a batch"
        for entry in self.entries:
            entry.answer = None
        self.starts = {start_offset}

    def check_read(self, start: int, batches: list[RecordBatch]) -> None:
        """Batches from the one that holds ``start`` on, each once, in order, as they were appended."""
        first = next(index for index, entry in enumerate(self.entries) if entry.end > start)
        expected = self.entries[first : first + len(batches)]
        assert len(expected) == len(batches), f"stream {self.stream_id} from {start}: more than was appended"
        for entry, batch in zip(expected, batches, strict=True):
            assert entry.matches(batch), (
                f"stream {self.stream_id}: read [{batch.base_offset}, {batch.end_offset}), appended was "
                f"[{entry.base}, {entry.end})"
            )
