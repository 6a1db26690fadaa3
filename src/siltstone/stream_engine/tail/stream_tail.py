"""The cached batches of one stream, by offset.

Usually one contiguous run: appends are contiguous and eviction takes the oldest first. A look-up answers the
right-hand part of what was asked: all of it, or a suffix, or nothing. The part before it is in objects.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter

from siltstone.model.record_batch import RecordBatch

_end_offset = attrgetter("end_offset")
_base_offset = attrgetter("base_offset")


class StreamTail:
    def __init__(self) -> None:
        self._batches: list[RecordBatch] = []
        self._run_starts: list[int] = []
        """Base offsets at which a contiguous run begins; the first batch is always one."""

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: RecordBatch) -> None:
        if not self._batches or self._batches[-1].end_offset != batch.base_offset:
            assert not self._batches or self._batches[-1].end_offset < batch.base_offset
            self._run_starts.append(batch.base_offset)
        self._batches.append(batch)

    def suffix(self, start: int, end: int) -> Sequence[RecordBatch]:
        """The batches that cover [x, end) for the smallest x ≥ start they can; empty when none covers end - 1.

        The first may begin before ``start`` and the last end after ``end``.
        """
        last = bisect_left(self._batches, end, key=_end_offset)
        if last == len(self._batches) or self._batches[last].base_offset >= end:
            return ()
        run_start = self._run_starts[bisect_right(self._run_starts, self._batches[last].base_offset) - 1]
        first = bisect_right(self._batches, max(start, run_start), key=_base_offset) - 1
        return self._batches[first : last + 1]

    def evict_through(self, end_offset: int) -> None:
        """Forget the batches that end at or before ``end_offset``."""
        count = bisect_right(self._batches, end_offset, key=_end_offset)
        del self._batches[:count]
        if not self._batches:
            self._run_starts.clear()
            return
        first = self._batches[0].base_offset
        runs_gone = bisect_right(self._run_starts, first)
        self._run_starts[:runs_gone] = [first]


def first_within(batches: Sequence[RecordBatch], bytes_max: int, *, at_least_one: bool) -> list[RecordBatch]:
    """The first batches whose payloads together stay within ``bytes_max``."""
    taken: list[RecordBatch] = []
    for batch in batches:
        bytes_max -= len(batch.payload)
        if bytes_max < 0 and not (at_least_one and not taken):
            break
        taken.append(batch)
    return taken
