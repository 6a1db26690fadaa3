"""(o) The write-ahead log in a bucket of a real S3 server: how long an append waits for its answer, against the bare
put of the same bytes; requests while it is busy and while it is idle.

Appends of 1 KiB come at their own pace (exponential gaps), as from many producers, so they find a put under way at any
point. The bare puts have the sizes of the bulks and come at their pace, under other keys of the same bucket. The broker
is idle when a minute has passed, in which it marks the version of its metadata in the bucket, and deletes what was
committed from the log.
"""

import asyncio
import os
import random
import time
from pathlib import Path
from statistics import median, quantiles

from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_most
from siltstone.model.limits import HOUR_MS, WAL_PUTS_PER_HOUR_MAX
from siltstone.object_formats.wal_object import WAL_PREFIX
from siltstone.object_store.port import ObjectStore
from siltstone.server.components import Node, open_node
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.version_marks import MARK_INTERVAL_MS
from siltstone.stream_engine.wal.bucket_wal import DELETE_INTERVAL_MS
from support.engine.s3_server import running_s3_server

APPEND_BYTES = 1024
TRIED = ((10, WAL_PUTS_PER_HOUR_MAX), (1_000, WAL_PUTS_PER_HOUR_MAX), (1_000, 10 * WAL_PUTS_PER_HOUR_MAX))
"""Appends a second, and the ceiling of puts an hour."""

SECONDS = 15.0
PUTS = 100
IDLE_SECONDS = 20.0
TITLE = "(o) the write-ahead log in a bucket on a real S3 server, appends of 1 KiB"


def run() -> list[Row]:
    rows = []
    for per_second, per_hour_max in TRIED:
        with running_s3_server() as server, folder() as place:
            rows += asyncio.run(_measure(place, server.new_url(), per_second, per_hour_max))
    return rows


async def _measure(place: Path, url: str, per_second: int, per_hour_max: int) -> list[Row]:
    settings = store_settings(
        place / "store",
        buckets__0=url,
        engine__wal__location="bucket:0",
        engine__wal__puts_per_hour_max=per_hour_max,
    )
    async with open_node(settings) as node:
        stream = await node.engine.open_stream(await node.engine.create_stream(), 0)
        before = node.buckets.statistics()
        waited = await _append(node, stream, per_second)
        busy = node.buckets.statistics() - before
        store = node.buckets.store(0)
        sizes = [each.size_bytes for each in store.list(WAL_PREFIX) if each.size_bytes > APPEND_BYTES]
        bare = await asyncio.to_thread(_puts, store, sizes[-PUTS:], SECONDS / len(sizes))
        await node.engine.flush()
        await asyncio.sleep((MARK_INTERVAL_MS + 2 * DELETE_INTERVAL_MS) / 1000)
        before = node.buckets.statistics()
        await asyncio.sleep(IDLE_SECONDS)
        idle = node.buckets.statistics() - before
    hour = HOUR_MS / 1000
    what = f"{per_second:,} appends a second, at most {per_hour_max:,} puts an hour: "
    against = f"the bare put: p50 {median(bare):.1f} ms, p99 {_p99(bare):.1f} ms"
    return [
        at_most(f"{what}acknowledgement, p50", median(waited), 1.5 * median(bare), " ms", against),
        Row(f"{what}acknowledgement, p99", f"{_p99(waited):.1f} ms", against),
        Row(f"{what}bytes of a bulk, median", f"{median(sizes):,.0f}"),
        Row(f"{what}requests an hour, busy", f"{sum(busy.requests.values()) / SECONDS * hour:,.0f}"),
        at_most(f"{what}requests an hour, idle", sum(idle.requests.values()) / IDLE_SECONDS * hour, 0),
    ]


async def _append(node: Node, stream: Stream, per_second: int) -> list[float]:
    """Returns the milliseconds that each append waited for its answer."""
    rng, payload, waited = random.Random(1), os.urandom(APPEND_BYTES), []
    answers: list[asyncio.Future[int]] = []
    begun = due = time.perf_counter()
    while due - begun < SECONDS:
        due += rng.expovariate(per_second)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        asked = time.perf_counter()
        answer = node.engine.append(stream, payload, 1)
        answer.add_done_callback(lambda _, asked=asked: waited.append((time.perf_counter() - asked) * 1000))
        answers.append(answer)
    await asyncio.gather(*answers)
    return waited


def _puts(store: ObjectStore, sizes: list[int], gap_s: float) -> list[float]:
    """Returns the milliseconds of bare puts of so many bytes."""
    took = []
    for number, size_bytes in enumerate(sizes):
        content = os.urandom(size_bytes)
        time.sleep(gap_s)
        begun = time.perf_counter()
        store.put_if_absent(f"bare/{number:020d}", [content])
        took.append((time.perf_counter() - begun) * 1000)
    store.delete([f"bare/{number:020d}" for number in range(len(sizes))])
    return took


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100)[-1]
