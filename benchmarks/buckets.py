"""Measures (aa) uploads into one, two and three folders, and into two each under replication; (ab) how long nothing is
committed when the first bucket hangs; (ac) draining a bucket, against a bare copy between the same folders.

A first round of (aa) is not counted, and each begins with another way. All buckets are folders on one disk, so two of
them have no more bandwidth than one: what is measured is what the choice of a bucket and the copies cost. In (ab) every
write to the first bucket waits, under APPENDS_PER_SECOND; a commit is looked for LOOKS_PER_SECOND times a second.
``DRAIN_GIB=10`` makes (ac) as large as its aim says.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

from benchmarks.support.pairs import Timing, timed
from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_least, at_most
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.relocation.kind import Relocation
from siltstone.metadata.buckets import SetBucketState, SetWriteStrategy
from siltstone.model.buckets import BucketState, StrategyType, WriteStrategy
from siltstone.model.buffers import Buffers
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import GIB, MIB
from siltstone.model.objects import ObjectState
from siltstone.object_store.port import ObjectStore
from siltstone.object_store.retrying import RetryingStore
from siltstone.offline.opening.store import open_store
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.runtime.clock import SystemClock
from siltstone.server.components import Node, open_node
from siltstone.server.settings.node import NodeSettings
from siltstone.stream_engine.stream import Stream

UPLOADED_MIB = 384
STREAMS = 4
ROUNDS = 3
APPENDS_PER_SECOND = 50
LOOKS_PER_SECOND = 50
GAP_S_MAX = 60.0
GAPS = 20
DRAIN_GIB = float(os.environ.get("DRAIN_GIB", "0.5"))

UPLOADS_TITLE = f"(aa) appends and uploads of {UPLOADED_MIB} MiB into several folders"
GAP_TITLE = "(ab) the longest time without a commit when the first of three buckets hangs"
DRAIN_TITLE = f"(ac) draining a folder of {DRAIN_GIB:g} GiB, in one process"

ROUND_ROBIN = WriteStrategy(StrategyType.ROUND_ROBIN)
REPLICATION = WriteStrategy(StrategyType.REPLICATION, copies=2)


def run_uploads() -> list[Row]:
    ways = {
        "1": (1, WriteStrategy()),
        "2": (2, ROUND_ROBIN),
        "3": (3, ROUND_ROBIN),
        "twice": (2, REPLICATION),
    }
    found: dict[str, list[Timing]] = {name: [] for name in ways}
    names = [*ways]
    for number in range(ROUNDS + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(_uploaded(*ways[name]))
    wall = {name: median(each.wall_s for each in timings[1:]) for name, timings in found.items()}
    cpu = {name: median(each.cpu_s for each in timings[1:]) for name, timings in found.items()}
    rate = UPLOADED_MIB / wall["1"]
    one = f"one folder, {rate:,.0f} MiB/s, {cpu['1'] / (UPLOADED_MIB * MIB / 1e9):.2f} s/GB"
    return [
        Row("throughput, two folders", f"{wall['1'] / wall['2']:.2f}×", one),
        Row("throughput, three folders", f"{wall['1'] / wall['3']:.2f}×", "one folder"),
        at_most("CPU, two folders", cpu["2"] / cpu["1"], 1.03, "×", "one folder"),
        at_most("CPU, three folders", cpu["3"] / cpu["1"], 1.03, "×", "one folder"),
        Row("throughput, two copies of each object", f"{wall['1'] / wall['twice']:.2f}×", "one folder"),
        Row("CPU, two copies of each object", f"{cpu['twice'] / cpu['1']:.2f}×", "one folder"),
    ]


def run_gap() -> list[Row]:
    return [
        row
        for kind in StrategyType
        for copies in [2 if kind is StrategyType.REPLICATION else 1]
        for row in _gap_rows(WriteStrategy(kind, copies=copies))
    ]


def run_drain() -> list[Row]:
    with _store(2, WriteStrategy()) as (settings, place):
        asyncio.run(_filled(settings, int(DRAIN_GIB * GIB / MIB)))
        source, target = place / "bucket-0", place / "bare"
        with open_store(settings) as store:
            size_bytes = sum(each.size_bytes for each in store.metadata.image.objects.values())
            store.metadata.execute(SetBucketState(0, BucketState.DRAINING))
            bare = timed(lambda: _bare_copy(source, target))
            shutil.rmtree(target)
            watch = Watch("relocation", SystemClock())
            kind = Relocation(store.kind_settings.maintenance.so_compaction)
            ours = timed(lambda: run(store.context, kind, InProcessRunner, Scope(), Budget(), watch))
            left = [
                each
                for each in store.metadata.refresh().objects.values()
                if each.bucket_id == 0 and each.state is ObjectState.COMMITTED
            ]
            assert not left, f"{len(left)} objects are not drained"
    against = f"read, write, fsync: {size_bytes / MIB / bare.wall_s:,.0f} MiB/s"
    return [
        at_least("rate", bare.wall_s / ours.wall_s, 0.6, "×", against),
        Row(
            "CPU",
            f"{ours.cpu_s / (size_bytes / 1e9):.2f} s/GB",
            f"{bare.cpu_s / (size_bytes / 1e9):.2f} s/GB",
        ),
    ]


@contextmanager
def _store(buckets: int, strategy: WriteStrategy, **flags: str) -> Iterator[tuple[NodeSettings, Path]]:
    """Opens a store whose buckets are folders beside each other, all writable."""
    with folder() as place:
        urls = {f"buckets__{number}": (place / f"bucket-{number}").as_uri() for number in range(buckets)}
        settings = store_settings(place / "store", **urls, **flags)
        asyncio.run(_made(settings))
        with open_store(settings) as store:
            for number in range(1, buckets):
                store.metadata.execute(SetBucketState(number, BucketState.WRITABLE))
            store.metadata.execute(SetWriteStrategy(strategy))
        yield settings, place


async def _made(settings: NodeSettings) -> None:
    async with open_node(settings):
        pass


def _uploaded(buckets: int, strategy: WriteStrategy) -> Timing:
    with _store(buckets, strategy) as (settings, _):
        return asyncio.run(_filled(settings, UPLOADED_MIB))


async def _filled(settings: NodeSettings, mib: int) -> Timing:
    """Measures appends until they are uploaded; opening and closing the node are not counted."""
    async with open_node(settings) as node:
        streams = [await _stream(node) for _ in range(STREAMS)]
        batch = os.urandom(MIB)
        slots = asyncio.Semaphore(STREAMS)

        async def append(number: int) -> None:
            async with slots:
                await node.engine.append(streams[number % STREAMS], batch, 1)

        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(append(number) for number in range(mib)))
        await node.engine.flush()
        return Timing(time.perf_counter() - wall, time.process_time() - cpu)


async def _stream(node: Node) -> Stream:
    return await node.engine.open_stream(await node.engine.create_stream(), 0)


def _gap_rows(strategy: WriteStrategy) -> list[Row]:
    flags = {"engine__upload__cache_block_age_ms_max": "100ms"}
    with _store(3, strategy, **flags) as (settings, _):
        gap_s, refused = asyncio.run(_gap(settings))
    return [
        at_most(f"{strategy.name.value}: longest time without a commit", gap_s, 20, " s"),
        at_most(f"{strategy.name.value}: appends refused", refused, 0),
    ]


class _Hanging:
    """A bucket whose puts wait until ``goes_on``."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.goes_on = Event()

    def put(self, key: str, buffers: Buffers) -> None:
        self.goes_on.wait()
        self._store.put(key, buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def _gap(settings: NodeSettings) -> tuple[float, int]:
    """Measures the longest time between two commits from the moment at which the bucket hangs, until GAPS have
    followed."""
    async with open_node(settings) as node:
        streams = [await _stream(node) for _ in range(STREAMS)]
        refused = 0
        ended = asyncio.Event()

        async def append() -> None:
            nonlocal refused
            while not ended.is_set():
                try:
                    await asyncio.gather(
                        *(node.engine.append(stream, os.urandom(1024), 1) for stream in streams)
                    )
                except SiltstoneError:
                    refused += 1
                await asyncio.sleep(1 / APPENDS_PER_SECOND)

        appending = asyncio.create_task(append())
        committed = _committed(node)
        while _committed(node) < committed + GAPS:
            await asyncio.sleep(1 / LOOKS_PER_SECOND)
        bucket = node.buckets.store(0)
        assert isinstance(bucket, RetryingStore)
        hanging = _Hanging(bucket._store)
        bucket._store = hanging  # type: ignore[assignment]
        count, at, longest, steps = _committed(node), time.perf_counter(), 0.0, 0
        while steps < GAPS and longest < GAP_S_MAX:
            await asyncio.sleep(1 / LOOKS_PER_SECOND)
            longest = max(longest, time.perf_counter() - at)
            if _committed(node) > count:
                count, at, steps = _committed(node), time.perf_counter(), steps + 1
        hanging.goes_on.set()
        ended.set()
        await appending
    return longest, refused


def _committed(node: Node) -> int:
    return node.engine.statistics().upload.blocks_committed


def _bare_copy(source: Path, target: Path) -> None:
    for path in sorted(each for each in source.rglob("objects/*") if each.is_file()):
        to = target / path.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
        with to.open("rb") as written:
            os.fsync(written.fileno())
