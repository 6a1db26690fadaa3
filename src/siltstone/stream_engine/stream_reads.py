"""Reads of a stream: batches from the tail cache where it has them, from committed objects before that, without gap."""

from siltstone.metadata.lookup import OffsetOutOfRange
from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.errors import OffsetBeyondEnds, ReadRangeNotCovered
from siltstone.stream_engine.reading.committed_reader import CommittedReader
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.tail.stream_tail import first_within
from siltstone.stream_engine.tail.tail_cache import TailCache


class StreamReads:
    def __init__(self, cache: TailCache, reader: CommittedReader) -> None:
        self._cache = cache
        self._reader = reader

    async def read(
        self, stream: Stream, start_offset: int, bytes_max: int, end_offset: int | None
    ) -> list[RecordBatch]:
        """See StreamEngine.read."""
        cached = self.read_cached(stream, start_offset, bytes_max, end_offset)
        if cached is not None:
            return cached
        end = _end_of_read(stream, end_offset)
        tail = self._cache.suffix(stream.stream_id, start_offset, end)
        committed_end = tail[0].base_offset if tail else end
        batches = await self._read_committed(stream, start_offset, committed_end, bytes_max)
        if batches and batches[-1].end_offset < committed_end:
            return batches
        return batches + first_within(tail, bytes_max - sum(map(len, batches)), at_least_one=not batches)

    def read_cached(
        self, stream: Stream, start_offset: int, bytes_max: int, end_offset: int | None
    ) -> list[RecordBatch] | None:
        """See StreamEngine.read_cached."""
        _refuse_outside(stream, start_offset)
        end = _end_of_read(stream, end_offset)
        if start_offset >= end:
            return []
        return self._cache.window(stream.stream_id, start_offset, end, bytes_max)

    def cached_bytes(self, stream: Stream, start_offset: int) -> int | None:
        """See StreamEngine.cached_bytes."""
        _refuse_outside(stream, start_offset)
        if start_offset == stream.confirmed_offset:
            return 0
        return self._cache.bytes_from(stream.stream_id, start_offset)

    async def _read_committed(
        self, stream: Stream, start: int, end: int, bytes_max: int
    ) -> list[RecordBatch]:
        """Reads [start, end) from objects. The node's image contains everything that the node has committed, and a trim
        before the stream knows it. Key compaction may have removed every record of [start, end), but it never removes
        the last batch of a stream, so an empty read up to the confirmed end means that data is missing. Raises
        OffsetBeyondEnds, RangeNotCovered, CorruptData."""
        try:
            batches = await self._reader.read(stream.stream_id, start, end, bytes_max)
            is_whole = bool(batches) or self._reader.covers(stream.stream_id, start, end)
        except OffsetOutOfRange as trimmed:
            raise OffsetBeyondEnds(
                f"offset {start} of stream {stream.stream_id} was trimmed before it could be read: read from the "
                "stream's new start offset"
            ) from trimmed
        if not is_whole or (not batches and end == stream.confirmed_offset):
            raise ReadRangeNotCovered(
                f"no object holds offset {start} of stream {stream.stream_id}, though it was committed: run siltstone "
                "check"
            )
        return batches


def _refuse_outside(stream: Stream, start_offset: int) -> None:
    if not stream.start_offset <= start_offset <= stream.confirmed_offset:
        raise OffsetBeyondEnds(
            f"offset {start_offset} of stream {stream.stream_id} is outside "
            f"[{stream.start_offset}, {stream.confirmed_offset}]"
        )


def _end_of_read(stream: Stream, end_offset: int | None) -> int:
    confirmed = stream.confirmed_offset
    return confirmed if end_offset is None else min(end_offset, confirmed)
