"""Joins index entries: neighbouring blocks of a new object become one entry, computed in columns.

The blocks of a new object lie one after another, so entries are joined by arithmetic, without their bytes. The CRC of A
followed by B is (the CRC of A, moved over len(B) zero bytes) xor (the CRC of B). So the CRC of a joined block is the
xor of its members' CRCs, each moved over the bytes that follow it. That needs no loop over the blocks, only operations
on columns; ``crc32c.crc32c_combine`` does the same for one pair, and the tests use it as the oracle. Driver and task
both call this module, so both compute the same index.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from siltstone.foundation.crc32c import zeros_matrix
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.object_formats.block_index import INDEX_ENTRY_BYTES
from siltstone.object_formats.object_layout import FOOTER_BYTES, trailer_of_index
from siltstone.offline.blocks.columns import Integers, Table, Truths

Crcs = npt.NDArray[np.uint32]
Lengths = npt.NDArray[np.int64]


def crc32c_moved(crcs: Crcs, zero_bytes: Lengths) -> Crcs:
    """Returns the CRC of each message after as many zero bytes as ``zero_bytes`` gives for it were appended to it."""
    moved = crcs.astype(np.uint32, copy=True)
    longest = int(zero_bytes.max(initial=0))
    for power in range(longest.bit_length()):
        rows = np.flatnonzero((zero_bytes >> power) & 1)
        if len(rows):
            moved[rows] = _mapped(_tables(power), moved[rows])
    return moved


def _mapped(tables: npt.NDArray[np.uint32], crcs: Crcs) -> Crcs:
    mapped: Crcs = tables[0][crcs & 0xFF]
    for byte in range(1, 4):
        mapped = mapped ^ tables[byte][(crcs >> (8 * byte)) & 0xFF]
    return mapped


@lru_cache(maxsize=64)
def _tables(power: int) -> npt.NDArray[np.uint32]:
    """Returns the matrix for 2**power zero bytes as four look-up tables, one for each byte of a CRC."""
    columns = np.array(zeros_matrix(power), dtype=np.uint32).reshape(4, 8)
    values = np.arange(256, dtype=np.uint32)
    tables = np.zeros((4, 256), dtype=np.uint32)
    for bit in range(8):
        chosen = ((values >> bit) & 1).astype(bool)
        tables[:, chosen] ^= columns[:, bit : bit + 1]
    return tables


def joined_starts(table: Table, breaks: Truths, merged_block_bytes_max: int) -> Integers:
    """Returns the rows that begin a joined block: where ``breaks`` is true, where the stream changes or the offsets
    have a gap, and where the joined block would become larger than ``merged_block_bytes_max``."""
    if not len(table):
        return np.empty(0, dtype=np.int64)
    leaps = breaks.copy()
    leaps[0] = True
    leaps[1:] |= (table["stream_id"][1:] != table["stream_id"][:-1]) | (
        table["start_offset"][1:] != table["end_offset"][:-1]
    )
    starts: list[int] = []
    joined_bytes = 0
    for row, (size, leap) in enumerate(zip(table["size_bytes"].tolist(), leaps.tolist(), strict=True)):
        if leap or joined_bytes + size > merged_block_bytes_max:
            starts.append(row)
            joined_bytes = 0
        joined_bytes += size
    return np.array(starts, dtype=np.int64)


def joined(table: Table, merged_block_bytes_max: int) -> Table:
    """Returns the index entries of an object whose blocks are the rows, in order, from position 0 on."""
    no_breaks = np.zeros(len(table), dtype=np.bool_)
    starts = joined_starts(table, no_breaks, merged_block_bytes_max)
    if not len(starts):
        return table[:0]
    last = np.append(starts[1:], len(table)) - 1
    index = table[starts]
    index["end_offset"] = table["end_offset"][last]
    index["record_count"] = np.add.reduceat(table["record_count"], starts)
    index["size_bytes"] = np.add.reduceat(table["size_bytes"], starts)
    index["position"] = np.cumsum(index["size_bytes"]) - index["size_bytes"]
    index["smallest_timestamp_ms"] = _smallest(table["smallest_timestamp_ms"], starts)
    index["largest_timestamp_ms"] = np.maximum.reduceat(table["largest_timestamp_ms"], starts)
    index["crc32c"] = _crcs(table, starts, last)
    index["source"] = 0
    return index


def trailer(table: Table, merged_block_bytes_max: int) -> bytes:
    """Index and footer of an object whose blocks are the rows."""
    index = joined(table, merged_block_bytes_max)
    return trailer_of_index(index.tobytes(), int(index["size_bytes"].sum()))


def trailer_size(entry_count: Integers) -> Integers:
    """Returns the bytes of index and footer for each of the given numbers of index entries."""
    return entry_count * INDEX_ENTRY_BYTES + FOOTER_BYTES


def _smallest(timestamps: Integers, starts: Integers) -> Integers:
    """Returns the smallest timestamp of each joined block, without members that have none."""
    unset = np.iinfo(np.int64).max
    smallest = np.minimum.reduceat(np.where(timestamps == NO_TIMESTAMP, unset, timestamps), starts)
    return np.where(smallest == unset, NO_TIMESTAMP, smallest)


def _crcs(table: Table, starts: Integers, last: Integers) -> Integers:
    end_position = np.cumsum(table["size_bytes"])
    group_end = np.repeat(end_position[last], last - starts + 1)
    moved = crc32c_moved(table["crc32c"], group_end - end_position)
    crcs: Integers = np.bitwise_xor.reduceat(moved, starts)
    return crcs
