"""Writes the batches of one chunk as they were judged: copied, rebuilt with fewer records, emptied, or dropped."""

from collections.abc import Iterator
from enum import IntEnum

import msgspec
import numpy as np

from siltstone.maintenance.record_rewriting.output import Output
from siltstone.maintenance.record_rewriting.rebuilding import Rebuilding, rebuilt_batches
from siltstone.record_columns.batches import Batches
from siltstone.record_columns.chunking import Chunk
from siltstone.record_columns.kernels.columns import Flags, Integers
from siltstone.record_columns.kernels.port import Kernels


class RecordAction(IntEnum):
    """What is done with a batch: copied unchanged, written with fewer records or a new delete horizon, written without
    records, or dropped."""

    COPY = 0
    REBUILD = 1
    EMPTY = 2
    DROP = 3


class ChunkWork(msgspec.Struct, frozen=True):
    """A chunk of a block after its records were judged. ``kept`` has a flag for each record of the chunk, ``actions``
    an action for each batch of the chunk, ``gets_horizon`` a flag for each batch of the block."""

    batches: Batches
    chunk: Chunk
    kept: Flags
    actions: Integers
    gets_horizon: Flags
    horizon_ms: int


def write_chunk(work: ChunkWork, output: Output, kernels: Kernels) -> int:
    """Writes the batches of a chunk. → How many of them became larger (G16)."""
    batches, chunk, actions = work.batches, work.chunk, work.actions
    is_new = (actions == RecordAction.REBUILD) | (actions == RecordAction.EMPTY)
    rows = chunk.first + np.flatnonzero(is_new)
    job = Rebuilding(batches, chunk.records, rows, work.kept, work.gets_horizon, work.horizon_ms)
    rebuilt = rebuilt_batches(job, kernels) if len(rows) else batches
    next_rebuilt = 0
    for action, first, end in _runs(np.where(is_new, RecordAction.REBUILD, actions)):
        if action == RecordAction.COPY:
            output.copy(batches, chunk.first + first, chunk.first + end)
        elif action == RecordAction.REBUILD:
            output.copy(rebuilt, next_rebuilt, next_rebuilt + end - first)
            next_rebuilt += end - first
    return int((rebuilt.sizes[: len(rows)] > batches.sizes[rows]).sum())


def _runs(actions: Integers) -> Iterator[tuple[int, int, int]]:
    """Yields the stretches of equal actions: the action, the first batch, and the batch after the last."""
    firsts = np.flatnonzero(np.diff(actions, prepend=-1))
    ends = np.append(firsts[1:], len(actions))
    yield from zip(actions[firsts].tolist(), firsts.tolist(), ends.tolist(), strict=True)
