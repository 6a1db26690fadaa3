"""Groups blocks into extents, the contiguous blocks of one stream, and decides what each extent becomes.

========= ============================================================================ ===============
fate      when                                                                         becomes
========= ============================================================================ ===============
AGED      it comes from stream set objects that are force split                        a stream object
LARGE     it has more bytes than the split size                                        a stream object
GAP       another extent of the same stream follows, and the SSO cannot hold both      a stream object
COMPACTED its topic is compacted (``placement``)                                       a stream object
CLASS     it is of another retention class than most of the SSO (``placement``)        a stream object
SMALL     otherwise                                                                    part of the SSO
========= ============================================================================ ===============

So the new stream set object (SSO) holds at most one extent of each stream, the last one.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from siltstone.maintenance.blocks.columns import Integers, Table, Truths


class Fate(IntEnum):
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
        self.fate: npt.NDArray[np.int8] = np.full(len(self.first), Fate.SMALL, dtype=np.int8)
        stream_ids = table["stream_id"][self.first]
        if rows:
            self.fate[:-1][stream_ids[1:] == stream_ids[:-1]] = Fate.GAP
        self.fate[self.size_bytes > split_size_bytes] = Fate.LARGE
        self.fate[self.first < aged_rows] = Fate.AGED

    def __len__(self) -> int:
        return len(self.first)

    @property
    def is_split(self) -> Truths:
        split: Truths = self.fate != Fate.SMALL
        return split

    @property
    def block_count(self) -> Integers:
        return self.end - self.first

    def of_rows(self) -> Integers:
        """The number of each row's extent."""
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
