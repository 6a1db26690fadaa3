"""The first scan: learns what has to be known before any record may be removed.

It reads all sources from the beginning. Batch headers give the outcomes of transactions and the last batch of each
producer; the records of [dirty offset, bound) give the newest offset of each key. Records of aborted batches and
control batches never enter the key map (G9), but a transaction's outcome is only known from a marker after its
batches. So mapping halts at the first transactional batch, and continues from there in a second reading, when all
markers are known. Streams without transactions are read once.

The *mapped bound* is the offset up to which the map is complete: the bound of the task, or the start of the first
undecided transaction, or the first record for which the map had no room (G8). All records from it on stay.

The last batch of a producer has to stay, emptied if need be (G26, G27): a broker that reads the stream from its
beginning learns from it the producer's last sequence number, or its epoch if it is a marker. These batches are found
by offset in this scan and not from a producer snapshot, so they cannot be older than the bound (K32 holds by
construction). Nothing is kept for a producer that has been idle for its expiration time.
"""

import msgspec
import numpy as np

from siltstone.kafka_protocol.records.control import read_control_batch
from siltstone.maintenance.key_compaction.passes.key_map import KeyMap
from siltstone.maintenance.key_compaction.passes.time_limit import PassTimeLimit
from siltstone.maintenance.key_compaction.task_input import KeyCompactionInput
from siltstone.maintenance.record_rewriting.source_blocks import Scanner
from siltstone.offline.transactions import Outcomes
from siltstone.record_columns.batches import BAD_BATCH, Batches
from siltstone.record_columns.chunking import chunks, unreadable
from siltstone.record_columns.kernels import columns
from siltstone.record_columns.kernels.columns import Flags


class _Last(msgspec.Struct):
    """The last batch of one producer: the base offset of its last batch with data, or of its last marker if it has
    none; and the time when the producer was last active."""

    base_offset: int
    active_ms: int
    is_marker: bool
    is_open: bool


class Producers:
    """The last batch of each producer. ``batch`` and ``marker`` have to be called in offset order. An expired
    producer is forgotten at once, unless it has an open transaction, whose marker will say when it was last active."""

    def __init__(self, now_ms: int, expiration_ms: int) -> None:
        self._oldest_ms = now_ms - expiration_ms
        self._last: dict[int, _Last] = {}

    def batch(
        self, producer_id: int, base_offset: int, max_timestamp_ms: int, is_transactional: bool
    ) -> None:
        if is_transactional or max_timestamp_ms > self._oldest_ms:
            self._last[producer_id] = _Last(base_offset, max_timestamp_ms, False, is_transactional)
        else:
            self._last.pop(producer_id, None)

    def marker(self, producer_id: int, base_offset: int, timestamp_ms: int) -> None:
        known = self._last.get(producer_id)
        if timestamp_ms <= self._oldest_ms:
            self._last.pop(producer_id, None)
        elif known is None or known.is_marker:
            self._last[producer_id] = _Last(base_offset, timestamp_ms, True, False)
        else:
            known.active_ms, known.is_open = timestamp_ms, False

    def batches_that_stay(self) -> frozenset[int]:
        """Returns the base offsets of the last batches of producers that have not expired."""
        return frozenset(
            last.base_offset
            for last in self._last.values()
            if last.is_open or last.active_ms > self._oldest_ms
        )


class Learned(msgspec.Struct, frozen=True):
    """What the first scan has learned. ``batches_that_stay`` has the base offsets of the producers' last batches,
    which are kept, emptied if need be (G26). ``last_batch``, the last batch of the stream, is kept too, so that the
    end offset is not lost (G17)."""

    newest: KeyMap
    dirty_offset: int
    mapped_bound: int
    map_was_full: bool
    outcomes: Outcomes
    batches_that_stay: frozenset[int]
    last_batch: int


def learn(given: KeyCompactionInput, scanner: Scanner, limit: PassTimeLimit) -> Learned:
    """Does the first scan. Raises DamagedBlock, DamagedFrame, UnreadableBatch, RanLate, and what the stores
    raise."""
    return _FirstScan(given, scanner, limit).run()


class _FirstScan:
    def __init__(self, given: KeyCompactionInput, scanner: Scanner, limit: PassTimeLimit) -> None:
        self._given = given
        self._scanner = scanner
        self._limit = limit
        self._dirty_offset = max(given.dirty_offset, given.start_offset)
        self._outcomes = Outcomes()
        self._producers = Producers(given.now_ms, given.producer_expiration_ms)
        keys_expected = scanner.blocks.records_between(self._dirty_offset, given.bound)
        self._newest = KeyMap(given.map_bytes_max, keys_expected, scanner.kernels)
        self._full_at: int | None = None
        self._halted_at: int | None = None
        self._last_base_offset = -1
        self._mapped_offset = self._dirty_offset

    def run(self) -> Learned:
        for batches in self._scanner.scan():
            self._limit.check_first_scan(self._mapped_offset)
            self._learn_batches(batches)
            self._map_until_transaction(batches)
        bound = self._decided_bound()
        if self._halted_at is not None and self._full_at is None:
            self._go_on(self._halted_at, bound)
        was_full = self._full_at is not None and self._full_at <= bound
        mapped_bound = bound if self._full_at is None else min(bound, self._full_at)
        stay = self._producers.batches_that_stay()
        return Learned(
            self._newest,
            self._dirty_offset,
            mapped_bound,
            was_full,
            self._outcomes,
            stay,
            self._last_base_offset,
        )

    def _decided_bound(self) -> int:
        undecided = self._outcomes.first_undecided
        bound = self._given.bound if undecided is None else min(self._given.bound, undecided)
        return max(bound, self._dirty_offset)

    # -- headers ---------------------------------------------------------------------------------------------

    def _learn_batches(self, batches: Batches) -> None:
        if len(batches):
            self._last_base_offset = int(batches.base_offsets[-1])
        with_producer = batches.producer_ids >= 0
        if (batches.are_transactional | batches.are_control).any():
            for row in np.flatnonzero(with_producer).tolist():
                self._learn_batch(batches, row)
        else:
            rows = np.flatnonzero(with_producer)[::-1]
            _, last = np.unique(batches.producer_ids[rows], return_index=True)
            for row in np.sort(rows[last]).tolist():
                self._learn_data(batches, row)

    def _learn_batch(self, batches: Batches, row: int) -> None:
        if batches.are_control[row]:
            self._learn_marker(batches, row)
            return
        self._learn_data(batches, row)
        if batches.are_transactional[row]:
            self._outcomes.batch(int(batches.producer_ids[row]), int(batches.base_offsets[row]))

    def _learn_data(self, batches: Batches, row: int) -> None:
        self._producers.batch(
            int(batches.producer_ids[row]), int(batches.base_offsets[row]),
            int(batches.column(columns.MAX_MS)[row]), bool(batches.are_transactional[row]),
        )  # fmt: skip

    def _learn_marker(self, batches: Batches, row: int) -> None:
        """Learns from a control batch. An emptied one has no marker: nothing else is left of its transaction."""
        producer_id, offset = int(batches.producer_ids[row]), int(batches.base_offsets[row])
        self._producers.marker(producer_id, offset, int(batches.column(columns.MAX_MS)[row]))
        if batches.record_counts[row]:
            try:
                outcome = read_control_batch(batches.payload(row)).outcome
            except BAD_BATCH as cause:
                raise unreadable(batches, offset, cause) from cause
            self._outcomes.marker(producer_id, offset, outcome)

    # -- keys --------------------------------------------------------------------------------------------------

    def _map_until_transaction(self, batches: Batches) -> None:
        if self._halted_at is not None or self._full_at is not None:
            return
        lower, upper = self._dirty_offset, self._given.bound
        data = self._between(batches, lower, upper)
        transactional = np.flatnonzero(data & batches.are_transactional)
        if len(transactional):
            upper = self._halted_at = max(lower, int(batches.base_offsets[transactional[0]]))
            data = self._between(batches, lower, upper)
        self._map(batches, data, lower, upper)

    def _go_on(self, lower: int, upper: int) -> None:
        for batches in self._scanner.scan(lower):
            data = self._between(batches, lower, upper)
            for row in np.flatnonzero(data & batches.are_transactional).tolist():
                producer_id, base_offset = int(batches.producer_ids[row]), int(batches.base_offsets[row])
                data[row] = not self._outcomes.is_aborted(producer_id, base_offset)
            self._map(batches, data, lower, upper)
            if self._full_at is not None or int(batches.end_offsets[-1]) >= upper:
                return

    def _between(self, batches: Batches, lower: int, upper: int) -> Flags:
        """Marks the batches that hold data with offsets in [lower, upper)."""
        within = (batches.end_offsets > lower) & (batches.base_offsets < upper)
        return within & ~batches.are_control & (batches.record_counts > 0)

    def _map(self, batches: Batches, data: Flags, lower: int, upper: int) -> None:
        if not data.any():
            return
        for chunk in chunks(batches, data, self._scanner.kernels):
            records = chunk.records
            wanted = records.have_key & (records.offsets >= lower) & (records.offsets < upper)
            first_without_room = self._newest.put(self._scanner.hashes(records), records.offsets, wanted)
            if first_without_room is not None:
                self._full_at = int(records.offsets[first_without_room])
                return
            self._mapped_offset = max(self._mapped_offset, int(batches.end_offsets[chunk.end - 1]))
            self._limit.check_first_scan(self._mapped_offset)
