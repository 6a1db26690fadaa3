"""What memory a pass takes, whatever the stream is."""

import tracemalloc
from pathlib import Path

import pytest

from siltstone.maintenance.key_compaction.passes.second_scan import Tally
from siltstone.maintenance.key_compaction.task import compact_keys
from siltstone.maintenance.key_compaction.task_input import KeyCompactionResult
from siltstone.model.limits import KIB, MIB
from siltstone.record_columns.kernels import compiled
from support.maintenance.compacted_stream import CompactedStream
from support.values.left_out import numbers_left_out

REQUEST_BYTES = OBJECT_BYTES = 256 * KIB


def compacted(megabytes: int, map_bytes_max: int, place: Path) -> tuple[KeyCompactionResult, int]:
    """One pass, and the peak of what Python and numpy took for it. The outputs go into a folder."""
    stream = CompactedStream(compiled, block_bytes=64 * KIB)
    for number in range(megabytes * 64):
        stream.add(*((f"k{number % 50}-{each % 60}", "v" * 200) for each in range(75)))
    unit = stream.unit(
        map_bytes_max=map_bytes_max, read_request_bytes_max=REQUEST_BYTES, object_bytes=OBJECT_BYTES,
        bucket_urls={0: stream.url, 1: place.as_uri()}, output_bucket_id=1,
    )  # fmt: skip
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    result = compact_keys(unit, compiled)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return result, peak - before


@pytest.mark.parametrize("map_bytes_max", [16 * KIB, 512 * KIB])
def test_memory_does_not_grow_with_the_stream(tmp_path: Path, map_bytes_max: int) -> None:
    """A map, two requests, an object, a block and what its 300 records take in columns."""
    result, peak = compacted(8, map_bytes_max, tmp_path)
    assert result.failure is None
    assert result.map_was_full == (map_bytes_max == 16 * KIB)
    assert peak < map_bytes_max + 3 * REQUEST_BYTES + 2 * OBJECT_BYTES + 2 * MIB
    assert result.objects


def test_what_is_left_out() -> None:
    assert numbers_left_out(Tally) == {
        "records_read": 0,
        "records_kept": 0,
        "tombstones_kept": 0,
        "null_keys": 0,
        "batches_read": 0,
        "batches_kept": 0,
        "batches_copied": 0,
        "batches_emptied": 0,
        "batches_grown": 0,
    }
