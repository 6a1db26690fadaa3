"""What outlives a node (metadata log, bucket, WAL folder, time), and nodes that are opened in it, closed, and crash.

Everything runs in one thread; a crash freezes the node between two of its calls to the outside and copies its WAL
folder, so that the next life finds what the last one had written.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TypeVar

from msgspec.structs import replace

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import MetadataLog
from siltstone.metadata.store_id import put_store_id, store_id_of
from siltstone.model.record_batch import RecordBatch
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectStore
from siltstone.offline.context import guard_of
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.opening import ALONE, NodeEnrolment, open_engine
from siltstone.stream_engine.reading.committed_reader import CommittedReader
from siltstone.stream_engine.settings import EngineSettings, ReadSettings, UploadSettings, WalSettings
from siltstone.stream_engine.stream import Stream
from siltstone.stream_engine.wal.opening import WalPlace, open_wal
from siltstone.stream_engine.wal.port import WriteAheadLog

T = TypeVar("T")

SMALL_WAL = WalSettings(segment_bytes=8 * 1024, capacity_bytes=64 * 1024, group_bytes_max=4 * 1024)
SMALL_UPLOAD = UploadSettings(
    cache_block_bytes_max=8 * 1024, split_size_bytes=4 * 1024, block_size_bytes=1024, uploads_in_flight_max=3
)
SMALL = EngineSettings(
    tail_cache_bytes_max=64 * 1024,
    append_bytes_max=4 * 1024,
    waiting_bytes_max=256 * 1024,
    wal=SMALL_WAL,
    upload=SMALL_UPLOAD,
)
SMALL_READ = ReadSettings(
    block_cache_bytes_max=64 * 1024, read_ahead_bytes_min=1024, read_ahead_bytes_max=4 * 1024
)


class FreezableCalls:
    """Calls made where they stand, until the node is frozen: then none is made, and none answers."""

    def __init__(self) -> None:
        self.is_frozen = False
        self.before_call: Callable[[str], None] = lambda _: None
        self.after_call: Callable[[], None] = lambda: None

    async def run(self, call: Callable[..., T], *args: object, **kwargs: object) -> T:
        await asyncio.sleep(0)
        self.before_call(getattr(call, "__name__", "call"))
        await self._stop_when_frozen()
        try:
            return call(*args, **kwargs)
        finally:
            self.after_call()
            await self._stop_when_frozen()

    async def _stop_when_frozen(self) -> None:
        if self.is_frozen:
            await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        return None


class Node:
    """One run of one node."""

    def __init__(
        self, engine: StreamEngine, metadata: MetadataService, reader: CommittedReader, calls: FreezableCalls
    ) -> None:
        self.engine = engine
        self.metadata = metadata
        self.reader = reader
        self.calls = calls

    async def new_stream(self, epoch: int = 0) -> Stream:
        return await self.engine.open_stream(await self.engine.create_stream(), epoch)

    async def append(self, stream: Stream, payload: bytes, records: int = 1) -> int:
        return await self.engine.append(stream, payload, records)

    async def read_all(self, stream: Stream, start: int | None = None) -> list[RecordBatch]:
        """Reads to the confirmed end, in as many reads as that takes."""
        at = stream.start_offset if start is None else start
        batches: list[RecordBatch] = []
        while at < stream.confirmed_offset:
            found = await self.engine.read(stream, at, 4096)
            assert found, f"nothing at {at} of [{stream.start_offset}, {stream.confirmed_offset})"
            assert found[0].base_offset <= at < found[0].end_offset
            batches += found
            at = batches[-1].end_offset
        return batches

    async def close(self) -> None:
        await self.engine.close()
        await self.reader.close()
        await self.metadata.close()


class HeldPuts:
    """The calls of a node's uploads; puts wait until they are let go."""

    def __init__(self, node: Node) -> None:
        self.puts = 0
        self._run = node.engine._pipeline._calls.run
        self._release = asyncio.Event()
        node.engine._pipeline._calls = self

    async def run(self, call: Callable[..., T], *args: object) -> T:
        if getattr(call, "__name__", "") == "put":
            self.puts += 1
            await self._release.wait()
        return await self._run(call, *args)

    def release(self) -> None:
        self._release.set()


class World:
    def __init__(
        self,
        folder: Path,
        *,
        log: MetadataLog | None = None,
        store: ObjectStore | None = None,
        clock: ManualClock | None = None,
        rng: Random | None = None,
        wal_in_bucket: bool = False,
        is_guarded: bool = False,
    ) -> None:
        """``is_guarded``: the bucket has marks, as a server's has, and refuses metadata older than those."""
        self.folder = folder
        self.wal_in_bucket = wal_in_bucket
        self.is_guarded = is_guarded
        self.clock = clock or ManualClock()
        self.log = log or MemoryLog()
        self.store = store or MemoryStore(self.clock)
        self.rng = rng or Random(1)
        self.lives = 0
        self.wal_folder = folder / "wal-0"
        self.newest_log: WriteAheadLog | None = None

    async def open(
        self,
        settings: EngineSettings = SMALL,
        *,
        calls: FreezableCalls | None = None,
        wal: Path | None = None,
        enrolment: NodeEnrolment = ALONE,
    ) -> Node:
        """A node that has recovered. When opening fails everything of it is closed again."""
        calls = calls or FreezableCalls()
        client = MetadataClient(self.log, self.clock, self.rng)
        buckets = Buckets({0: self.store})
        if self.wal_in_bucket:
            settings = replace(settings, wal=replace(settings.wal, location="bucket:0"))
        guards = {}
        if self.wal_in_bucket or self.is_guarded:
            client.execute(put_store_id(self.rng))
        if self.is_guarded:
            guards[0] = guard_of(self.store, store_id_of(client.image) or "", client)
            guards[0].admit()
        metadata = MetadataService(client, calls, self.clock)
        place = WalPlace(settings, wal or self.wal_folder)
        store_id = store_id_of(client.image) or ""
        write_ahead_log = open_wal(place, buckets, store_id, calls, self.clock, self.rng)
        self.newest_log = write_ahead_log
        await metadata.start()
        reader = CommittedReader(
            buckets, lambda: metadata.image, metadata.refresh, calls, self.clock, SMALL_READ
        )
        components = EngineComponents(metadata, buckets, write_ahead_log, reader, calls, self.clock, guards)
        try:
            engine = await open_engine(components, settings, self.rng, place.location, enrolment)
        except BaseException:
            if not calls.is_frozen:
                await write_ahead_log.close()
                await reader.close()
                await metadata.close()
            raise
        return Node(engine, metadata, reader, calls)

    @asynccontextmanager
    async def node(self, settings: EngineSettings = SMALL) -> AsyncIterator[Node]:
        """Open for the block, closed after it."""
        node = await self.open(settings)
        yield node
        await node.close()

    def crash(self, calls: FreezableCalls) -> None:
        """The node that uses these calls is no more; the next one begins with a copy of its WAL."""
        calls.is_frozen = True
        self.take_wal_along()

    def take_wal_along(self) -> None:
        self.lives += 1
        left = self.wal_folder
        self.wal_folder = self.folder / f"wal-{self.lives}"
        if left.exists():
            shutil.copytree(left, self.wal_folder)

    async def passing(self, awaited: Awaitable[T], step_ms: float = 100, steps_max: int = 100_000) -> T:
        """Returns the result of a coroutine, while time passes whenever nothing else happens."""
        task = asyncio.ensure_future(awaited)
        for _ in range(steps_max):
            await settled()
            if task.done():
                return task.result()
            self.clock.advance_ms(step_ms)
        task.cancel()
        raise AssertionError(f"nothing came of it in {steps_max * step_ms} ms")

    def keys(self) -> set[str]:
        return {summary.key for summary in self.store.list()}


async def settled(turns: int = 60) -> None:
    """Waits until everything that can continue without time has continued."""
    for _ in range(turns):
        await asyncio.sleep(0)


def offsets_of(batches: list[RecordBatch]) -> list[tuple[int, int]]:
    return [(batch.base_offset, batch.end_offset) for batch in batches]


def payloads_of(batches: list[RecordBatch]) -> list[bytes]:
    return [bytes(batch.payload) for batch in batches]
