"""(a) Appends of 1 MiB batches through the whole engine, against a bare loop of write + fdatasync of the same bytes.

Three figures: what an appender sees while the tail cache takes it (the upload has not begun), what it sees in the long
run (every byte is then written twice: to the log and to the bucket on the same disk), and the CPU both cost.
"""

import asyncio
import os
import shutil
import time
from pathlib import Path

from benchmarks.support.pairs import Timing, measure_pairs, timed
from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_least, at_most
from siltstone.model.limits import MIB
from siltstone.server.components import open_node
from siltstone.server.settings.node import NodeSettings

BATCH_BYTES = 1 * MIB
IN_FLIGHT = 4
TITLE = "(a) append throughput, 1 MiB batches, fdatasync before every answer"


def run() -> list[Row]:
    return [*_in_the_cache(), *_in_the_long_run()]


def _in_the_cache() -> list[Row]:
    batches = 256
    with folder() as place:
        numbers = iter(range(1000))
        reserved = measure_pairs(
            lambda: _bare_loop(place / f"grown-{next(numbers)}", batches),
            lambda: _bare_loop(place / f"reserved-{next(numbers)}", batches, reserve=True),
        )

        def ours() -> None:
            """The store is removed at once, as the bare file is: on a virtual machine, pages that were never touched
            cost as much as the write, and both shall begin with the pages that the other has freed."""
            store = place / "store"
            settings = store_settings(
                store, engine__upload__cache_block_bytes_max="1GiB", engine__tail_cache_bytes_max="1GiB"
            )
            measured.append(asyncio.run(_append(settings, batches)))
            shutil.rmtree(store)

        measured: list[Timing] = []
        pair = measure_pairs(ours, lambda: _bare_loop(place / f"bare-{next(numbers)}", batches))
    bare = [timing.wall_s for timing in pair.theirs]
    ratio = sorted(b / o.wall_s for b, o in zip(bare, measured[1:], strict=True))[len(bare) // 2]
    cpu = sorted(timing.cpu_s for timing in measured[1:])[len(bare) // 2] / (batches * BATCH_BYTES / 1e9)
    speed = _mb_per_s(batches, pair.their_median().wall_s)
    return [
        at_least("throughput until the block is sealed", ratio, 0.7, "×", f"bare loop, {speed:,.0f} MB/s"),
        Row(
            "the same",
            f"{ratio * reserved.speed_ratio:.2f}×",
            "bare loop into a file whose space is reserved, as the log's is",
        ),
        at_most("CPU", cpu, 1.0, " s/GB"),
    ]


def _in_the_long_run() -> list[Row]:
    batches = 1024
    with folder() as place:
        timing = asyncio.run(_append(store_settings(place / "store"), batches))
        bare = timed(lambda: _bare_loop(place / "bare", batches))
        twice = timed(lambda: _bare_loop(place / "bare-2", 2 * batches))
    cpu = timing.cpu_s / (batches * BATCH_BYTES / 1e9)
    return [
        Row(
            "throughput with the upload to the same disk",
            f"{bare.wall_s / timing.wall_s:.2f}×",
            "bare loop, once",
        ),
        Row("the same", f"{twice.wall_s / timing.wall_s:.2f}×", "bare loop that writes the bytes twice"),
        Row("CPU with the upload", f"{cpu:.2f} s/GB"),
    ]


def _mb_per_s(batches: int, seconds: float) -> float:
    return batches * BATCH_BYTES / 1e6 / seconds


def _bare_loop(path: Path, batches: int, *, reserve: bool = False) -> None:
    batch = os.urandom(BATCH_BYTES)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    if reserve:
        os.posix_fallocate(descriptor, 0, batches * BATCH_BYTES)
    for _ in range(batches):
        os.write(descriptor, batch)
        os.fdatasync(descriptor)
    os.close(descriptor)
    path.unlink()


async def _append(settings: NodeSettings, batches: int) -> Timing:
    """Measures the appends alone: opening and closing the node are not counted."""
    async with open_node(settings) as node:
        stream = await node.engine.open_stream(await node.engine.create_stream(), 0)
        batch = os.urandom(BATCH_BYTES)
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def append() -> None:
            async with slots:
                await node.engine.append(stream, batch, 1)

        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(append() for _ in range(batches)))
        return Timing(time.perf_counter() - wall, time.process_time() - cpu)
