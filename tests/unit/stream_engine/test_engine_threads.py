"""An engine as it really runs: threads, a folder, SQLite, small segments that are rolled, freed and used again."""

import asyncio
from random import Random

from msgspec.structs import replace

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.opening import open_log
from siltstone.object_store.buckets import Buckets
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import SystemClock
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.opening import open_engine
from siltstone.stream_engine.reading.committed_reader import CommittedReader
from siltstone.stream_engine.wal.file_wal import FileWriteAheadLog
from support.engine.engine_world import SMALL, SMALL_READ, Node

SETTINGS = replace(SMALL, wal=replace(SMALL.wal, segment_bytes=16 * 1024))
WRITERS = 12
APPENDS = 40


def test_writers_and_readers_side_by_side_and_a_next_life(tmp_path):
    sent: dict[int, list[bytes]] = {}

    async def main():
        async with _Real(tmp_path) as node:
            streams = [await node.new_stream() for _ in range(3)]
            sent.update({stream.stream_id: [] for stream in streams})
            await asyncio.gather(*(write(node, streams[writer % 3], writer) for writer in range(WRITERS)))
            for stream in streams:
                sent[stream.stream_id] = [bytes(one.payload) for one in await node.read_all(stream)]
                assert len(sent[stream.stream_id]) == WRITERS // 3 * APPENDS
                await check_order(sent[stream.stream_id])
            statistics = node.engine.statistics()
            assert statistics.wal.groups < statistics.wal.appends
            assert statistics.upload.blocks_committed > 10
        async with _Real(tmp_path) as node:
            for stream_id, payloads in sent.items():
                stream = await node.engine.open_stream(stream_id, 1)
                assert [bytes(one.payload) for one in await node.read_all(stream)] == payloads

    asyncio.run(main())


async def write(node, stream, writer):
    for number in range(APPENDS):
        payload = b"%d:%d|" % (writer, number)
        base = await node.append(stream, payload * 100)
        if number % 10 == 0:
            (found,) = await node.engine.read(stream, base, 1)
            assert bytes(found.payload) == payload * 100


async def check_order(payloads):
    """Each writer's batches, once each, in the order it wrote them."""
    by_writer: dict[bytes, list[int]] = {}
    for payload in payloads:
        writer, number = payload.split(b"|")[0].split(b":")
        by_writer.setdefault(writer, []).append(int(number))
    assert all(numbers == list(range(APPENDS)) for numbers in by_writer.values())


class _Real:
    def __init__(self, folder):
        self.folder = folder

    async def __aenter__(self):
        clock, rng = SystemClock(), Random(3)
        self.pools = [
            ThreadedCalls(name, threads) for name, threads in (("wal", 2), ("rest", 4), ("metadata", 1))
        ]
        wal_calls, calls, metadata_calls = self.pools
        client = MetadataClient(open_log(f"sqlite://{self.folder}/metadata.sqlite"), clock, rng)
        metadata = MetadataService(client, metadata_calls, clock)
        await metadata.start()
        self.buckets = Buckets.open({0: f"file://{self.folder}/bucket"}, create=True)
        wal = FileWriteAheadLog(self.folder / "wal", 0, SETTINGS.wal, wal_calls, clock)
        reader = CommittedReader(
            self.buckets, lambda: metadata.image, metadata.refresh, calls, clock, SMALL_READ
        )
        components = EngineComponents(metadata, self.buckets, wal, reader, calls, clock)
        engine = await open_engine(components, SETTINGS, rng, "here")
        self.node = Node(engine, metadata, reader, calls)
        return self.node

    async def __aexit__(self, *_):
        await self.node.close()
        self.buckets.close()
        for pool in self.pools:
            pool.close()
