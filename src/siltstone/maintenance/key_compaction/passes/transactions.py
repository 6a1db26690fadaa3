"""The outcomes of transactions, from the markers in the stream itself.

The outcome of a transactional batch is the type of its producer's first marker after it. A transaction without a marker
is undecided, and nothing from its first offset on may be compacted (G2, K13).
"""

from bisect import bisect_left

import msgspec

from siltstone.kafka_protocol.records.control import Outcome


class _Aborted(msgspec.Struct):
    """The aborted transactions of one producer, in offset order."""

    first_offsets: list[int]
    marker_offsets: list[int]


class Outcomes:
    """The outcomes of all transactions. ``batch`` and ``marker`` have to be called in offset order; after the last
    batch the other methods may be called."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._aborted: dict[int, _Aborted] = {}

    def batch(self, producer_id: int, base_offset: int) -> None:
        self._open.setdefault(producer_id, base_offset)

    def marker(self, producer_id: int, offset: int, outcome: Outcome) -> None:
        first_offset = self._open.pop(producer_id, None)
        if outcome is Outcome.ABORT and first_offset is not None:
            aborted = self._aborted.setdefault(producer_id, _Aborted([], []))
            aborted.first_offsets.append(first_offset)
            aborted.marker_offsets.append(offset)

    @property
    def first_undecided(self) -> int | None:
        """The first offset of the earliest transaction without a marker; None when there is none."""
        return min(self._open.values(), default=None)

    def is_aborted(self, producer_id: int, base_offset: int) -> bool:
        """Returns whether the transaction of a transactional batch was aborted."""
        aborted = self._aborted.get(producer_id)
        if aborted is None:
            return False
        at = bisect_left(aborted.marker_offsets, base_offset)
        return at < len(aborted.first_offsets) and aborted.first_offsets[at] <= base_offset


class TransactionsSeen:
    """Which producers have batches in the transaction under way. A marker may be removed only if no batch of its
    transaction is left in the stream, not even an emptied one (G23). ``batch`` and ``marker_is_alone`` have to be
    called in offset order, from the beginning of the stream."""

    def __init__(self) -> None:
        self._with_batches: set[int] = set()

    def batch(self, producer_id: int) -> None:
        self._with_batches.add(producer_id)

    def marker_is_alone(self, producer_id: int) -> bool:
        """Returns whether the stream holds no batch of the transaction that this marker ends."""
        if producer_id in self._with_batches:
            self._with_batches.remove(producer_id)
            return False
        return True
