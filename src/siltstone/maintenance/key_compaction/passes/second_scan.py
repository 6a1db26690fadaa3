"""The second scan: all sources again, judged batch by batch, and what stays written.

As long as nothing has changed nothing is written: a stream in which nothing can go is only looked at. From the first
change on the scan begins again, and writes.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from siltstone.maintenance.key_compaction.kernels.columns import Flags, Integers
from siltstone.maintenance.key_compaction.passes.batches import Batches
from siltstone.maintenance.key_compaction.passes.chunking import Chunk, Records, chunks
from siltstone.maintenance.key_compaction.passes.first_scan import Learned
from siltstone.maintenance.key_compaction.passes.judging import Action, Judge, KeptRecords, Verdict
from siltstone.maintenance.key_compaction.passes.output import Output
from siltstone.maintenance.key_compaction.passes.rebuilding import Rebuilding, rebuilt_batches
from siltstone.maintenance.key_compaction.passes.source_blocks import Scanner
from siltstone.maintenance.key_compaction.task_input import KeyCompactionInput


class Tally(msgspec.Struct):
    """What the result says in numbers."""

    records_read: int = 0
    records_kept: int = 0
    tombstones_kept: int = 0
    null_keys: int = 0
    batches_read: int = 0
    batches_kept: int = 0
    batches_copied: int = 0
    batches_emptied: int = 0
    batches_grown: int = 0


class SecondScan:
    def __init__(self, given: KeyCompactionInput, scanner: Scanner, learned: Learned) -> None:
        self._given = given
        self._scanner = scanner
        self._learned = learned
        self._mapped = learned.newest.newest_in(learned.dirty_offset, learned.mapped_bound)

    def look(self) -> Tally | None:
        """The numbers of a stream in which nothing can go; None: something can."""
        judge, tally = self._judge(), Tally()
        for batches in self._scanner.scan():
            verdict = judge.judge_batches(batches)
            for chunk in chunks(batches, verdict.opened, self._scanner.kernels):
                kept = self._judge_records(judge, batches, chunk, verdict)
                actions = judge.actions(batches, verdict)[chunk.first : chunk.end]
                if (actions != Action.COPY).any():
                    return None
                _count(tally, batches, chunk, kept, verdict, actions.tolist())
        return tally

    def write(self, output: Output) -> Tally:
        judge, tally = self._judge(), Tally()
        for batches in self._scanner.scan():
            verdict = judge.judge_batches(batches)
            for chunk in chunks(batches, verdict.opened, self._scanner.kernels):
                kept = self._judge_records(judge, batches, chunk, verdict)
                actions = judge.actions(batches, verdict)[chunk.first : chunk.end]
                _count(tally, batches, chunk, kept, verdict, actions.tolist())
                tally.batches_grown += self._write_chunk(batches, chunk, kept, verdict, actions, output)
        output.finish()
        return tally

    def _judge(self) -> Judge:
        return Judge(self._learned, self._given.start_offset, self._given.now_ms)

    def _judge_records(self, judge: Judge, batches: Batches, chunk: Chunk, verdict: Verdict) -> KeptRecords:
        return judge.judge_records(batches, chunk.records, self._are_newest(chunk.records), verdict)

    def _are_newest(self, records: Records) -> Flags:
        """Of those that were mapped the offset tells; the keys of those below the dirty offset are asked for."""
        dirty_offset, bound = self._learned.dirty_offset, self._learned.mapped_bound
        if self._mapped is None:
            return self._asked_for(records, records.offsets < bound)
        places = np.clip(records.offsets - dirty_offset, 0, max(0, bound - dirty_offset - 1))
        of_mapped = self._mapped[places] if len(self._mapped) else np.zeros(len(records), dtype=np.bool_)
        are_older = records.offsets < dirty_offset
        return (
            np.where(are_older, self._asked_for(records, are_older), of_mapped)
            if are_older.any()
            else of_mapped
        )

    def _asked_for(self, records: Records, wanted: Flags) -> Flags:
        newest = self._learned.newest.newest(self._scanner.hashes(records), wanted & records.have_key)
        are_newest: Flags = newest <= records.offsets
        return are_newest

    def _write_chunk(
        self, batches: Batches, chunk: Chunk, kept: KeptRecords, verdict: Verdict, actions: Integers,
        output: Output,
    ) -> int:  # fmt: skip
        """How many batches got larger (G16)."""
        is_new = (actions == Action.REBUILD) | (actions == Action.EMPTY)
        rows = chunk.first + np.flatnonzero(is_new)
        job = Rebuilding(
            batches, chunk.records, rows, kept.kept, verdict.gets_horizon, self._given.horizon_ms
        )
        rebuilt = rebuilt_batches(job, self._scanner.kernels) if len(rows) else batches
        next_rebuilt = 0
        for action, first, end in _runs(np.where(is_new, Action.REBUILD, actions)):
            if action == Action.COPY:
                output.copy(batches, chunk.first + first, chunk.first + end)
            elif action == Action.REBUILD:
                output.copy(rebuilt, next_rebuilt, next_rebuilt + end - first)
                next_rebuilt += end - first
        return int((rebuilt.sizes[: len(rows)] > batches.sizes[rows]).sum())


def _runs(actions: Integers) -> Iterator[tuple[int, int, int]]:
    """Of the same action: which, from where, to where."""
    firsts = np.flatnonzero(np.diff(actions, prepend=-1))
    ends = np.append(firsts[1:], len(actions))
    yield from zip(actions[firsts].tolist(), firsts.tolist(), ends.tolist(), strict=True)


def _count(
    tally: Tally, batches: Batches, chunk: Chunk, kept: KeptRecords, verdict: Verdict, actions: list[int]
) -> None:
    rows = slice(chunk.first, chunk.end)
    tally.records_read += int(batches.record_counts[rows].sum())
    tally.records_kept += int(verdict.kept_counts[rows].sum())
    tally.tombstones_kept += kept.tombstones_kept
    tally.null_keys += kept.null_keys
    tally.batches_read += len(actions)
    tally.batches_kept += len(actions) - actions.count(Action.DROP)
    tally.batches_copied += actions.count(Action.COPY)
    tally.batches_emptied += actions.count(Action.EMPTY)
