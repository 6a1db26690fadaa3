"""Fills a store by a real node, for benchmarks of later work on it."""

import asyncio
import os

from siltstone.model.limits import KIB, MIB
from siltstone.server.components import open_node
from siltstone.server.settings.node import NodeSettings

BATCH_BYTES = 64 * KIB


def fill(settings: NodeSettings, streams: int, bytes_total: int) -> list[int]:
    """Appends batches of 64 KiB to the streams in turn until all is committed. Returns the stream ids."""
    return asyncio.run(_fill(settings, streams, bytes_total))


async def _fill(settings: NodeSettings, streams: int, bytes_total: int) -> list[int]:
    async with open_node(settings) as node:
        opened = [await node.engine.open_stream(await node.engine.create_stream(), 0) for _ in range(streams)]
        slots = asyncio.Semaphore(64)
        payload = os.urandom(8 * MIB)

        async def append(number: int) -> None:
            async with slots:
                start = number * 4096 % (len(payload) - BATCH_BYTES)
                batch = memoryview(payload)[start : start + BATCH_BYTES]
                await node.engine.append(opened[number % streams], batch, 64)

        await asyncio.gather(*(append(number) for number in range(bytes_total // BATCH_BYTES)))
    return [stream.stream_id for stream in opened]
