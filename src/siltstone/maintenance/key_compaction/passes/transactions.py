"""What became of transactions, from the markers in the stream itself.

The outcome of a transactional batch is the type of the first marker of its producer after it. A transaction without
one is undecided: its first offset bounds what may be touched (G2, K13).
"""

from bisect import bisect_left

import msgspec

from siltstone.kafka_protocol.records.control import Outcome


class _Aborted(msgspec.Struct):
    """Of one producer, in order."""

    first_offsets: list[int]
    marker_offsets: list[int]


class Outcomes:
    """Told of transactional batches and markers in offset order; then asked."""

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
        """Where the earliest transaction without a marker begins."""
        return min(self._open.values(), default=None)

    def is_aborted(self, producer_id: int, base_offset: int) -> bool:
        """Of a transactional batch."""
        aborted = self._aborted.get(producer_id)
        if aborted is None:
            return False
        at = bisect_left(aborted.marker_offsets, base_offset)
        return at < len(aborted.first_offsets) and aborted.first_offsets[at] <= base_offset


class TransactionsSeen:
    """G23: a marker may go only if the pass, from the beginning of the stream, met no batch of its transaction; an
    emptied batch counts as one."""

    def __init__(self) -> None:
        self._with_batches: set[int] = set()

    def batch(self, producer_id: int) -> None:
        self._with_batches.add(producer_id)

    def marker_is_alone(self, producer_id: int) -> bool:
        if producer_id in self._with_batches:
            self._with_batches.remove(producer_id)
            return False
        return True
