"""Decides what becomes of each batch and each record: rules G11 to G27, over columns, without I/O.

* A batch wholly below the start offset is dropped.
* A batch that begins at or above the mapped bound is copied unchanged.
* An aborted batch wholly below the mapped bound loses all its records (G22).
* A control batch whose transaction has no other batch left gets a delete horizon in one run, and loses its marker in a
  later one (G23).
* Every other batch is decoded. Its records at or above the mapped bound stay, and the newest record of each key, if it
  has a value or is a tombstone whose delete horizon has not passed (G11). Records without a key are removed (G6).

A batch with tombstones gets its delete horizon when it lies wholly below the mapped bound: from then on no older record
of their keys is left (K6; Kafka sets it earlier).
"""

import msgspec
import numpy as np

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.records.control import Outcome, read_control_batch
from siltstone.maintenance.key_compaction.passes.first_scan import Learned
from siltstone.maintenance.record_rewriting.chunk_writing import RecordAction
from siltstone.record_columns.batches import Batches
from siltstone.record_columns.chunking import Records
from siltstone.record_columns.kernels.columns import Flags, Integers


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


class RecordVerdict:
    """For each batch of a block: the number of records kept; whether the records must be decoded to know it
    (``opened``); whether the batch gets a delete horizon."""

    __slots__ = ("gets_horizon", "kept_counts", "opened")

    def __init__(self, kept_counts: Integers, opened: Flags, gets_horizon: Flags) -> None:
        self.kept_counts = kept_counts
        self.opened = opened
        self.gets_horizon = gets_horizon


class KeptRecords(msgspec.Struct, frozen=True):
    """Which records of a chunk are kept, and counts for the result."""

    kept: Flags
    tombstones_kept: int
    null_keys: int


class Judge:
    """Judges the blocks of a stream. Blocks have to come in offset order, because a marker is judged by the batches
    of its transaction before it."""

    def __init__(
        self, learned: Learned, start_offset: int, now_ms: int, commit_markers_end: int | None = None
    ) -> None:
        self._commit_markers_end = commit_markers_end
        self._learned = learned
        self._start_offset = start_offset
        self._now_ms = now_ms
        self._stay = np.array(sorted(learned.batches_that_stay), dtype=np.int64)
        self._seen = TransactionsSeen()

    def judge_batches(self, batches: Batches) -> RecordVerdict:
        """Returns the verdict on the batches of a block, as far as their headers show it."""
        kept_counts = batches.record_counts.copy()
        trimmed = batches.end_offsets <= self._start_offset
        kept_counts[trimmed] = 0
        below = batches.base_offsets < self._learned.mapped_bound
        opened = below & ~trimmed & ~batches.are_control & (kept_counts > 0)
        verdict = RecordVerdict(kept_counts, opened, np.zeros(len(batches), dtype=np.bool_))
        of_transactions = below & (batches.are_transactional | batches.are_control)
        for row in np.flatnonzero(of_transactions).tolist():
            if batches.are_control[row]:
                self._judge_marker(batches, row, verdict)
            else:
                self._judge_transactional(batches, row, verdict)
        return verdict

    def _judge_marker(self, batches: Batches, row: int, verdict: RecordVerdict) -> None:
        if not batches.record_counts[row]:
            return
        is_alone = self._seen.marker_is_alone(int(batches.producer_ids[row]))
        if not (
            is_alone
            and batches.end_offsets[row] <= self._learned.mapped_bound
            and verdict.kept_counts[row]
            and self._may_go(batches, row)
        ):
            return
        if not batches.have_horizon[row]:
            verdict.gets_horizon[row] = verdict.opened[row] = True
        elif batches.have_expired(self._now_ms)[row]:
            verdict.kept_counts[row] = 0

    def _may_go(self, batches: Batches, row: int) -> bool:
        """Returns whether nobody needs the marker any more."""
        if self._commit_markers_end is None:
            return True
        if batches.end_offsets[row] > self._commit_markers_end:
            return False
        try:
            return read_control_batch(batches.payload(row)).outcome is Outcome.COMMIT
        except MalformedRecords:
            return False

    def _judge_transactional(self, batches: Batches, row: int, verdict: RecordVerdict) -> None:
        producer_id = int(batches.producer_ids[row])
        self._seen.batch(producer_id)
        if self._learned.outcomes.is_aborted(producer_id, int(batches.base_offsets[row])):
            verdict.opened[row] = False
            if batches.end_offsets[row] <= self._learned.mapped_bound:
                verdict.kept_counts[row] = 0

    def judge_records(
        self, batches: Batches, records: Records, are_newest: Flags, verdict: RecordVerdict
    ) -> KeptRecords:
        """Judges the records of a chunk, and completes the verdict on their batches. ``are_newest`` says of each
        record with a key below the mapped bound whether the key map has no newer record of that key."""
        bound = self._learned.mapped_bound
        have_key, have_value = records.have_key, records.have_value
        has_expired = batches.have_expired(self._now_ms)[records.batch]
        is_newest = have_key & are_newest
        kept = (records.offsets >= bound) | (is_newest & (have_value | ~has_expired))
        kept &= records.offsets >= self._start_offset
        kept |= batches.are_control[records.batch]
        tombstones = kept & have_key & ~have_value
        self._count(batches, records, kept, tombstones, verdict)
        null_keys = ~have_key & ~kept & (records.offsets >= self._start_offset)
        return KeptRecords(kept, int(tombstones.sum()), int(null_keys.sum()))

    def _count(
        self, batches: Batches, records: Records, kept: Flags, tombstones: Flags, verdict: RecordVerdict
    ) -> None:
        of_chunk = np.zeros(len(batches), dtype=np.bool_)
        of_chunk[records.batch] = True
        kept_counts = np.bincount(records.batch[kept], minlength=len(batches))
        verdict.kept_counts[of_chunk] = kept_counts[of_chunk]
        with_tombstones = np.zeros(len(batches), dtype=np.bool_)
        with_tombstones[records.batch[tombstones]] = True
        mapped = batches.end_offsets <= self._learned.mapped_bound
        verdict.gets_horizon |= with_tombstones & mapped & ~batches.have_horizon

    def actions(self, batches: Batches, verdict: RecordVerdict) -> Integers:
        """Returns an Action for each batch. For a batch that is decoded it is valid only after its records were
        judged."""
        counts, kept_counts = batches.record_counts, verdict.kept_counts
        stays = self._last_of_producers(batches) & (batches.end_offsets > self._start_offset)
        stays |= batches.base_offsets >= self._learned.mapped_bound
        stays |= batches.base_offsets == self._learned.last_batch
        actions = np.full(len(batches), RecordAction.REBUILD, dtype=np.int64)
        actions[(kept_counts == counts) & ~verdict.gets_horizon] = RecordAction.COPY
        actions[(kept_counts == 0) & (counts > 0)] = RecordAction.EMPTY
        actions[(kept_counts == 0) & ~stays] = RecordAction.DROP
        return actions

    def _last_of_producers(self, batches: Batches) -> Flags:
        places = np.searchsorted(self._stay, batches.base_offsets)
        found: Flags = np.append(self._stay, -1)[places] == batches.base_offsets
        return found
