"""The second scan: reads all sources again, judges batch by batch which records stay, and writes these.

``look`` writes nothing and ends at the first batch that would change. Only then does ``write`` scan from the beginning,
so a stream from which nothing can be removed is not rewritten.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from siltstone.maintenance.key_compaction.passes.first_scan import Learned
from siltstone.maintenance.key_compaction.passes.judging import (
    Judge,
    KeptRecords,
    RecordVerdict,
)
from siltstone.maintenance.key_compaction.passes.time_limit import PassTimeLimit
from siltstone.maintenance.key_compaction.task_input import KeyCompactionInput
from siltstone.maintenance.record_rewriting.chunk_writing import ChunkWork, RecordAction, write_chunk
from siltstone.maintenance.record_rewriting.output import Output
from siltstone.maintenance.record_rewriting.source_blocks import Scanner
from siltstone.record_columns.batches import Batches
from siltstone.record_columns.chunking import Chunk, Records, chunks
from siltstone.record_columns.kernels.columns import Flags, Integers


class Tally(msgspec.Struct):
    """The counts of the result."""

    records_read: int = 0
    records_kept: int = 0
    tombstones_kept: int = 0
    null_keys: int = 0
    batches_read: int = 0
    batches_kept: int = 0
    batches_copied: int = 0
    batches_emptied: int = 0
    batches_grown: int = 0


class _JudgedChunk(msgspec.Struct, frozen=True):
    """A chunk of a block after its records were judged. ``actions`` are those of the chunk's batches."""

    batches: Batches
    chunk: Chunk
    kept: KeptRecords
    verdict: RecordVerdict
    actions: Integers

    def work(self, horizon_ms: int) -> ChunkWork:
        gets_horizon = self.verdict.gets_horizon
        return ChunkWork(self.batches, self.chunk, self.kept.kept, self.actions, gets_horizon, horizon_ms)


class SecondScan:
    """The second scan of one stream; each of its methods scans all sources, and raises RanLate."""

    def __init__(
        self, given: KeyCompactionInput, scanner: Scanner, learned: Learned, limit: PassTimeLimit
    ) -> None:
        self._given = given
        self._limit = limit
        self._scanner = scanner
        self._learned = learned
        self._mapped = learned.newest.newest_in(learned.dirty_offset, learned.mapped_bound)

    def look(self) -> Tally | None:
        """Returns the counts, when every batch of the stream would be copied unchanged; otherwise None."""
        tally = Tally()
        for judged in self._judged_chunks():
            if (judged.actions != RecordAction.COPY).any():
                return None
            _count(tally, judged)
        return tally

    def write(self, output: Output) -> Tally:
        """Writes the batches and records that stay."""
        tally = Tally()
        for judged in self._judged_chunks():
            _count(tally, judged)
            tally.batches_grown += write_chunk(
                judged.work(self._given.horizon_ms), output, self._scanner.kernels
            )
        output.finish()
        return tally

    def _judged_chunks(self) -> Iterator[_JudgedChunk]:
        judge = Judge(
            self._learned, self._given.start_offset, self._given.now_ms, self._given.commit_markers_end
        )
        for batches in self._scanner.scan():
            verdict = judge.judge_batches(batches)
            for chunk in chunks(batches, verdict.opened, self._scanner.kernels):
                are_newest = self._are_newest(chunk.records)
                kept = judge.judge_records(batches, chunk.records, are_newest, verdict)
                actions = judge.actions(batches, verdict)[chunk.first : chunk.end]
                self._limit.check_second_scan(self._learned.mapped_bound)
                yield _JudgedChunk(batches, chunk, kept, verdict, actions)

    def _are_newest(self, records: Records) -> Flags:
        """Marks the records that are the newest of their key. For mapped offsets the offset is enough; the keys of
        records below the dirty offset are looked up in the key map."""
        dirty_offset, bound = self._learned.dirty_offset, self._learned.mapped_bound
        if self._mapped is None:
            return self._looked_up(records, records.offsets < bound)
        places = np.clip(records.offsets - dirty_offset, 0, max(0, bound - dirty_offset - 1))
        of_mapped = self._mapped[places] if len(self._mapped) else np.zeros(len(records), dtype=np.bool_)
        are_older = records.offsets < dirty_offset
        return (
            np.where(are_older, self._looked_up(records, are_older), of_mapped)
            if are_older.any()
            else of_mapped
        )

    def _looked_up(self, records: Records, wanted: Flags) -> Flags:
        newest = self._learned.newest.newest(self._scanner.hashes(records), wanted & records.have_key)
        are_newest: Flags = newest <= records.offsets
        return are_newest


def _count(tally: Tally, judged: _JudgedChunk) -> None:
    rows = slice(judged.chunk.first, judged.chunk.end)
    actions: list[int] = judged.actions.tolist()
    tally.records_read += int(judged.batches.record_counts[rows].sum())
    tally.records_kept += int(judged.verdict.kept_counts[rows].sum())
    tally.tombstones_kept += judged.kept.tombstones_kept
    tally.null_keys += judged.kept.null_keys
    tally.batches_read += len(actions)
    tally.batches_kept += len(actions) - actions.count(RecordAction.DROP)
    tally.batches_copied += actions.count(RecordAction.COPY)
    tally.batches_emptied += actions.count(RecordAction.EMPTY)
