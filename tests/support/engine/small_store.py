"""A small store in a folder: a few streams in a few stream set objects, as a node leaves it."""

import asyncio
from pathlib import Path

from siltstone.offline.opening.store import open_store
from siltstone.server.components import running_node
from siltstone.server.settings.node import NodeSettings, load_node_settings
from support.engine.batches import payload_of

FLAGS = {
    "engine.upload.cache_block_bytes_max": "10KiB",
    "engine.upload.block_size_bytes": "1KiB",
    "engine.append_bytes_max": "256KiB",
    "engine.wal.segment_bytes": "1MiB",
    "engine.wal.capacity_bytes": "4MiB",
}
STREAMS = 3
BATCHES = 120
RECORDS_PER_BATCH = 5
PAYLOAD_BYTES = 200
TIMESTAMP_MS = 1_357_000_000_000


def small_store(folder: Path) -> NodeSettings:
    """Three streams of 200 records each, appended in turns, in three stream set objects or so."""
    settings = load_node_settings(folder, environment={}, flags=FLAGS)
    asyncio.run(_fill(settings))
    return settings


async def _fill(settings: NodeSettings) -> None:
    async with running_node(settings) as engine:
        ids = [await engine.create_stream({"topic": f"t{number}"}) for number in range(STREAMS)]
        streams = [await engine.open_stream(stream_id, 0) for stream_id in ids]
        answers = []
        for number in range(BATCHES):
            stream = streams[number % STREAMS]
            timestamp_ms = TIMESTAMP_MS + number * 1_000
            payload = payload_of(stream.stream_id, stream.next_offset, PAYLOAD_BYTES)
            answers.append(
                engine.append(stream, payload, RECORDS_PER_BATCH, timestamp_ms, timestamp_ms + 500)
            )
        await asyncio.gather(*answers)


def object_files(folder: Path) -> list[Path]:
    """Returns the files of objects by object id."""
    return sorted((folder / "bucket").glob("*/objects/*"), key=lambda path: path.name)


def object_ids(settings: NodeSettings) -> list[int]:
    with open_store(settings) as store:
        return sorted(store.metadata.image.objects)
