"""The transactions of a partition, as its batches and markers show them. Pure.

The outcome of a transactional batch is the type of its producer's first marker after it. A transaction without a marker
is undecided: nothing from its first offset on may be compacted (G2, K13), and readers of committed records end there.
They drop the batches of a producer from the first offset of an aborted transaction to its marker.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping

from siltstone.kafka_protocol.records.control import Outcome
from siltstone.object_formats.partition_snapshot import AbortedTransaction


class AbortedTransactions:
    """The aborted transactions, in the order of their markers. Entries are added in that order, and leave at the start
    of the log. ``open_from``: the first offset of the earliest transaction that is open, None if none is."""

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

    def behind(self, marker_offset: int) -> list[AbortedTransaction]:
        """Returns the transactions whose marker is behind an offset."""
        return self._entries[bisect_right(self._marker_offsets, marker_offset) :]

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


class Outcomes:
    """The outcomes of all transactions. ``batch`` and ``marker`` have to be called in offset order; after the last
    batch the other methods may be called. ``opened``: producer → first offset of the transaction that is open where the
    calls begin; ``aborted``: the transactions that were aborted before."""

    def __init__(
        self, opened: Mapping[int, int] | None = None, aborted: Iterable[AbortedTransaction] = ()
    ) -> None:
        self._open = dict(opened or {})
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for each in aborted:
            self._aborted.setdefault(each.producer_id, []).append(each)

    def batch(self, producer_id: int, base_offset: int) -> None:
        self._open.setdefault(producer_id, base_offset)

    def marker(self, producer_id: int, offset: int, outcome: Outcome) -> None:
        first_offset = self._open.pop(producer_id, None)
        if outcome is Outcome.ABORT and first_offset is not None:
            entry = AbortedTransaction(producer_id, first_offset, offset)
            self._aborted.setdefault(producer_id, []).append(entry)

    @property
    def opened(self) -> Mapping[int, int]:
        """Producer → first offset of its transaction that has no marker."""
        return self._open

    @property
    def first_undecided(self) -> int | None:
        """The first offset of the earliest transaction without a marker; None when there is none."""
        return min(self._open.values(), default=None)

    def is_aborted(self, producer_id: int, base_offset: int) -> bool:
        """Returns whether the transaction of a transactional batch was aborted."""
        aborted = self._aborted.get(producer_id, ())
        at = bisect_left(aborted, base_offset, key=_marker_offset)
        return at < len(aborted) and aborted[at].first_offset <= base_offset

    def aborted(self) -> AbortedTransactions:
        """Returns the aborted transactions of all producers."""
        entries = sorted((each for those in self._aborted.values() for each in those), key=_marker_offset)
        return AbortedTransactions(entries, self.first_undecided)


def _marker_offset(entry: AbortedTransaction) -> int:
    return entry.marker_offset
