"""The task of a key compaction: ``run_key_compaction``.

What it writes and where follows from the unit alone, so it may run twice, or beside another attempt of itself: both
put the same bytes at the same keys. Data that cannot be read make a result that says so; trouble with a store is
raised, and the runner tries again.
"""

import msgspec

from siltstone.maintenance.key_compaction.rewriting.failures import BAD_DATA
from siltstone.maintenance.key_compaction.rewriting.first_scan import Learned, learn
from siltstone.maintenance.key_compaction.rewriting.kernels.choosing import best_kernels
from siltstone.maintenance.key_compaction.rewriting.kernels.port import Kernels
from siltstone.maintenance.key_compaction.rewriting.output import Output
from siltstone.maintenance.key_compaction.rewriting.scanning import Scanner
from siltstone.maintenance.key_compaction.rewriting.second_scan import SecondScan, Tally
from siltstone.maintenance.key_compaction.rewriting.source_blocks import SourceBlocks
from siltstone.maintenance.key_compaction.unit import (
    KeyCompactionResult,
    KeyCompactionUnit,
    decode_unit,
    encode_result,
)
from siltstone.maintenance.rewriting.run import peak_memory_bytes
from siltstone.maintenance.rewriting.stores import store_at
from siltstone.object_store.port import ObjectStore


def run_key_compaction(unit: bytes) -> bytes:
    """Raises what the stores raise, unless an object is gone or damaged."""
    return encode_result(compact_keys(decode_unit(unit), best_kernels()))


def compact_keys(unit: KeyCompactionUnit, kernels: Kernels) -> KeyCompactionResult:
    assert unit.sources, "a unit without sources"
    try:
        return _compact(unit, kernels)
    except BAD_DATA as trouble:
        return KeyCompactionResult(name=unit.name, failure=f"{trouble}")


def _compact(unit: KeyCompactionUnit, kernels: Kernels) -> KeyCompactionResult:
    def store_of(bucket_id: int) -> ObjectStore:
        return store_at(unit.bucket_urls[bucket_id])

    scanner = Scanner(unit.stream_id, unit.hash_key, SourceBlocks(unit, store_of), kernels)
    learned = learn(unit, scanner)
    scan = SecondScan(unit, scanner, learned)
    output = Output(unit, store_of(unit.output_bucket_id))
    unchanged = scan.look()
    tally = scan.write(output) if unchanged is None else unchanged
    return _result(unit, learned, tally, output, scanner, is_unchanged=unchanged is not None)


def _result(
    unit: KeyCompactionUnit,
    learned: Learned,
    tally: Tally,
    output: Output,
    scanner: Scanner,
    *,
    is_unchanged: bool,
) -> KeyCompactionResult:
    return KeyCompactionResult(
        name=unit.name,
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
