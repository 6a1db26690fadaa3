"""What a plan writes, as columns: its stream objects, and the parts of its stream set object."""

from collections.abc import Sequence

import numpy as np

from siltstone.maintenance.planning.columns import Integers, Table
from siltstone.maintenance.planning.grouping import Runs
from siltstone.maintenance.planning.iterations import Bounds
from siltstone.maintenance.planning.joining import joined_starts, trailer_size


class StreamObjectPieces:
    """Stream object ``i`` is rows [first[i], end[i]): a split run, or what one iteration does of it."""

    __slots__ = ("end", "first", "run")

    def __init__(self, table: Table, runs: Runs, bounds: Sequence[Bounds]) -> None:
        run_of_row = runs.of_rows()
        rows = np.flatnonzero(runs.is_split[run_of_row]) if len(table) else np.empty(0, dtype=np.int64)
        ends = np.array([each.end for each in bounds], dtype=np.int64)
        iteration = np.searchsorted(ends, rows, side="right")
        run = run_of_row[rows]
        begins = np.ones(len(rows), dtype=np.bool_)
        begins[1:] = (run[1:] != run[:-1]) | (iteration[1:] != iteration[:-1])
        self.first: Integers = rows[begins]
        last = np.append(np.flatnonzero(begins)[1:], len(rows)) - 1
        self.end: Integers = rows[last] + 1 if len(rows) else rows
        self.run: Integers = run[begins]

    def __len__(self) -> int:
        return len(self.first)

    def between(self, first_row: int, end_row: int) -> range:
        """The numbers of those that lie in [first_row, end_row)."""
        return range(int(np.searchsorted(self.first, first_row)), int(np.searchsorted(self.first, end_row)))


class StreamObjectSizes:
    """What the commit says of each: bytes of its blocks, of the whole object, and its largest timestamp."""

    __slots__ = ("entry_count", "largest_timestamp_ms", "object_bytes", "size_bytes")

    def __init__(self, table: Table, pieces: StreamObjectPieces, merged_block_bytes_max: int) -> None:
        breaks = np.zeros(len(table), dtype=np.bool_)
        breaks[pieces.first] = True
        starts = joined_starts(table, breaks, merged_block_bytes_max)
        bytes_before = np.concatenate(([0], np.cumsum(table["size_bytes"])))
        self.size_bytes: Integers = bytes_before[pieces.end] - bytes_before[pieces.first]
        self.entry_count: Integers = np.searchsorted(starts, pieces.end) - np.searchsorted(
            starts, pieces.first
        )
        self.object_bytes: Integers = self.size_bytes + trailer_size(self.entry_count)
        self.largest_timestamp_ms: Integers = _largest(table, pieces)


def _largest(table: Table, pieces: StreamObjectPieces) -> Integers:
    if not len(pieces):
        return np.empty(0, dtype=np.int64)
    bounds = np.stack((pieces.first, pieces.end), axis=1).ravel()
    padded = np.append(table["largest_timestamp_ms"], np.iinfo(np.int64).min)
    return np.maximum.reduceat(padded, bounds)[::2]
