"""Committed objects to read: stores that count requests and can be made to fail, and the image that names their
objects."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState, object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.object_layout import ranges_of_entries
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectStore
from siltstone.runtime.blocking import BlockingCalls, InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.reading.committed_reader import CommittedReader
from siltstone.stream_engine.settings import ReadSettings
from support.engine.batches import build_object

T = TypeVar("T")

SMALL_READS = ReadSettings(
    block_cache_bytes_max=64 * 1024,
    index_cache_bytes_max=64 * 1024,
    request_bytes_max=4 * 1024,
    under_way_bytes_max=16 * 1024,
    read_ahead_bytes_min=512,
    read_ahead_bytes_max=8 * 1024,
)


class CountingStore(MemoryStore):
    """``gets`` are the ranges asked for; ``before_get`` is called first and may raise."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.gets: list[tuple[str, int, int]] = []
        self.before_get: Callable[[str], None] = lambda _: None

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.gets.append((key, start, end))
        self.before_get(key)
        return super().get_range(key, start, end)


class GatedCalls:
    """Calls wait at the gate until it is opened; ``waiting`` is how many do."""

    def __init__(self) -> None:
        self._gate = asyncio.Event()
        self.waiting = 0

    def open(self) -> None:
        self._gate.set()

    async def run(self, call: Callable[..., T], *args: object, **kwargs: object) -> T:
        self.waiting += 1
        try:
            await self._gate.wait()
        finally:
            self.waiting -= 1
        return call(*args, **kwargs)

    def close(self) -> None:
        return None


class SteppedCalls:
    """Calls wait until ``step``, which lets the one that waits longest continue."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    def step(self) -> None:
        if self._waiting:
            self._waiting.popleft().set_result(None)

    async def run(self, call: Callable[..., T], *args: object, **kwargs: object) -> T:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn
        return call(*args, **kwargs)

    def close(self) -> None:
        return None


class CommittedWorld:
    def __init__(self, bucket_ids: Iterable[int] = (0,)) -> None:
        self.clock = ManualClock()
        self.stores = {bucket_id: CountingStore(self.clock) for bucket_id in bucket_ids}
        self.objects: dict[int, ObjectMetadata] = {}
        self.next_image: MetadataImage | None = None
        self.refreshes = 0
        self.start_offsets: dict[int, int] = {}

    @property
    def store(self) -> CountingStore:
        return self.stores[0]

    @property
    def block_gets(self) -> int:
        """Requests for blocks: those that do not reach the end of an object, where its index is."""
        sizes = {object_key(one.object_id): one.size_bytes for one in self.objects.values()}
        return sum(end < sizes[key] for store in self.stores.values() for key, _, end in store.gets)

    def commit(
        self, object_id: int, batches: Iterable[RecordBatch], block_size_bytes: int = 1024, bucket_id: int = 0
    ) -> ObjectMetadata:
        built = build_object(batches, block_size_bytes)
        self.stores[bucket_id].put(object_key(object_id), built.buffers)
        ranges = ranges_of_entries(built.entries, object_id)
        kind = ObjectKind.STREAM_OBJECT if len(ranges) == 1 else ObjectKind.STREAM_SET_OBJECT
        committed = ObjectMetadata(
            object_id=object_id, state=ObjectState.COMMITTED, bucket_id=bucket_id, kind=kind,
            size_bytes=built.size_bytes, deadline_ms=0, committed_ms=0, destroyed_ms=0, data_time_ms=0, ranges=ranges,
        )  # fmt: skip
        self.objects[object_id] = committed
        return committed

    def destroy(self, object_id: int) -> None:
        """Compacted away: gone from the metadata and from the bucket."""
        gone = self.objects.pop(object_id)
        self.stores[gone.bucket_id].delete([object_key(object_id)])

    def image(self) -> MetadataImage:
        ranges: dict[int, list[ObjectRange]] = {}
        for one in self.objects.values():
            for held in one.ranges:
                ranges.setdefault(held.stream_id, []).append(held)
        streams = [(stream_id, self._stream(stream_id, held)) for stream_id, held in ranges.items()]
        return MetadataImage(streams=ShardedMap(streams), objects=ShardedMap(self.objects.items()))

    def reader(
        self,
        settings: ReadSettings = SMALL_READS,
        calls: BlockingCalls | None = None,
        is_there: Callable[[ObjectStore], bool] = lambda _: True,
    ) -> CommittedReader:
        """Makes a reader that sees the image as it is now, and the later one after a refresh."""
        seen = [self.image()]

        async def refresh() -> None:
            self.refreshes += 1
            seen[0] = self.image()

        buckets = Buckets(self.stores)
        return CommittedReader(
            buckets, lambda: seen[0], refresh, calls or InlineCalls(), self.clock, settings, is_there
        )

    def _stream(self, stream_id: int, held: list[ObjectRange]) -> StreamMetadata:
        held.sort(key=lambda one: one.start_offset)
        return StreamMetadata(
            stream_id=stream_id, state=StreamState.OPENED, epoch=0, owner=0,
            start_offset=self.start_offsets.get(stream_id, held[0].start_offset), end_offset=held[-1].end_offset,
            owner_ranges=(), ranges=tuple(held), tags={},
        )  # fmt: skip


async def settle(turns: int = 20) -> None:
    """Let tasks that have nothing to wait for run."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def read_all(
    reader: CommittedReader, stream_id: int, start: int, end: int, bytes_max: int
) -> list[RecordBatch]:
    """Reads as a consumer does: one read after another."""
    batches: list[RecordBatch] = []
    while start < end and (read := await reader.read(stream_id, start, end, bytes_max)):
        batches += read
        start = read[-1].end_offset
    return batches
