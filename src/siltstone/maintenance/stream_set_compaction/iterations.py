"""Cuts the work into iterations under the memory limit (T05, T01).

Blocks are taken in order as long as they fit into the limit; the first one that does not begins the next iteration. A
cut may lie inside an extent, and both pieces keep the extent's fate. An extent of the force split is cut only when it
alone is larger than the limit (T07).

The blocks that an iteration writes to the stream set object are one part of its multipart upload, and every part but
the last has a smallest size. A piece that is too small is *carried* while more of the stream set object follows: it
is read and written with the next piece, in the iteration that writes that one, and counts towards that iteration's
memory.
"""

from bisect import bisect_left

import msgspec
import numpy as np

from siltstone.maintenance.stream_set_compaction.grouping import ExtentFate, Extents
from siltstone.offline.blocks.columns import Integers, MemoryLimitTooSmall, Table
from siltstone.offline.settings import CompactionSettings


class IterationBounds(msgspec.Struct, frozen=True, gc=False):
    """One iteration. It writes the stream objects of rows [first, end), and as its part of the stream set object the
    small rows number [part_first, part_end), counted among all small rows; no part when both are equal."""

    first: int
    end: int
    part_first: int
    part_end: int


def cut(
    table: Table, extents: Extents, small_rows: Integers, settings: CompactionSettings
) -> list[IterationBounds]:
    """Returns the iterations, none of them empty. Raises MemoryLimitTooSmall."""
    part_bytes_min = _part_bytes_min(int(table["size_bytes"][small_rows].sum()), settings)
    _refuse_small_memory(table, small_rows, settings.memory_bytes, part_bytes_min)
    cutter = _Cutter(table, extents, small_rows, settings.memory_bytes)
    bounds: list[IterationBounds] = []
    first = part_first = 0
    while first < len(table):
        end = cutter.end_of_iteration(first, part_first)
        part_end = cutter.small_before(end)
        is_last_part = part_end == len(small_rows)
        if not is_last_part and cutter.small_bytes(part_first, part_end) < part_bytes_min:
            part_end = part_first
        if part_end > part_first or cutter.has_split(first, end):
            bounds.append(IterationBounds(first, end, part_first, part_end))
        first, part_first = end, part_end
    return bounds


def _part_bytes_min(small_bytes: int, settings: CompactionSettings) -> int:
    """Returns the smallest size of a part: that of the settings, or more if the upload would otherwise have too many
    parts."""
    return max(settings.part_bytes_min, -(-small_bytes // max(1, settings.part_count_max - 1)))


def _refuse_small_memory(table: Table, small_rows: Integers, memory_bytes: int, part_bytes_min: int) -> None:
    """Raises MemoryLimitTooSmall. A carried piece has at most ``part_bytes_min - 1`` bytes, and each small block has
    to fit into memory beside it."""
    sizes = table["size_bytes"]
    needed = max(
        int(sizes.max(initial=0)),
        int(sizes[small_rows].max(initial=0)) + part_bytes_min - 1 if len(small_rows) else 0,
    )
    if needed > memory_bytes:
        raise MemoryLimitTooSmall(
            f"compaction.memory_bytes is {memory_bytes}, but the largest block and a part that is too small to be"
            f" uploaded need {needed} bytes; raise it to at least that"
        )


class _Cutter:
    def __init__(self, table: Table, extents: Extents, small_rows: Integers, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._small_rows = small_rows
        self._bytes_before = _bytes_before(table["size_bytes"])
        self._small_bytes_before = _bytes_before(table["size_bytes"][small_rows])
        self._aged_extents = int((extents.fate == ExtentFate.AGED).sum())
        self._extent_first = extents.first[: self._aged_extents].tolist()
        self._extent_bytes = extents.size_bytes[: self._aged_extents].tolist()
        self._aged_rows = int(extents.end[self._aged_extents - 1]) if self._aged_extents else 0

    def end_of_iteration(self, first: int, part_first: int) -> int:
        end = self._fit(first, self._memory_bytes)
        carried = self.small_bytes(part_first, self.small_before(first))
        next_small = self._next_small(first)
        if carried and next_small < end:
            # A carried piece is read only in an iteration that has other small blocks to write it with.
            end = max(next_small, self._fit(first, self._memory_bytes - carried))
        end = self._whole_aged_extents(first, end)
        assert end > first, f"no block fits behind row {first}"
        return end

    def small_before(self, row: int) -> int:
        """Returns how many small rows come before the row."""
        return int(np.searchsorted(self._small_rows, row))

    def small_bytes(self, first: int, end: int) -> int:
        return int(self._small_bytes_before[end] - self._small_bytes_before[first])

    def has_split(self, first: int, end: int) -> bool:
        return self.small_before(end) - self.small_before(first) < end - first

    def _next_small(self, row: int) -> int:
        at = self.small_before(row)
        return int(self._small_rows[at]) if at < len(self._small_rows) else len(self._bytes_before)

    def _fit(self, first: int, room: int) -> int:
        """Returns the first row that does not fit into ``room`` bytes, counted from row ``first``."""
        reached = self._bytes_before[first] + room
        return int(np.searchsorted(self._bytes_before, reached, side="right")) - 1

    def _whole_aged_extents(self, first: int, end: int) -> int:
        """``end``, or the start of the aged extent it would cut although an iteration of its own could hold it."""
        if end >= self._aged_rows:
            return end
        at = bisect_left(self._extent_first, end)
        if at < self._aged_extents and self._extent_first[at] == end:
            return end
        extent_first = self._extent_first[at - 1]
        is_too_large = self._extent_bytes[at - 1] > self._memory_bytes
        return end if is_too_large or extent_first <= first else extent_first


def _bytes_before(sizes: Integers) -> Integers:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes)))
