"""Fetches blocks: from the cache, from a request that is under way, or with ranged GETs. No block is fetched twice at
the same time.

A request waits first for the bandwidth of its grade, and a catch-up read also for its share beside appends
(``giving_way``). The bytes of requests under way are limited. A request that a reader needs waits until there is room;
a request of read-ahead is dropped when there is none. Next: ``block_cache``, ``byte_budget``.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.objects import object_key
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import DamagedBlock
from siltstone.object_store.bandwidth.limiter import Limiter
from siltstone.object_store.bandwidth.passage import UNCOUNTED
from siltstone.object_store.bandwidth.turns import Direction, Grade, TooMuchWaits
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.copies import Copies
from siltstone.object_store.port import ObjectStore, ObjectTruncated
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.reading.block_cache import Block, BlockCache, BlockKey
from siltstone.stream_engine.reading.byte_budget import ByteBudget
from siltstone.stream_engine.reading.copies import read_any
from siltstone.stream_engine.reading.index_cache import LoadsUnderWay
from siltstone.stream_engine.reading.read_ahead import ReadAhead
from siltstone.stream_engine.reading.read_plan import BlockRequest, PlannedBlock, requests_for
from siltstone.stream_engine.settings import ReadSettings

PromisedBlock: TypeAlias = Block | asyncio.Future[Block]


class FetchStatistics(msgspec.Struct, frozen=True):
    """``shared`` counts blocks that a read needed while another read's request for them was under way."""

    requests: int
    bytes_read: int
    bytes_under_way: int
    shared: int


class BlockFetcher:
    def __init__(
        self,
        buckets: Buckets,
        cache: BlockCache,
        calls: BlockingCalls,
        tasks: TaskGroup,
        settings: ReadSettings,
        clock: Clock,
        catch_up: Limiter,
    ) -> None:
        """``catch_up`` is the limiter of catch-up reads only; all reads also pass the limiter of the buckets."""
        self._buckets = buckets
        self._clock = clock
        self._catch_up = catch_up
        self._cache = cache
        self._calls = calls
        self._tasks = tasks
        self._request_bytes_max = settings.request_bytes_max
        self._budget = ByteBudget(settings.under_way_bytes_max)
        self._under_way: LoadsUnderWay[BlockKey, Block] = LoadsUnderWay()
        self._requests = 0
        self._bytes_read = 0
        self._shared = 0

    def fetch(
        self, blocks: Sequence[PlannedBlock], objects: Mapping[int, ObjectMetadata], grade: Grade
    ) -> list[PromisedBlock]:
        """Returns each block or a promise of it, in order. A promise raises DamagedBlock, TooMuchWaits, and the errors
        of the object store."""
        ready = {block.key: self._cached_or_shared(block) for block in blocks}
        for request in requests_for(
            (block for block in blocks if ready[block.key] is None), self._request_bytes_max
        ):
            ready.update(self._begin(request, objects, None, grade))
        return [promised for promised in ready.values() if promised is not None]

    def fetch_ahead(
        self, blocks: Sequence[PlannedBlock], objects: Mapping[int, ObjectMetadata], ahead: ReadAhead
    ) -> None:
        """Begins to fetch blocks for a later read, as far as there is room now."""
        request_bytes_max = min(self._request_bytes_max, ahead.request_bytes)
        for request in requests_for(blocks, request_bytes_max):
            for missing in requests_for(self._absent(request), request_bytes_max):
                if not self._may_begin_at_once(missing):
                    return
                self._begin(missing, objects, ahead, Grade.CATCH_UP_READ)
            ahead.fetched(request.entries[-1].end_offset, request.size_bytes)

    def close(self, reason: Exception) -> None:
        self._under_way.fail_all(reason)

    def statistics(self) -> FetchStatistics:
        return FetchStatistics(self._requests, self._bytes_read, self._budget.bytes_used, self._shared)

    def _cached_or_shared(self, block: PlannedBlock) -> PromisedBlock | None:
        cached = self._cache.get(block.key)
        if cached is not None:
            return cached
        promise = self._under_way.get(block.key)
        self._shared += promise is not None
        return promise

    def _absent(self, request: BlockRequest) -> Iterator[PlannedBlock]:
        for entry in request.entries:
            block = PlannedBlock(request.object_id, entry)
            if block.key not in self._cache and self._under_way.get(block.key) is None:
                yield block

    def _begin(
        self,
        request: BlockRequest,
        objects: Mapping[int, ObjectMetadata],
        ahead: ReadAhead | None,
        grade: Grade,
    ) -> dict[BlockKey, asyncio.Future[Block]]:
        """Starts the task that fetches the request; returns block key → promise. Read-ahead (``ahead``) has acquired
        its bytes of the budget and of the bandwidth already; without it the task acquires them."""
        found = self._buckets.copies(objects[request.object_id].bucket_ids, f"object {request.object_id}")
        copies = found.passing(UNCOUNTED)
        promises = {key: self._under_way.begin(key) for key in request.keys}
        self._tasks.start(
            f"get-{request.object_id}-{request.position}", self._load(copies, request, ahead, grade)
        )
        return promises

    def _may_begin_at_once(self, request: BlockRequest) -> bool:
        """Acquires the bytes that a request of read-ahead needs, if that is possible without a wait."""
        if not self._budget.try_acquire(request.memory_bytes):
            return False
        passes = (Direction.IN, Grade.CATCH_UP_READ, request.size_bytes)
        if self._catch_up.try_pass(*passes) and self._buckets.limiter.try_pass(*passes):
            return True
        self._budget.release(request.memory_bytes)
        return False

    async def _pass(self, grade: Grade, size_bytes: int) -> None:
        """Waits for the bandwidth. Raises TooMuchWaits."""
        if grade is Grade.CATCH_UP_READ:
            await self._catch_up.wait(Direction.IN, grade, size_bytes)
        await self._buckets.limiter.wait(Direction.IN, grade, size_bytes)

    async def _load(
        self, copies: Copies, request: BlockRequest, ahead: ReadAhead | None, grade: Grade
    ) -> None:
        if ahead is None:
            try:
                await self._pass(grade, request.size_bytes)
            except TooMuchWaits as failure:
                self._under_way.fail(request.keys, failure)
                return
            await self._budget.acquire(request.memory_bytes)
        try:
            blocks = await self._blocks_of(copies, request)
        except Exception as failure:  # the readers that wait for the blocks get the exception
            self._under_way.fail(request.keys, failure)
            return
        finally:
            self._budget.release(request.memory_bytes)
        self._requests += 1
        self._bytes_read += request.size_bytes
        for key, block in zip(request.keys, blocks, strict=True):
            if isinstance(block, DamagedBlock):
                self._under_way.fail([key], block)
            else:
                block.fetched_for = ahead
                self._cache.put(block)
                self._under_way.succeed(key, block)

    async def _blocks_of(self, copies: Copies, request: BlockRequest) -> list[Block | DamagedBlock]:
        """Reads the blocks, each from a copy in which it is undamaged. A block that is damaged in all copies is
        returned as damaged."""
        if not copies.are_several:
            return await self._calls.run(read_blocks, copies.first, request)
        best: list[Block | DamagedBlock] = []

        def read_undamaged(store: ObjectStore) -> list[Block | DamagedBlock]:
            blocks = read_blocks(store, request)
            best[:] = [
                new if isinstance(old, DamagedBlock) else old
                for old, new in zip(best or blocks, blocks, strict=True)
            ]
            damages = [each for each in best if isinstance(each, DamagedBlock)]
            if damages:
                raise damages[0]
            return best

        try:
            return await read_any(copies, self._calls, self._clock, read_undamaged)
        except DamagedBlock:
            return best


def read_blocks(store: ObjectStore, request: BlockRequest) -> list[Block | DamagedBlock]:
    """Reads the blocks and verifies each; a damaged block does not affect the others.

    Each block has memory of its own: a view of one answer would keep all 16 MiB of it for one block, and the limit of
    the block cache would not hold. If the object ends too early, the blocks before its end are returned."""
    key, entries = object_key(request.object_id), request.entries
    try:
        pieces = store.get_pieces(key, request.position, [entry.end_position for entry in entries])
    except ObjectTruncated:
        return _read_apart(store, request)
    return [_checked(request.object_id, entry, piece) for entry, piece in zip(entries, pieces, strict=True)]


def _read_apart(store: ObjectStore, request: BlockRequest) -> list[Block | DamagedBlock]:
    """Reads one block after another, up to the end of the object."""
    key, entries = object_key(request.object_id), request.entries
    blocks: list[Block | DamagedBlock] = []
    for number, entry in enumerate(entries):
        try:
            blocks.append(
                _checked(request.object_id, entry, store.get_range(key, entry.position, entry.end_position))
            )
        except ObjectTruncated as truncated:
            what_is_wrong = f"is cut off: {truncated}"
            return blocks + [DamagedBlock(cut, request.object_id, what_is_wrong) for cut in entries[number:]]
    return blocks


def _checked(object_id: int, entry: BlockEntry, data: bytes) -> Block | DamagedBlock:
    try:
        return Block(object_id, entry, data)
    except DamagedBlock as damage:
        return damage
