"""What becomes of each batch and each record: rules G11 to G27, over columns, without I/O.

A batch that is

* wholly below the start offset goes;
* at or above the mapped bound stays as it is;
* aborted loses all records (G22), one wholly below the mapped bound;
* a marker whose transaction has no other batch left gets a time limit in one pass and loses its record in a later
  one (G23);
* any other is opened, and of its records stay those at or above the mapped bound, and those that are the newest of
  their key and have a value, or are tombstones whose time limit has not passed (G11). Those without a key go (G6).

The time limit of a batch's tombstones begins when the whole batch lies below the mapped bound: then nothing older of
their keys is left (K6; Kafka begins earlier).
"""

from enum import IntEnum

import msgspec
import numpy as np

from siltstone.maintenance.key_compaction.kernels.columns import Flags, Integers
from siltstone.maintenance.key_compaction.passes.batches import Batches
from siltstone.maintenance.key_compaction.passes.chunking import Records
from siltstone.maintenance.key_compaction.passes.first_scan import Learned
from siltstone.maintenance.key_compaction.passes.transactions import TransactionsSeen


class Action(IntEnum):
    COPY = 0
    REBUILD = 1
    EMPTY = 2
    DROP = 3


class Verdict:
    """Of each batch: how many records stay, whether that is yet to be seen from its records, whether it gets a time
    limit."""

    __slots__ = ("gets_horizon", "kept_counts", "opened")

    def __init__(self, kept_counts: Integers, opened: Flags, gets_horizon: Flags) -> None:
        self.kept_counts = kept_counts
        self.opened = opened
        self.gets_horizon = gets_horizon


class KeptRecords(msgspec.Struct, frozen=True):
    """``kept`` of all records of a chunk; the numbers are for the result."""

    kept: Flags
    tombstones_kept: int
    null_keys: int


class Judge:
    def __init__(self, learned: Learned, start_offset: int, now_ms: int) -> None:
        self._learned = learned
        self._start_offset = start_offset
        self._now_ms = now_ms
        self._stay = np.array(sorted(learned.batches_that_stay), dtype=np.int64)
        self._seen = TransactionsSeen()

    def judge_batches(self, batches: Batches) -> Verdict:
        """Blocks have to come in order: markers look back."""
        kept_counts = batches.record_counts.copy()
        trimmed = batches.end_offsets <= self._start_offset
        kept_counts[trimmed] = 0
        below = batches.base_offsets < self._learned.mapped_bound
        opened = below & ~trimmed & ~batches.are_control & (kept_counts > 0)
        verdict = Verdict(kept_counts, opened, np.zeros(len(batches), dtype=np.bool_))
        of_transactions = below & (batches.are_transactional | batches.are_control)
        for row in np.flatnonzero(of_transactions).tolist():
            if batches.are_control[row]:
                self._judge_marker(batches, row, verdict)
            else:
                self._judge_transactional(batches, row, verdict)
        return verdict

    def _judge_marker(self, batches: Batches, row: int, verdict: Verdict) -> None:
        if not batches.record_counts[row]:
            return
        is_alone = self._seen.marker_is_alone(int(batches.producer_ids[row]))
        if not (
            is_alone and batches.end_offsets[row] <= self._learned.mapped_bound and verdict.kept_counts[row]
        ):
            return
        if not batches.have_horizon[row]:
            verdict.gets_horizon[row] = verdict.opened[row] = True
        elif batches.have_expired(self._now_ms)[row]:
            verdict.kept_counts[row] = 0

    def _judge_transactional(self, batches: Batches, row: int, verdict: Verdict) -> None:
        producer_id = int(batches.producer_ids[row])
        self._seen.batch(producer_id)
        if self._learned.outcomes.is_aborted(producer_id, int(batches.base_offsets[row])):
            verdict.opened[row] = False
            if batches.end_offsets[row] <= self._learned.mapped_bound:
                verdict.kept_counts[row] = 0

    def judge_records(
        self, batches: Batches, records: Records, are_newest: Flags, verdict: Verdict
    ) -> KeptRecords:
        """Of the opened batches of a chunk; the verdict on these batches is complete after it. ``are_newest``: of
        records with a key below the mapped bound, whether the map has no newer one of that key."""
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
        self, batches: Batches, records: Records, kept: Flags, tombstones: Flags, verdict: Verdict
    ) -> None:
        of_chunk = np.zeros(len(batches), dtype=np.bool_)
        of_chunk[records.batch] = True
        kept_counts = np.bincount(records.batch[kept], minlength=len(batches))
        verdict.kept_counts[of_chunk] = kept_counts[of_chunk]
        with_tombstones = np.zeros(len(batches), dtype=np.bool_)
        with_tombstones[records.batch[tombstones]] = True
        mapped = batches.end_offsets <= self._learned.mapped_bound
        verdict.gets_horizon |= with_tombstones & mapped & ~batches.have_horizon

    def actions(self, batches: Batches, verdict: Verdict) -> Integers:
        """An Action for each batch; of those opened only once their records were judged."""
        counts, kept_counts = batches.record_counts, verdict.kept_counts
        stays = self._last_of_producers(batches) & (batches.end_offsets > self._start_offset)
        stays |= batches.base_offsets >= self._learned.mapped_bound
        stays |= batches.base_offsets == self._learned.last_batch
        actions = np.full(len(batches), Action.REBUILD, dtype=np.int64)
        actions[(kept_counts == counts) & ~verdict.gets_horizon] = Action.COPY
        actions[(kept_counts == 0) & (counts > 0)] = Action.EMPTY
        actions[(kept_counts == 0) & ~stays] = Action.DROP
        return actions

    def _last_of_producers(self, batches: Batches) -> Flags:
        places = np.searchsorted(self._stay, batches.base_offsets)
        found: Flags = np.append(self._stay, -1)[places] == batches.base_offsets
        return found
