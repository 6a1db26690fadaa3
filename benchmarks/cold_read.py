"""(d) One stream read from its beginning after compaction, nothing cached, against reading a plain file of the same
bytes. The first pair has the operating system forget both before each round; the second leaves them in its cache, where
the disk no longer hides what the code costs."""

import asyncio
import os
import time
from pathlib import Path

from benchmarks.support.compacting import compact
from benchmarks.support.filling import fill
from benchmarks.support.page_cache import forget
from benchmarks.support.pairs import Pair, Timing, timed
from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_least
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.tasks.runner import InProcessRunner
from siltstone.model.limits import MIB
from siltstone.server.components import open_node, open_store
from siltstone.server.settings.store import StoreSettings

STREAMS = 4
STREAM_BYTES = 512 * MIB
READ_BYTES = 1 * MIB
TITLE = "(d) cold sequential read of one stream after compaction"


def run() -> list[Row]:
    with folder() as place:
        settings = store_settings(place / "store", engine__upload__cache_block_bytes_max="64MiB")
        stream_id = fill(settings, STREAMS, STREAMS * STREAM_BYTES)[0]
        with open_store(settings) as store:
            assert compact(store, InProcessRunner(), CompactionSettings()).done
        plain = place / "plain"
        plain.write_bytes(os.urandom(STREAM_BYTES))
        cold = _measure(settings, stream_id, plain, cold=True)
        warm = _measure(settings, stream_id, plain, cold=False)
    return [
        at_least("from the disk", cold.speed_ratio, 0.5, "×", f"plain file, {_speed(cold.their_median())}"),
        Row("from the page cache", f"{warm.speed_ratio:.2f}×", f"plain file, {_speed(warm.their_median())}"),
        Row("CPU", f"{cold.our_median().cpu_s / (STREAM_BYTES / 1e9):.2f} s/GB"),
    ]


def _measure(settings: StoreSettings, stream_id: int, plain: Path, *, cold: bool) -> Pair:
    """Measures both in turn. Opening the node and emptying the cache are not counted."""
    pair = Pair([], [])
    for number in range(6):
        our = asyncio.run(_read_stream(settings, stream_id, cold=cold))
        if cold:
            forget(plain.parent)
        their = timed(lambda: _read_file(plain))
        if number:
            pair.ours.append(our)
            pair.theirs.append(their)
    return pair


async def _read_stream(settings: StoreSettings, stream_id: int, *, cold: bool) -> Timing:
    async with open_node(settings) as node:
        metadata = node.metadata.image.streams[stream_id]
        stream = await node.engine.open_stream(stream_id, metadata.epoch + 1)
        if cold:
            forget(settings.folder)
        wall, cpu = time.perf_counter(), time.process_time()
        offset = stream.start_offset
        size_bytes = 0
        while offset < stream.confirmed_offset:
            batches = await node.engine.read(stream, offset, READ_BYTES)
            size_bytes += sum(len(batch) for batch in batches)
            offset = batches[-1].end_offset
        assert size_bytes == STREAM_BYTES
        return Timing(time.perf_counter() - wall, time.process_time() - cpu)


def _read_file(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(READ_BYTES):
            pass


def _speed(timing: Timing) -> str:
    return f"{STREAM_BYTES / 1e6 / timing.wall_s:,.0f} MB/s"
