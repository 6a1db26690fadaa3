"""``run_key_compaction`` is the task of a key compaction.

What the task writes, and where, follows from its input alone, so it may run twice, or at the same time as another call
with the same input: both put the same bytes under the same keys. Data that cannot be read become the result's
``failure``; an error of the store is raised, and the runner retries the task. A task that runs late ends without a
result, for the reason in ``passes.time_limit``.
"""

import msgspec

from siltstone.maintenance.key_compaction.passes.first_scan import Learned, learn
from siltstone.maintenance.key_compaction.passes.second_scan import SecondScan, Tally
from siltstone.maintenance.key_compaction.passes.time_limit import PassTimeLimit, RanLate
from siltstone.maintenance.key_compaction.task_input import CODEC, KeyCompactionInput, KeyCompactionResult
from siltstone.maintenance.record_rewriting.output import Output
from siltstone.maintenance.record_rewriting.source_blocks import Scanner, SourceBlocks
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.object_store.copies import Copies
from siltstone.offline.tasks.runner import TaskFailure, peak_memory_bytes
from siltstone.offline.tasks.source_bytes import SourceError, copies_at, store_at
from siltstone.record_columns.batches import BAD_BATCH
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.record_columns.kernels.port import Kernels
from siltstone.runtime.clock import Clock, SystemClock

_MACHINE = SystemClock()

BAD_DATA = (*BAD_BATCH, *SourceError)
"""Errors that become the result's ``failure``: the stream stays as it is, and other streams are not affected (G32)."""


def run_key_compaction(data: bytes) -> bytes:
    """Runs the task. An object that is gone or damaged is named in the result. Raises what the stores raise."""
    return CODEC.encode_result(compact_keys(CODEC.decode_input(data), best_kernels()))


def compact_keys(given: KeyCompactionInput, kernels: Kernels, clock: Clock = _MACHINE) -> KeyCompactionResult:
    assert given.sources, "a task input without sources"
    try:
        return _compact(given, kernels, PassTimeLimit(clock, given.pass_ms_max))
    except RanLate as late:
        return KeyCompactionResult(name=given.name, ran_late=True, mapped_offset=late.mapped_offset)
    except BAD_DATA as error:
        failure = TaskFailure(str(error), getattr(error, "object_id", None))
        return KeyCompactionResult(name=given.name, failure=failure)


def _compact(given: KeyCompactionInput, kernels: Kernels, limit: PassTimeLimit) -> KeyCompactionResult:
    def copies_of(source: SourceObject) -> Copies:
        return copies_at([(each, given.bucket_urls[each]) for each in source.bucket_ids], source.object_id)

    scanner = Scanner(given.stream_id, given.hash_key, SourceBlocks(given, copies_of), kernels)
    learned = learn(given, scanner, limit)
    scan = SecondScan(given, scanner, learned, limit)
    output = Output(given, store_at(given.bucket_urls[given.output_bucket_id]))
    unchanged = scan.look()
    tally = scan.write(output) if unchanged is None else unchanged
    return _result(given, learned, tally, output, scanner, is_unchanged=unchanged is not None)


def _result(
    given: KeyCompactionInput,
    learned: Learned,
    tally: Tally,
    output: Output,
    scanner: Scanner,
    *,
    is_unchanged: bool,
) -> KeyCompactionResult:
    return KeyCompactionResult(
        name=given.name,
        is_unchanged=is_unchanged,
        cleaned_offset=learned.mapped_bound,
        objects=tuple(output.written),
        keys_mapped=learned.newest.keys,
        map_was_full=learned.map_was_full,
        bytes_read=scanner.blocks.bytes_read,
        bytes_written=output.bytes_written,
        peak_memory_bytes=peak_memory_bytes(),
        **msgspec.structs.asdict(tally),
    )
