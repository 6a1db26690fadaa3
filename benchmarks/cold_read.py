"""(d) One stream read from its beginning after compaction, none of it cached, against reading a plain file of the same
bytes. The operating system forgets both before each round. A node that has just started takes memory for the first
time; a warm one has read another stream before. The last pair leaves both in the cache of the operating system, where
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
from siltstone.model.limits import MIB
from siltstone.offline.opening.store import open_store
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.server.components import Node, open_node
from siltstone.server.python_process import kept_heap
from siltstone.server.settings.node import NodeSettings
from siltstone.stream_engine.stream import Stream

STREAMS = 4
STREAM_BYTES = 512 * MIB
READ_BYTES = 1 * MIB
TITLE = "(d) cold sequential read of one stream after compaction"


def run() -> list[Row]:
    kept_heap()  # as siltstone serve does
    with folder() as place:
        settings = store_settings(place / "store", engine__upload__cache_block_bytes_max="64MiB")
        other, stream_id, *_ = fill(settings, STREAMS, STREAMS * STREAM_BYTES)
        with open_store(settings) as store:
            assert compact(store, InProcessRunner(), CompactionSettings()).done
        plain = place / "plain"
        plain.write_bytes(os.urandom(STREAM_BYTES))
        fresh = _measure(settings, [stream_id], plain, cold=True)
        warm = _measure(settings, [other, stream_id], plain, cold=True)
        cached = _measure(settings, [stream_id], plain, cold=False)
    return [
        *_rows("from the disk, a node that has just started", fresh),
        *_rows("from the disk, a warm node", warm),
        *_rows("from the page cache, a node that has just started", cached),
    ]


def _rows(what: str, found: Pair) -> list[Row]:
    return [
        at_least(what, found.speed_ratio, 0.7, "×", f"plain file, {_speed(found.their_median())}"),
        Row("… CPU", _cpu(found.our_median()), _cpu(found.their_median())),
    ]


def _measure(settings: NodeSettings, stream_ids: list[int], plain: Path, *, cold: bool) -> Pair:
    """Measures both in turn. Only the last of the streams counts, and neither opening the node nor emptying the
    cache."""
    pair = Pair([], [])
    for number in range(6):
        our = asyncio.run(_read_streams(settings, stream_ids, cold=cold))
        if cold:
            forget(plain.parent)
        their = timed(lambda: _read_file(plain))
        if number:
            pair.ours.append(our)
            pair.theirs.append(their)
    return pair


async def _read_streams(settings: NodeSettings, stream_ids: list[int], *, cold: bool) -> Timing:
    """Returns the time of the last one."""
    async with open_node(settings) as node:
        for stream_id in stream_ids:
            stream = await node.engine.open_stream(
                stream_id, node.metadata.image.streams[stream_id].epoch + 1
            )
            if cold:
                forget(settings.folder)
            timing = await _read_stream(node, stream)
    return timing


async def _read_stream(node: Node, stream: Stream) -> Timing:
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


def _cpu(timing: Timing) -> str:
    return f"{timing.cpu_s / (STREAM_BYTES / 1e9):.2f} s/GB"
