"""A process that appends until it is killed: ``python -m support.engine.crash_appender FOLDER SEED``.

Each acknowledged append becomes a line of FOLDER/history, written after the acknowledgement; each trim becomes one
before it is asked for. So what the history says was promised.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from siltstone.server.components import Node, open_node
from siltstone.stream_engine.stream import Stream
from support.engine.crash_payload import crash_payload
from support.engine.crash_settings import crash_settings

STREAMS = 4
WRITERS = 8


async def main(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    history = os.open(folder / "history", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with open_node(crash_settings(folder)) as node:
        streams = await open_streams(node)
        writers = (write(node, streams, rng.randrange(2**32), history) for _ in range(WRITERS))
        await asyncio.gather(*writers, trim(node, streams, rng, history))


async def open_streams(node: Node) -> list[Stream]:
    existing = [s for s in node.metadata.image.streams.values() if s.tags.get("crash")]
    while len(existing) < STREAMS:
        stream_id = await node.engine.create_stream({"crash": str(len(existing))})
        existing.append(node.metadata.image.streams[stream_id])
    return [await node.engine.open_stream(each.stream_id, each.epoch + 1) for each in existing]


async def write(node: Node, streams: list[Stream], seed: int, history: int) -> None:
    rng = random.Random(seed)
    while True:
        stream = rng.choice(streams)
        count = rng.randint(1, 5)
        base = stream.next_offset
        payload = crash_payload(stream.stream_id, base, count, rng.choice([0, 10, 500, 3_000, 20_000]))
        given = await node.engine.append(stream, payload, count)
        assert given == base
        os.write(history, f"A {stream.stream_id} {base} {count}\n".encode())
        if rng.random() < 0.2:
            await asyncio.sleep(rng.random() / 100)


async def trim(node: Node, streams: list[Stream], rng: random.Random, history: int) -> None:
    while True:
        await asyncio.sleep(rng.random() / 3)
        stream = rng.choice(streams)
        if stream.confirmed_offset > stream.start_offset + 50:
            offset = rng.randint(stream.start_offset, stream.confirmed_offset - 40)
            os.write(history, f"T {stream.stream_id} {offset}\n".encode())
            await node.engine.trim(stream, offset)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
