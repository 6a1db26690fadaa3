"""Groups blocks into extents, the contiguous blocks of one stream, decides what each extent becomes, and cuts the work
into iterations under the memory limit (T05, T01).

========= ============================================================================ ===============
fate      when                                                                         becomes
========= ============================================================================ ===============
AGED      it comes from stream set objects that are force split                        a stream object
LARGE     it has more bytes than the split size                                        a stream object
GAP       another extent of the same stream follows, and the SSO cannot hold both      a stream object
COMPACTED its topic is compacted (``place``)                                           a stream object
CLASS     it is of another retention class than most of the SSO (``place``)            a stream object
SMALL     otherwise                                                                    part of the SSO
========= ============================================================================ ===============

So the new stream set object (SSO) holds at most one extent of each stream, the last one.

``place`` decides the fates COMPACTED and CLASS, by the topic and not by the size. Extents of compacted topics always
leave the SSO, because only stream objects are compacted by key. Of the other extents, those of the retention class
with most bytes stay. Extents of other classes leave when they are large enough, so that short-lived data is not kept
in the bucket by long-lived data in the same object; smaller ones stay, because an object of their own would cost more
than the space they hold. A commit may add only so many stream objects. Within that limit the largest extents leave,
those of compacted topics first; the next round takes the others.

``cut`` takes blocks in order as long as they fit into the limit; the first one that does not begins the next iteration.
A cut may lie inside an extent, and both pieces keep the extent's fate. An extent of the force split is cut only when it
alone is larger than the limit (T07).

The blocks that an iteration writes to the stream set object are one part of its multipart upload, and every part but
the last has a smallest size. A piece that is too small is *carried* while more of the stream set object follows: it
is read and written with the next piece, in the iteration that writes that one, and counts towards that iteration's
memory.
"""

from bisect import bisect_left
from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt

from siltstone.maintenance.stream_set_compaction.retention_class import Classes, RetentionClass
from siltstone.offline.blocks.columns import Integers, MemoryLimitTooSmall, Table, Truths
from siltstone.offline.settings import CompactionSettings


class ExtentFate(IntEnum):
    """What an extent becomes, and why: the table above."""

    SMALL = 0
    LARGE = 1
    GAP = 2
    AGED = 3
    COMPACTED = 4
    CLASS = 5


class Extents:
    """Extent ``i`` is rows [first[i], end[i]) of the table. The first ``aged_rows`` rows are to be force split."""

    __slots__ = ("end", "fate", "first", "size_bytes")

    def __init__(self, table: Table, aged_rows: int, split_size_bytes: int) -> None:
        rows = len(table)
        self.first: Integers = _extent_starts(table, aged_rows)
        self.end: Integers = np.append(self.first[1:], rows) if rows else self.first
        sizes = np.concatenate(([0], np.cumsum(table["size_bytes"])))
        self.size_bytes: Integers = sizes[self.end] - sizes[self.first]
        self.fate: npt.NDArray[np.int8] = np.full(len(self.first), ExtentFate.SMALL, dtype=np.int8)
        stream_ids = table["stream_id"][self.first]
        if rows:
            self.fate[:-1][stream_ids[1:] == stream_ids[:-1]] = ExtentFate.GAP
        self.fate[self.size_bytes > split_size_bytes] = ExtentFate.LARGE
        self.fate[self.first < aged_rows] = ExtentFate.AGED

    def __len__(self) -> int:
        return len(self.first)

    @property
    def is_split(self) -> Truths:
        split: Truths = self.fate != ExtentFate.SMALL
        return split

    @property
    def block_count(self) -> Integers:
        return self.end - self.first

    def of_rows(self) -> Integers:
        """Returns the number of each row's extent."""
        return np.repeat(np.arange(len(self)), self.block_count)


def _extent_starts(table: Table, aged_rows: int) -> Integers:
    if not len(table):
        return np.empty(0, dtype=np.int64)
    begins = np.empty(len(table), dtype=np.bool_)
    begins[0] = True
    begins[1:] = (table["stream_id"][1:] != table["stream_id"][:-1]) | (
        table["start_offset"][1:] != table["end_offset"][:-1]
    )
    if 0 < aged_rows < len(table):
        begins[aged_rows] = True
    return np.flatnonzero(begins)


def place(table: Table, extents: Extents, classes: Classes, settings: CompactionSettings) -> None:
    """Changes the fate of small extents that leave the stream set object to COMPACTED or CLASS."""
    if not classes or not len(extents):
        return
    small = np.flatnonzero(~extents.is_split)
    held = classes_of(table["stream_id"][extents.first[small]], classes)
    is_compacted = held == RetentionClass.COMPACTED
    room = _room(extents, settings)
    compacted = _largest(extents, small[is_compacted], room)
    misfits = _misfits(extents, small[~is_compacted], held[~is_compacted], settings.small_object_bytes)
    extents.fate[compacted] = ExtentFate.COMPACTED
    extents.fate[_largest(extents, misfits, room - len(compacted))] = ExtentFate.CLASS


def classes_of(stream_ids: Integers, classes: Classes) -> Integers:
    return np.array(
        [classes.get(stream_id, RetentionClass.NONE) for stream_id in stream_ids.tolist()], dtype=np.int64
    )


def _misfits(extents: Extents, small: Integers, held: Integers, small_object_bytes: int) -> Integers:
    """Returns the small extents of another class than the one with most bytes that have more than
    ``small_object_bytes``."""
    sizes = extents.size_bytes[small]
    by_class = np.bincount(held, weights=sizes, minlength=len(RetentionClass))
    misfits: Integers = small[(held != by_class.argmax()) & (sizes > small_object_bytes)]
    return misfits


def _largest(extents: Extents, numbers: Integers, count: int) -> Integers:
    if len(numbers) <= count:
        return numbers
    return numbers[np.argsort(-extents.size_bytes[numbers], kind="stable")][: max(0, count)]


def _room(extents: Extents, settings: CompactionSettings) -> int:
    """Returns how many more stream objects the commit may add, after an upper bound of the cuts at the memory limit."""
    cuts = int(2 * extents.size_bytes.sum() // settings.memory_bytes)
    return settings.stream_objects_max - int(extents.is_split.sum()) - cuts


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
