"""The second scan: all sources again, judged batch by batch, and what stays written.

As long as nothing has changed nothing is written: a stream in which nothing can go is only looked at. From the first
change on the scan begins again, and writes.
"""

import msgspec
import numpy as np

from siltstone.maintenance.key_compaction.rewriting.batches import Batches
from siltstone.maintenance.key_compaction.rewriting.chunking import Chunk, chunks
from siltstone.maintenance.key_compaction.rewriting.first_scan import Learned
from siltstone.maintenance.key_compaction.rewriting.judging import Action, Judge, KeptRecords, Verdict
from siltstone.maintenance.key_compaction.rewriting.kernels import columns
from siltstone.maintenance.key_compaction.rewriting.output import Output
from siltstone.maintenance.key_compaction.rewriting.rebuilding import emptied_batch, rebuilt_batches
from siltstone.maintenance.key_compaction.rewriting.scanning import Scanner
from siltstone.maintenance.key_compaction.unit import KeyCompactionUnit
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import frame_bytes


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
    def __init__(self, unit: KeyCompactionUnit, scanner: Scanner, learned: Learned) -> None:
        self._unit = unit
        self._scanner = scanner
        self._learned = learned

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
                actions = judge.actions(batches, verdict)[chunk.first : chunk.end].tolist()
                _count(tally, batches, chunk, kept, verdict, actions)
                self._write_chunk(batches, chunk, kept, verdict, actions, output, tally)
        output.finish()
        return tally

    def _judge(self) -> Judge:
        return Judge(self._learned, self._unit.start_offset, self._unit.now_ms)

    def _judge_records(self, judge: Judge, batches: Batches, chunk: Chunk, verdict: Verdict) -> KeptRecords:
        records = chunk.records
        wanted = records.have_key & (records.offsets < self._learned.mapped_bound)
        newest = self._learned.newest.newest(self._scanner.hashes(records), wanted)
        return judge.judge_records(batches, records, newest, verdict)

    def _write_chunk(
        self, batches: Batches, chunk: Chunk, kept: KeptRecords, verdict: Verdict, actions: list[int],
        output: Output, tally: Tally,
    ) -> None:  # fmt: skip
        rebuilt = self._rebuilt(batches, chunk, kept, verdict, actions)
        row = chunk.first
        while row < chunk.end:
            action = actions[row - chunk.first]
            until = row + 1
            if action == Action.COPY:
                while until < chunk.end and actions[until - chunk.first] == Action.COPY:
                    until += 1
                output.copy(batches, row, until)
            elif action == Action.REBUILD:
                tally.batches_grown += frame_bytes(rebuilt[row]) > _frame_bytes(batches, row)
                output.append(rebuilt[row])
            elif action == Action.EMPTY:
                output.append(emptied_batch(batches, row))
            row = until

    def _rebuilt(
        self, batches: Batches, chunk: Chunk, kept: KeptRecords, verdict: Verdict, actions: list[int]
    ) -> dict[int, RecordBatch]:
        to_rebuild = np.zeros(len(batches), dtype=np.bool_)
        to_rebuild[chunk.first : chunk.end] = np.array(actions) == Action.REBUILD
        wanted = kept.kept & to_rebuild[chunk.records.batch]
        made = rebuilt_batches(
            batches, chunk.records, wanted, verdict.gets_horizon, self._unit.horizon_ms, self._scanner.kernels
        )
        return dict(made)


def _frame_bytes(batches: Batches, row: int) -> int:
    return int(batches.column(columns.FRAME_END)[row] - batches.column(columns.FRAME_AT)[row])


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
