"""(e) Planning the compaction of 15 TiB of stream set objects, about a million index entries; metadata only.

A process of its own plans, so that the peak memory is the plan's and not what other benchmarks left behind. The
indexes are made before the clock starts; making every iteration is timed as well, as the driver does it.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.support.report import Row, at_most
from siltstone.maintenance.stream_set_compaction.planner import plan_compaction
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.model.limits import KIB, MIB
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState
from siltstone.object_formats.block_index import INDEX_ENTRY_BYTES, BlockIndex
from siltstone.offline.blocks.columns import Source
from siltstone.offline.settings import CompactionSettings

SOURCES = 500
STREAMS = 2_000
BLOCK_BYTES = 16 * MIB - 256 * KIB
NOW_MS = 1_700_000_000_000
TITLE = "(e) planning 15 TiB of stream set objects"


def run() -> list[Row]:
    """The limits of the two runs. With the defaults one commit adds at most 10,000 stream objects, so the first of
    several rounds takes as many. With 2 GiB an iteration one round takes everything."""
    return [*_planned(500 * MIB), *_planned(2048 * MIB)]


def _planned(memory_bytes: int) -> list[Row]:
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.planning", str(memory_bytes)],
        check=True,
        capture_output=True,
        text=True,
    )
    entries, iterations, plan_s, iterations_s, before_mib, peak_mib = map(float, child.stdout.split())
    size_tib = entries * BLOCK_BYTES / 1024**4
    name = f"{memory_bytes // MIB} MiB an iteration"
    return [
        Row(
            name,
            f"{SOURCES * STREAMS:,} index entries planned, {size_tib:.1f} TiB in {iterations:,.0f} iterations",
        ),
        at_most("planning", plan_s, 30, " s"),
        at_most("planning, and making every iteration", plan_s + iterations_s, 30, " s"),
        at_most("peak memory of the process", peak_mib, 500, " MiB", f"{before_mib:.0f} MiB before"),
    ]


def main(memory_bytes: int) -> None:
    sources = [Source(_metadata(number), _index(number)) for number in range(SOURCES)]
    streams = {stream_id: _stream(stream_id) for stream_id in range(STREAMS)}
    settings = CompactionSettings(force_split_age_ms=10**12, memory_bytes=memory_bytes)
    before_mib = _peak_mib()
    started = time.perf_counter()
    plan = plan_compaction(sources, streams, settings, NOW_MS)
    planned = time.perf_counter()
    entries = (
        sum(len(plan.iteration(at).blocks) for at in range(len(plan.bounds))) // plan.table.dtype.itemsize
    )
    done = time.perf_counter()
    sys.stdout.write(
        f"{entries} {len(plan.bounds)} {planned - started} {done - planned} {before_mib} {_peak_mib()}\n"
    )


def _peak_mib() -> float:
    """Does not use ``ru_maxrss``: a child inherits that of the process from which it was forked."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def _metadata(number: int) -> ObjectMetadata:
    return ObjectMetadata(
        object_id=number,
        state=ObjectState.COMMITTED,
        bucket_id=0,
        kind=ObjectKind.STREAM_SET_OBJECT,
        size_bytes=STREAMS * (BLOCK_BYTES + INDEX_ENTRY_BYTES) + 64,
        deadline_ms=0,
        committed_ms=NOW_MS,
        destroyed_ms=0,
        data_time_ms=NOW_MS + number,
        ranges=tuple(
            ObjectRange(stream_id, number, number * 1000, number * 1000 + 1000, BLOCK_BYTES, NOW_MS)
            for stream_id in range(STREAMS)
        ),
    )


def _stream(stream_id: int) -> StreamMetadata:
    return StreamMetadata(stream_id, StreamState.OPENED, 0, 0, 0, SOURCES * 1000, (), (), {})


def _index(number: int) -> BlockIndex:
    """Makes indexes in which every stream has 1,000 records in every object; the columns are those of
    ``block_index``."""
    entries = np.zeros((STREAMS, 9), dtype="<i8")
    entries[:, 0] = np.arange(STREAMS)
    entries[:, 1] = number * 1000
    entries[:, 2] = number * 1000 + 1000
    entries[:, 3] = 1000
    entries[:, 4] = np.arange(STREAMS) * BLOCK_BYTES
    entries[:, 5] = BLOCK_BYTES
    entries[:, 6:8] = NOW_MS
    return BlockIndex(entries.tobytes())


if __name__ == "__main__":
    main(int(sys.argv[1]))
