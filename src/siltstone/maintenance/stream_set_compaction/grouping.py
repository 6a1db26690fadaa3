"""Groups blocks into extents, the contiguous blocks of one stream, and decides what each extent becomes.

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
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from siltstone.maintenance.stream_set_compaction.retention_class import Classes, RetentionClass
from siltstone.offline.blocks.columns import Integers, Table, Truths
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
