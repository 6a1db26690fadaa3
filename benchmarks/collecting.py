"""(h) Garbage collection: bytes written for each byte reclaimed, against the arithmetic u/(1-u) at a live ratio of u,
which is what the thresholds stand for. In a folder, by tasks in this process: the arithmetic knows no runner.

Ten streams of equal size share every stream set object; some are trimmed away altogether, so that a tenth of the bytes
is live, then a fifth, a half, four fifths. Index and footer are written besides, hence the allowance. Last, objects of
which nothing is live: they are destroyed without reading a byte.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from benchmarks.support.filling import fill
from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_most
from siltstone.carrying.pipeline.kind import Budget, Kind, Scope
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.running import run as run_kind
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.garbage_collection.dead_objects import DeadObjects
from siltstone.maintenance.garbage_collection.kind import Collection
from siltstone.model.limits import MIB
from siltstone.offline.opening.store import open_store
from siltstone.offline.settings import (
    CompactionSettings,
    GcSettings,
    Level,
    StreamObjectCompactionSettings,
)
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.server.components import open_node
from siltstone.server.settings.node import NodeSettings

STREAMS = 10
DATA_BYTES = 320 * MIB
LIVE_STREAMS = (1, 2, 5, 8)
TITLE = "(h) garbage collection: bytes written for each byte reclaimed"


def run() -> list[Row]:
    return [*(_collected(live) for live in LIVE_STREAMS), *_destroyed()]


def _collected(live: int) -> Row:
    """The run is forced: it collects every object with a dead block, also above both thresholds."""
    with folder() as place:
        settings = _with_live(place, live)
        report = _run(settings, _collection())
    written, freed = (
        sum(getattr(each, name) for each in report.done) for name in ("bytes_written", "bytes_freed")
    )
    u = live / STREAMS
    expected = u / (1 - u)
    speed = written / 1e6 / report.seconds
    against = f"u/(1-u) = {expected:.2f}; {speed:,.0f} MB/s written"
    return at_most(
        f"written for each byte reclaimed, u = {u:.1f}", written / freed, expected * 1.02, "", against
    )


def _destroyed() -> list[Row]:
    with folder() as place:
        settings = _with_live(place, 0)
        report = _run(settings, DeadObjects())
    read = sum(each.bytes_read for each in report.units)
    freed = sum(each.bytes_freed for each in report.units)
    return [
        at_most(
            "bytes read to destroy what is dead", float(read), 0.0, " B", f"{freed / MIB:,.0f} MiB come free"
        ),
        at_most("time that takes", report.seconds, 1.0, " s"),
    ]


def _collection() -> Kind:
    gc, compaction = GcSettings(target_size_bytes=1), CompactionSettings()
    return Collection(Level.MAJOR, gc, compaction, StreamObjectCompactionSettings())


def _run(settings: NodeSettings, kind: Kind) -> RunReport:
    with open_store(settings) as store:
        watch = Watch(kind.name, store.context.clock)
        report = run_kind(store.context, kind, InProcessRunner, Scope(is_forced=True), Budget(), watch)
    assert report.is_well and report.done, report
    return report


def _with_live(place: Path, live: int) -> NodeSettings:
    """Blocks are smaller than the split size, so all data is in stream set objects."""
    settings = store_settings(
        place / "store",
        engine__upload__cache_block_bytes_max="64MiB",
        engine__upload__split_size_bytes="64MiB",
    )
    streams = fill(settings, STREAMS, DATA_BYTES)
    asyncio.run(_trim(settings, streams[live:]))
    return settings


async def _trim(settings: NodeSettings, streams: Sequence[int]) -> None:
    async with open_node(settings) as node:
        for stream_id in streams:
            stream = await node.engine.open_stream(stream_id, 1)
            await node.engine.trim(stream, stream.confirmed_offset)
