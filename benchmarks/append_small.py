"""(b) 64 writers of 1 KiB batches, each waiting for its answer before the next append."""

import asyncio
import os
import time
from pathlib import Path

from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_least
from siltstone.server.components import Node, open_node
from siltstone.stream_engine.stream import Stream

WRITERS = 64
BATCH_BYTES = 1024
SECONDS = 5.0
TITLE = "(b) 64 concurrent writers of 1 KiB batches, fdatasync before every answer"


def run() -> list[Row]:
    with folder() as place:
        return asyncio.run(_measure(place))


async def _measure(place: Path) -> list[Row]:
    async with open_node(store_settings(place / "store")) as node:
        streams = [
            await node.engine.open_stream(await node.engine.create_stream(), 0) for _ in range(WRITERS)
        ]
        before = node.engine.statistics().wal
        cpu = time.process_time()
        started = time.perf_counter()
        counts = await asyncio.gather(*(_write(node, stream, started + SECONDS) for stream in streams))
        seconds = time.perf_counter() - started
        cpu = time.process_time() - cpu
        after = node.engine.statistics().wal
    appends, syncs = sum(counts), after.syncs - before.syncs
    return [
        at_least("appends/s", appends / seconds, 15_000),
        Row("fdatasyncs/s", f"{syncs / seconds:,.0f}"),
        at_least("appends that share one fdatasync", appends / syncs, 2.0),
        Row("CPU", f"{cpu / appends * 1e6:.1f} µs/append"),
    ]


async def _write(node: Node, stream: Stream, until: float) -> int:
    batch = os.urandom(BATCH_BYTES)
    count = 0
    while time.perf_counter() < until:
        await node.engine.append(stream, batch, 1)
        count += 1
    return count
