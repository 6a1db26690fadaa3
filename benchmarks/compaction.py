"""(c) Stream set object compaction on a warm local Spark, against a bare loop that reads the same objects and writes
the same bytes in the same folder with an fsync for each file. Each round compacts objects just written, so both find
them in the operating system's cache; Spark's start is counted apart."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.support.compacting import compact
from benchmarks.support.filling import BATCH_BYTES, fill
from benchmarks.support.idle_task import idle_task
from benchmarks.support.pairs import Pair, Timing, timed
from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_least, at_most
from siltstone.carrying.pipeline.kind import UnitReport
from siltstone.model.limits import GIB, MIB
from siltstone.object_formats.batch_frame import FRAME_HEADER_BYTES
from siltstone.offline.opening.store import open_store
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import Runner
from siltstone.server.settings.node import NodeSettings
from siltstone.spark.spark_runner import open_runner

STREAMS = 40
ROUNDS = 5
TITLE = "(c) stream set object compaction on Spark, local[*], warm"


def run() -> list[Row]:
    started = time.perf_counter()
    runner = open_runner()
    start_s = time.perf_counter() - started
    try:
        _compact_small(runner, tasks=2)
        return [
            Row("starting Spark", f"{start_s:.1f} s"),
            *_throughput(runner),
            *(_fixed_cost(runner, tasks) for tasks in (1, 50)),
            *_memory(),
        ]
    finally:
        runner.close()


def _throughput(runner: Runner) -> list[Row]:
    pair = Pair([], [])
    for number in range(ROUNDS + 1):
        our, their = _compact_and_copy(runner, 1 * GIB)
        if number:
            pair.ours.append(our)
            pair.theirs.append(their)
    speed = GIB / 1e6 / pair.their_median().wall_s
    against = f"bare loop, {speed:,.0f} MB/s"
    return [at_least("1 GiB of stream set objects", pair.speed_ratio, 0.6, "×", against)]


def _compact_and_copy(runner: Runner, size_bytes: int) -> tuple[Timing, Timing]:
    with folder() as place:
        settings = _filled(place, size_bytes)
        objects = [path for path in (place / "store" / "bucket").rglob("*") if path.is_file()]
        their = timed(lambda: _copy_loop(objects, place / "copies"))
        our = timed(lambda: _compact(runner, settings, CompactionSettings()))
    return our, their


def _copy_loop(objects: Sequence[Path], target: Path) -> None:
    target.mkdir()
    for path in objects:
        with path.open("rb", buffering=0) as source, (target / path.name).open("wb", buffering=0) as copy:
            while chunk := source.read(16 * MIB):
                copy.write(chunk)
            os.fsync(copy.fileno())


def _fixed_cost(runner: Runner, tasks: int) -> Row:
    seconds = sorted(_compact_small(runner, tasks) for _ in range(5))[2]
    return at_most(f"fixed cost of a job of {tasks} tasks", seconds, 0.5 + tasks / 100, " s")


def _compact_small(runner: Runner, tasks: int) -> float:
    """Returns the seconds of a compaction with next to no data: two objects of two streams, four blocks a task."""
    batch = BATCH_BYTES + FRAME_HEADER_BYTES
    with folder() as place:
        settings = store_settings(
            place / "store",
            engine__upload__block_size_bytes=f"{batch}",
            engine__upload__cache_block_bytes_max=f"{2 * tasks * batch}",
        )
        fill(settings, streams=2, bytes_total=4 * tasks * BATCH_BYTES)
        limits = CompactionSettings(memory_bytes=4 * batch + 1, part_bytes_min=1)
        started = time.perf_counter()
        unit = _compact(runner, settings, limits)
        assert unit.detail["tasks"] == str(tasks), unit
        return time.perf_counter() - started


def _memory() -> list[Row]:
    """Compacts in a process of its own, so that its Spark has fresh workers: the peak of a process never falls."""
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.compaction"], check=True, capture_output=True, text=True
    )
    tasks, seconds, idle_mib, peak_mib = map(float, child.stdout.split())
    against = f"an idle worker of pyspark's, {idle_mib:.0f} MiB; together {peak_mib:.0f} MiB"
    return [
        Row("4 GiB under a limit of 100 MiB", f"{tasks:.0f} tasks, {seconds:.1f} s"),
        at_most("peak memory that a task adds", peak_mib - idle_mib, 164, " MiB", against),
    ]


def main() -> None:
    with folder() as place:
        settings = _filled(place, 4 * GIB)
        runner = open_runner()
        (idle,) = runner.run(idle_task, [b""])
        started = time.perf_counter()
        unit = _compact(runner, settings, CompactionSettings(memory_bytes=100 * MIB))
        seconds = time.perf_counter() - started
        runner.close()
    peak_mib = unit.peak_memory_bytes / MIB
    sys.stdout.write(f"{unit.detail['tasks']} {seconds} {float(idle)} {peak_mib}\n")


def _filled(place: Path, size_bytes: int) -> NodeSettings:
    settings = store_settings(place / "store", engine__upload__cache_block_bytes_max="64MiB")
    fill(settings, STREAMS, size_bytes)
    return settings


def _compact(runner: Runner, settings: NodeSettings, limits: CompactionSettings) -> UnitReport:
    with open_store(settings) as store:
        (unit,) = compact(store, runner, limits).done
    return unit


if __name__ == "__main__":
    main()
