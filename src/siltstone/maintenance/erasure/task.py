"""``run_erasure`` is the task of an erasure: it looks at one object, or writes it again without the records of the
keys.

What the task writes, and where, follows from its input alone, so it may run twice, or at the same time as another call
with the same input. A batch without a record left stays as an empty batch: it has the sequence numbers of its producer,
and so the duplicates of a retry are still recognised. Control batches have no keys of clients and stay as they are.
Records of aborted transactions are erased, too: nobody reads them, but they are in the object.
"""

import numpy as np

from siltstone.maintenance.erasure.task_input import CODEC, ErasureInput, ErasureResult
from siltstone.maintenance.record_rewriting.chunk_writing import ChunkWork, RecordAction, write_chunk
from siltstone.maintenance.record_rewriting.output import Output
from siltstone.maintenance.record_rewriting.source_blocks import Scanner, SourceBlocks
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.object_store.copies import Copies
from siltstone.offline.erased_keys import NOT_ERASED, ErasedKeys
from siltstone.offline.tasks.runner import TaskFailure, peak_memory_bytes
from siltstone.offline.tasks.source_bytes import SourceError, copies_at, store_at
from siltstone.record_columns.batches import BAD_BATCH, Batches
from siltstone.record_columns.chunking import Chunk, chunks
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.record_columns.kernels.columns import Flags, Integers
from siltstone.record_columns.kernels.port import Kernels

BAD_DATA = (*BAD_BATCH, *SourceError)
"""Errors that become the result's ``failure``. Nobody can say whether the object holds records of the keys, so the
erasure stays pending."""


def run_erasure(data: bytes) -> bytes:
    """Runs the task. An object that is gone or damaged is named in the result. Raises what the stores raise."""
    return CODEC.encode_result(erase(CODEC.decode_input(data), best_kernels()))


def erase(given: ErasureInput, kernels: Kernels) -> ErasureResult:
    try:
        return _Erasing(given, kernels).erase()
    except BAD_DATA as error:
        return ErasureResult(failure=TaskFailure(str(error), getattr(error, "object_id", None)))


class _Erasing:
    def __init__(self, given: ErasureInput, kernels: Kernels) -> None:
        self._given = given
        self._kernels = kernels
        self._keys = ErasedKeys(given.erasures)
        self._erased = np.zeros(len(given.erasures), dtype=np.int64)
        self._records_read = 0

    def erase(self) -> ErasureResult:
        given = self._given
        scanner = Scanner(given.stream_id, bytes(16), SourceBlocks(given, self._copies_of), self._kernels)
        output = (
            Output(given, store_at(given.bucket_urls[given.output_bucket_id]))
            if given.object_count_max
            else None
        )
        for batches in scanner.scan():
            self._records_read += int(batches.record_counts.sum())
            self._erase_from(batches, output)
        if output is not None:
            output.finish()
        return ErasureResult(
            erased=tuple(self._erased.tolist()),
            records_read=self._records_read,
            bytes_read=scanner.blocks.bytes_read,
            objects=() if output is None else tuple(output.written),
            bytes_written=0 if output is None else output.bytes_written,
            peak_memory_bytes=peak_memory_bytes(),
        )

    def _copies_of(self, source: SourceObject) -> Copies:
        urls = self._given.bucket_urls
        return copies_at([(each, urls[each]) for each in source.bucket_ids], source.object_id)

    def _erase_from(self, batches: Batches, output: Output | None) -> None:
        opened = ~batches.are_control & (batches.record_counts > 0)
        for chunk in chunks(batches, opened, self._kernels):
            found = self._keys.found_in(chunk.records, self._kernels)
            self._erased += np.bincount(found[found != NOT_ERASED], minlength=len(self._erased))
            if output is not None:
                kept: Flags = found == NOT_ERASED
                no_horizons = np.zeros(len(batches), dtype=np.bool_)
                actions = _actions(batches, chunk, kept)
                write_chunk(ChunkWork(batches, chunk, kept, actions, no_horizons, 0), output, self._kernels)


def _actions(batches: Batches, chunk: Chunk, kept: Flags) -> Integers:
    rows = slice(chunk.first, chunk.end)
    left = np.bincount(chunk.records.batch[kept], minlength=len(batches))[rows]
    removed = np.bincount(chunk.records.batch[~kept], minlength=len(batches))[rows]
    actions = np.full(chunk.end - chunk.first, RecordAction.COPY, dtype=np.int64)
    actions[removed > 0] = RecordAction.REBUILD
    actions[(removed > 0) & (left == 0)] = RecordAction.EMPTY
    return actions
