"""The cached batches of one stream, by offset.

Usually one contiguous run: appends are contiguous and eviction takes the oldest first. ``suffix`` answers the right
part of what was asked: all of it, or a suffix, or nothing; the part before it is in objects. ``window`` answers only
when nothing of it is, and costs no more than what it gives, however long the tail is.
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
        self._bytes_through: list[int] = []
        """For each batch the payload bytes of all that were ever put, up to and with it."""
        self._bytes_put = 0

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: RecordBatch) -> None:
        if not self._batches or self._batches[-1].end_offset != batch.base_offset:
            assert not self._batches or self._batches[-1].end_offset < batch.base_offset
            self._run_starts.append(batch.base_offset)
        self._batches.append(batch)
        self._bytes_put += len(batch.payload)
        self._bytes_through.append(self._bytes_put)

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

    def window(self, start: int, end: int, bytes_max: int) -> list[RecordBatch] | None:
        """The first of the batches that cover [start, end), which is not empty: at least one, and no more than
        ``bytes_max`` of payload hold. None unless all of them are here."""
        last = bisect_left(self._batches, end, key=_end_offset)
        if last == len(self._batches) or not self._reaches(last, start):
            return None
        first = bisect_right(self._batches, start, key=_base_offset) - 1
        within = bisect_right(self._bytes_through, self._bytes_before(first) + bytes_max, lo=first)
        return self._batches[first : min(max(within, first + 1), last + 1)]

    def bytes_from(self, start: int) -> int | None:
        """Payload bytes from the batch that holds ``start`` to the end. None unless all of that is here."""
        if not self._batches or not self._reaches(len(self._batches) - 1, start):
            return None
        return self._bytes_put - self._bytes_before(bisect_right(self._batches, start, key=_base_offset) - 1)

    def _reaches(self, last: int, start: int) -> bool:
        """Whether ``start`` lies in the run of the batch at ``last``, or between its own ends."""
        batch = self._batches[last]
        run_start = self._run_starts[bisect_right(self._run_starts, batch.base_offset) - 1]
        return run_start <= start < batch.end_offset

    def _bytes_before(self, index: int) -> int:
        return self._bytes_through[index] - len(self._batches[index].payload)

    def evict_through(self, end_offset: int) -> None:
        """Forget the batches that end at or before ``end_offset``."""
        count = bisect_right(self._batches, end_offset, key=_end_offset)
        del self._batches[:count]
        del self._bytes_through[:count]
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
