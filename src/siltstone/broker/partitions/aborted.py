"""The aborted transactions of a partition, in the order of their markers. Pure.

A client that reads committed records gets them with each fetch, and drops the batches of a producer from the first
offset of an aborted transaction to its marker.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from siltstone.object_formats.partition_snapshot import AbortedTransaction


class AbortedTransactions:
    """Entries are added in the order of their markers, and leave at the start of the log. ``open_from``: the first
    offset of the earliest transaction that is open, None if none is."""

    def __init__(self, entries: Iterable[AbortedTransaction] = (), open_from: int | None = None) -> None:
        self._entries = list(entries)
        self._marker_offsets = [entry.marker_offset for entry in self._entries]
        end = self._marker_offsets[-1] + 1 if self._entries else 0
        self._later_from = _smallest_behind(self._entries, end if open_from is None else min(open_from, end))
        """For each entry, an offset below which no later entry begins: a lookup ends there."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return iter(self._entries)

    def add(self, entry: AbortedTransaction, undecided_from: int) -> None:
        """``undecided_from``: the offset from which on transactions are open, or will begin."""
        assert not self._marker_offsets or self._marker_offsets[-1] < entry.marker_offset
        self._entries.append(entry)
        self._marker_offsets.append(entry.marker_offset)
        self._later_from.append(undecided_from)

    def between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Returns the transactions that may have a batch or a marker in a fetch, in the order of their first offsets.
        A fetch that begins at the marker gets its transaction, too: some clients expect it."""
        found = []
        for index in range(bisect_left(self._marker_offsets, start_offset), len(self._entries)):
            if self._entries[index].first_offset < end_offset:
                found.append(self._entries[index])
            if self._later_from[index] >= end_offset:
                break
        return sorted(found, key=lambda entry: entry.first_offset)

    def trim(self, start_offset: int) -> None:
        """Drops the transactions whose marker is before the start of the log."""
        gone = bisect_left(self._marker_offsets, start_offset)
        del self._entries[:gone], self._marker_offsets[:gone], self._later_from[:gone]


def _smallest_behind(entries: list[AbortedTransaction], smallest: int) -> list[int]:
    """``smallest``: the offset below which no transaction begins that will be added."""
    behind = []
    for entry in reversed(entries):
        behind.append(smallest)
        smallest = min(smallest, entry.first_offset)
    return behind[::-1]
