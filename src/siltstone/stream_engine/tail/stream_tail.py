"""The cached batches of one stream, by offset.

The batches are usually one extent: appends are contiguous and the oldest batches are evicted first. There are several
extents when another node has appended to the stream between two openings here. ``suffix`` returns the cached batches at
the end of the offsets asked for; the offsets before them are in objects. ``window`` returns batches only if all offsets
asked for are cached; its cost depends on the batches that it returns, not on the length of the tail.
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
        self._extent_starts: list[int] = []
        """The base offsets at which extents begin; that of the first batch is always one of them."""
        self._bytes_through: list[int] = []
        """For each batch the payload bytes of all batches that were ever put, up to and including this one."""
        self._bytes_put = 0

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: RecordBatch) -> None:
        if not self._batches or self._batches[-1].end_offset != batch.base_offset:
            assert not self._batches or self._batches[-1].end_offset < batch.base_offset
            self._extent_starts.append(batch.base_offset)
        self._batches.append(batch)
        self._bytes_put += len(batch.payload)
        self._bytes_through.append(self._bytes_put)

    def suffix(self, start: int, end: int) -> Sequence[RecordBatch]:
        """Returns the batches that hold [x, end) for the smallest possible x ≥ start; none if no batch holds end - 1.

        The first batch may begin before ``start``, the last may end after ``end``.
        """
        last = bisect_left(self._batches, end, key=_end_offset)
        if last == len(self._batches) or self._batches[last].base_offset >= end:
            return ()
        extent_start = self._extent_starts[
            bisect_right(self._extent_starts, self._batches[last].base_offset) - 1
        ]
        first = bisect_right(self._batches, max(start, extent_start), key=_base_offset) - 1
        return self._batches[first : last + 1]

    def window(self, start: int, end: int, bytes_max: int) -> list[RecordBatch] | None:
        """Returns the first of the batches that hold [start, end), which must not be empty: at least one batch, and
        otherwise payloads of at most ``bytes_max`` together. None unless all of [start, end) is cached."""
        last = bisect_left(self._batches, end, key=_end_offset)
        if last == len(self._batches) or not self._reaches(last, start):
            return None
        first = bisect_right(self._batches, start, key=_base_offset) - 1
        within = bisect_right(self._bytes_through, self._bytes_before(first) + bytes_max, lo=first)
        return self._batches[first : min(max(within, first + 1), last + 1)]

    def bytes_from(self, start: int) -> int | None:
        """Returns the payload bytes from the batch that holds ``start`` to the end; None unless all of it is cached."""
        if not self._batches or not self._reaches(len(self._batches) - 1, start):
            return None
        return self._bytes_put - self._bytes_before(bisect_right(self._batches, start, key=_base_offset) - 1)

    def _reaches(self, last: int, start: int) -> bool:
        """Returns whether the batches from ``start`` to the one at index ``last`` are cached and contiguous."""
        batch = self._batches[last]
        extent_start = self._extent_starts[bisect_right(self._extent_starts, batch.base_offset) - 1]
        return extent_start <= start < batch.end_offset

    def _bytes_before(self, index: int) -> int:
        return self._bytes_through[index] - len(self._batches[index].payload)

    def evict_through(self, end_offset: int) -> None:
        """Removes the batches that end at or before ``end_offset``."""
        count = bisect_right(self._batches, end_offset, key=_end_offset)
        del self._batches[:count]
        del self._bytes_through[:count]
        if not self._batches:
            self._extent_starts.clear()
            return
        first = self._batches[0].base_offset
        extents_gone = bisect_right(self._extent_starts, first)
        self._extent_starts[:extents_gone] = [first]


def first_within(batches: Sequence[RecordBatch], bytes_max: int, *, at_least_one: bool) -> list[RecordBatch]:
    """Returns the first batches whose payloads together have at most ``bytes_max`` bytes; with ``at_least_one`` also a
    first batch that is larger."""
    taken: list[RecordBatch] = []
    for batch in batches:
        bytes_max -= len(batch.payload)
        if bytes_max < 0 and not (at_least_one and not taken):
            break
        taken.append(batch)
    return taken
