"""The upload pipeline: sealed block → prepare → upload → commit → trim the WAL.

Blocks are prepared and committed strictly in seal order, one at a time; their objects are uploaded concurrently.
Commits in seal order keep every stream's committed offsets contiguous (rule 3); prepares in seal order keep object
ids in seal order. A refused prepare or commit ends the pipeline: the node is fenced, or the metadata differs from
what the node assumes, and it must not continue. Blocks before the one that failed are still committed; those after it
are cancelled. Next: ``upload_plan``.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from siltstone.metadata.commands import CommitUpload, NewObject, PrepareObjects
from siltstone.metadata.service import MetadataService, ServiceClosed
from siltstone.model.errors import Unavailable
from siltstone.model.objects import object_key
from siltstone.object_formats.object_layout import EncodedObject
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.settings import UploadSettings
from siltstone.stream_engine.tail.cache_block import CacheBlock
from siltstone.stream_engine.upload.upload_plan import UploadPlan, encode_object, new_object, plan_upload

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_INTERVAL_MS = 1_000
"""Between attempts when the bucket or the metadata log is unavailable and their own retries have failed."""


class Turns:
    """Admits tickets one at a time, in the order 0, 1, 2, …: a ticket may enter when the one before it has left.

    A ticket whose block raises never passes its turn on, so no later ticket enters.
    """

    def __init__(self) -> None:
        self._serving = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, ticket: int) -> AsyncIterator[None]:
        if ticket != self._serving:
            waiting = self._waiting[ticket] = asyncio.get_running_loop().create_future()
            await waiting
        yield
        self._serving += 1
        follower = self._waiting.pop(self._serving, None)
        if follower is not None and not follower.done():
            follower.set_result(None)


class UploadStatistics(msgspec.Struct, frozen=True):
    blocks_in_flight: int
    blocks_committed: int
    objects_committed: int
    bytes_uploaded: int


class UploadPipeline:
    """``on_committed(block)`` is awaited after each commit, in seal order; the engine trims the WAL in it.
    ``on_failure`` is called with the exception that ended the pipeline."""

    def __init__(
        self,
        metadata: MetadataService,
        buckets: Buckets,
        calls: BlockingCalls,
        clock: Clock,
        settings: UploadSettings,
        *,
        node_id: int,
        node_epoch: int,
        guard: BucketGuard | None = None,
        on_committed: Callable[[CacheBlock], Awaitable[None]],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._metadata = metadata
        self._buckets = buckets
        self._calls = calls
        self._clock = clock
        self._settings = settings
        self._node_id = node_id
        self._node_epoch = node_epoch
        self._guard = guard
        self._on_committed = on_committed
        self._tasks = TaskGroup("upload", on_failure)
        self._turns_taken = 0
        self._prepare_turns = Turns()
        self._commit_turns = Turns()
        self._slots = asyncio.Semaphore(settings.uploads_in_flight_max)
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._blocks_committed = self._objects_committed = self._bytes_uploaded = 0

    def submit(self, block: CacheBlock) -> None:
        """Starts the upload of a sealed block. The caller submits blocks in seal order."""
        ticket = self._turns_taken
        self._turns_taken += 1
        task = self._in_flight[ticket] = self._tasks.start("block", self._upload_in_turn(block, ticket))
        task.add_done_callback(lambda _: self._in_flight.pop(ticket))

    async def drain(self) -> None:
        """Waits until every block submitted so far is committed, or the pipeline has failed."""
        if self._in_flight:
            await asyncio.wait(set(self._in_flight.values()))

    async def abort(self) -> None:
        await self._tasks.cancel()

    def statistics(self) -> UploadStatistics:
        return UploadStatistics(
            blocks_in_flight=len(self._in_flight),
            blocks_committed=self._blocks_committed,
            objects_committed=self._objects_committed,
            bytes_uploaded=self._bytes_uploaded,
        )

    async def _upload_in_turn(self, block: CacheBlock, ticket: int) -> None:
        try:
            await self._upload_block(block, ticket)
        except Exception:
            for later, task in self._in_flight.items():
                if later > ticket:
                    task.cancel()
            raise

    async def _upload_block(self, block: CacheBlock, ticket: int) -> None:
        plan = plan_upload(block.streams, self._settings.split_size_bytes)
        async with self._slots:
            async with self._prepare_turns.turn(ticket):
                first_id = await self._persist(lambda: self._prepare(plan))
                await self._persist(lambda: self._cover(first_id, plan.objects))
            new_objects = await self._upload(block, plan, first_id)
            async with self._commit_turns.turn(ticket):
                await self._persist(lambda: self._commit(plan, new_objects))
                self._blocks_committed += 1
                self._objects_committed += len(new_objects)
                await self._on_committed(block)

    async def _prepare(self, plan: UploadPlan) -> int:
        return await self._metadata.execute(
            PrepareObjects(
                count=plan.objects,
                time_limit_ms=self._settings.time_limit_ms,
                bucket_id=self._buckets.default_bucket_id,
                node_id=self._node_id,
                node_epoch=self._node_epoch,
            )
        )

    async def _cover(self, first_id: int, count: int) -> None:
        """Marks the ids in the bucket before they are used (rule 11); most are marked already."""
        if self._guard is not None:
            await self._calls.run(self._guard.cover, first_id, count, self._metadata.image.version)

    async def _upload(self, block: CacheBlock, plan: UploadPlan, first_id: int) -> list[NewObject]:
        groups = [plan.set_streams] if plan.set_streams else []
        groups += [(stream_id,) for stream_id in plan.object_streams]
        return [
            await self._put_object(block, group, object_id)
            for object_id, group in enumerate(groups, start=first_id)
        ]

    async def _put_object(self, block: CacheBlock, streams: tuple[int, ...], object_id: int) -> NewObject:
        block_size_bytes = self._settings.block_size_bytes
        encoded = await self._calls.run(encode_object, block.streams, streams, block_size_bytes)
        await self._persist(lambda: self._put(encoded, object_id))
        self._bytes_uploaded += encoded.size_bytes
        return new_object(encoded, object_id)

    async def _put(self, encoded: EncodedObject, object_id: int) -> None:
        store = self._buckets.store(self._buckets.default_bucket_id)
        await self._calls.run(store.put, object_key(object_id), encoded.buffers)

    async def _commit(self, plan: UploadPlan, new_objects: list[NewObject]) -> None:
        has_set = bool(plan.set_streams)
        await self._metadata.execute(
            CommitUpload(
                node_id=self._node_id,
                node_epoch=self._node_epoch,
                stream_set_object=new_objects[0] if has_set else None,
                stream_objects=tuple(new_objects[has_set:]),
                data_time_ms=self._clock.now_ms(),
            )
        )

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeats ``attempt`` while it raises Unavailable, at most for the time limit of prepared objects. Raises
        Unavailable after that, and every other error at once."""
        give_up_ms = self._clock.monotonic_ms() + self._settings.time_limit_ms
        while True:
            try:
                return await attempt()
            except ServiceClosed:
                raise  # the metadata service is not started again in this process
            except Unavailable as trouble:
                if self._clock.monotonic_ms() >= give_up_ms:
                    raise
                log.warning("the upload of node %d failed and will be retried: %s", self._node_id, trouble)
                await self._clock.sleep_ms(RETRY_INTERVAL_MS)
