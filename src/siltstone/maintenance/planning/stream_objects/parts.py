"""How an object is put together from others: which parts are copied inside the store, and which pass through a process.

A store takes no part but the last below a minimum (5 MiB on S3), so what is smaller in a source is read, and its
neighbours with it until the part is large enough. Reading begins and ends with blocks, so that every block that passes
through a process is checked on the way; copying does not care. The last part is ours in any case: index and footer are
in it, behind what is too small to be sent before.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from siltstone.maintenance.planning.columns import Table
from siltstone.maintenance.planning.stream_objects.settings import StreamObjectCompactionSettings


class CopiedPart(msgspec.Struct, frozen=True, array_like=True):
    """Bytes [start, end) of source number ``source``, at ``position`` of the new object."""

    part_number: int
    position: int
    source: int
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


class ReadPart(msgspec.Struct, frozen=True, array_like=True):
    """The blocks [first_block, end_block), then ``trailer`` (index and footer, in the last part only)."""

    part_number: int
    position: int
    first_block: int
    end_block: int
    trailer: bytes = b""


Part = CopiedPart | ReadPart


def lay_out(table: Table, trailer: bytes, settings: StreamObjectCompactionSettings) -> list[Part]:
    """The parts in order; the last one is a ReadPart. ``table``: the blocks as they will lie in the new object."""
    layout = _Layout(table, settings)
    for first, end in _spans(table):
        layout.add(first, end)
    layout.read(len(table), trailer)
    return layout.parts


class _Layout:
    def __init__(self, table: Table, settings: StreamObjectCompactionSettings) -> None:
        self.parts: list[Part] = []
        self._table = table
        self._settings = settings
        self._bytes_before = np.concatenate(([0], np.cumsum(table["size_bytes"])))
        self._waiting = 0
        """The first row that no part has yet; what waits takes less than a part."""

    def add(self, first: int, end: int) -> None:
        """The rows [first, end), which follow each other in one source."""
        smallest = self._settings.part_bytes_min
        if self._bytes(first, end) < smallest:
            if self._bytes(self._waiting, end) >= smallest:
                self.read(end)
            return
        if self._waiting < first:
            self._read_with_head(first, end)
        if self._waiting < end:
            self._copy(end)

    def read(self, end: int, trailer: bytes = b"") -> None:
        position = int(self._bytes_before[self._waiting])
        self.parts.append(ReadPart(len(self.parts) + 1, position, self._waiting, end, trailer))
        self._waiting = end

    def _read_with_head(self, first: int, end: int) -> None:
        """What waits, filled up from the head of a large span; with all of it when the rest would be too small."""
        smallest = self._settings.part_bytes_min
        full = self._bytes_before[self._waiting] + smallest
        cut = int(np.searchsorted(self._bytes_before, full))
        self.read(cut if self._bytes(cut, end) >= smallest else end)

    def _copy(self, end: int) -> None:
        size_bytes = self._bytes(self._waiting, end)
        source = int(self._table["source"][self._waiting])
        start = int(self._table["position"][self._waiting])
        position = int(self._bytes_before[self._waiting])
        count = -(-size_bytes // self._settings.copy_bytes_max)
        for number in range(count):
            before, after = size_bytes * number // count, size_bytes * (number + 1) // count
            self.parts.append(
                CopiedPart(len(self.parts) + 1, position + before, source, start + before, start + after)
            )
        self._waiting = end

    def _bytes(self, first: int, end: int) -> int:
        return int(self._bytes_before[end] - self._bytes_before[first])


def _spans(table: Table) -> Iterator[tuple[int, int]]:
    """Rows [first, end) that follow each other, byte after byte, in one source."""
    ends_before = table["position"][:-1] + table["size_bytes"][:-1]
    leaps = (table["source"][1:] != table["source"][:-1]) | (table["position"][1:] != ends_before)
    firsts = [0, *(np.flatnonzero(leaps) + 1).tolist()]
    return zip(firsts, [*firsts[1:], len(table)], strict=True)
