"""The upload pipeline: sealed block → prepare → upload → commit → trim the WAL.

Blocks are prepared and committed strictly in seal order, one at a time; their objects are uploaded concurrently.
Commits in seal order keep every stream's committed offsets contiguous (rule 3). A bucket or a metadata log that refuses
or does not answer is asked again (``outage``), and objects whose time limit has passed are prepared anew. Any other
refusal of a prepare or commit ends the pipeline: the node is fenced, or the metadata differs from what it assumes, and
it must not continue. Blocks before the one that failed are still committed; those after it are cancelled.
Next: ``upload_plan``, ``outage``.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec

from siltstone.foundation.histogram import Histogram, HistogramCounts
from siltstone.foundation.quantity_words import counted, seconds_words, size_words
from siltstone.metadata.commands import CommitUpload, NewObject, PrepareObjects
from siltstone.metadata.refusals import ObjectNotExist
from siltstone.metadata.service import MetadataService
from siltstone.model.limits import DAY_MS
from siltstone.model.objects import object_key
from siltstone.object_formats.object_layout import EncodedObject
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.object_store.port import ObjectStore
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.settings import UploadSettings
from siltstone.stream_engine.tail.cache_block import CacheBlock
from siltstone.stream_engine.upload.outage import METADATA_LOG, Outage, OutageWatch, PreparedTooLongAgo
from siltstone.stream_engine.upload.upload_plan import UploadPlan, encode_object, new_object, plan_upload

log = logging.getLogger(__name__)

PREPARED_MS_MAX = DAY_MS
"""Objects that are prepared anew get twice the time of those before them, up to a day: an upload that needs longer than
the time limit is not repeated for ever."""


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


class Prepared(msgspec.Struct, frozen=True):
    """Objects that were prepared for one block; after ``until_ms``, by the monotonic clock, they may be given up."""

    first_id: int
    until_ms: float
    time_limit_ms: int


class UploadStatistics(msgspec.Struct, frozen=True):
    """``outage``: what stops the uploads now; None while nothing does."""

    blocks_in_flight: int
    blocks_committed: int
    objects_committed: int
    bytes_uploaded: int
    outage: Outage | None
    upload_seconds: HistogramCounts = HistogramCounts()
    """From the first attempt of an object's upload to its success."""


def _log_committed(block: CacheBlock, new_objects: Sequence[NewObject], took_ms: float) -> None:
    log.info(
        "uploaded and committed %s, %s of %s, in %s",
        counted(len(new_objects), "object"),
        size_words(sum(each.size_bytes for each in new_objects)),
        counted(len(block.streams), "stream"),
        seconds_words(took_ms / 1000),
    )


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
        on_outage_change: Callable[[], None] = lambda: None,
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
        self._watch = OutageWatch(clock, node_id, on_outage_change)
        self.is_committing = False
        """Whether a commit has begun since the pipeline was made: what it changes may then not be given up."""
        self._turns_taken = 0
        self._prepare_turns = Turns()
        self._commit_turns = Turns()
        self._slots = asyncio.Semaphore(settings.uploads_in_flight_max)
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._blocks_committed = self._objects_committed = self._bytes_uploaded = 0
        self._seconds = Histogram()

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

    @property
    def outage(self) -> Outage | None:
        """What stops the uploads now; None while nothing does."""
        return self._watch.outage

    @property
    def progress(self) -> tuple[int, int]:
        """Changes whenever something was uploaded or committed."""
        return self._bytes_uploaded, self._blocks_committed

    def statistics(self) -> UploadStatistics:
        return UploadStatistics(
            blocks_in_flight=len(self._in_flight),
            blocks_committed=self._blocks_committed,
            objects_committed=self._objects_committed,
            bytes_uploaded=self._bytes_uploaded,
            outage=self.outage,
            upload_seconds=self._seconds.counts(),
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
        begun_ms = self._clock.monotonic_ms()
        plan = plan_upload(block.streams, self._settings.split_size_bytes)
        async with self._slots:
            async with self._prepare_turns.turn(ticket):
                prepared = await self._prepare(plan, self._settings.time_limit_ms)
            prepared, new_objects = await self._upload(block, plan, prepared)
            async with self._commit_turns.turn(ticket):
                self.is_committing = True
                await self._commit(block, plan, prepared, new_objects)
                self._blocks_committed += 1
                self._objects_committed += plan.objects
                _log_committed(block, new_objects, self._clock.monotonic_ms() - begun_ms)
                await self._on_committed(block)

    async def _prepare(self, plan: UploadPlan, time_limit_ms: int) -> Prepared:
        async def attempt() -> Prepared:
            until_ms = self._clock.monotonic_ms() + time_limit_ms
            command = PrepareObjects(
                count=plan.objects,
                time_limit_ms=time_limit_ms,
                bucket_id=self._buckets.default_bucket_id,
                node_id=self._node_id,
                node_epoch=self._node_epoch,
            )
            return Prepared(await self._metadata.execute(command), until_ms, time_limit_ms)

        return await self._watch.persist(attempt, METADATA_LOG)

    async def _prepare_anew(self, plan: UploadPlan, before: Prepared) -> Prepared:
        log.warning(
            "objects %d to %d of node %d were not committed in time: new ones are prepared, and uploaded once more",
            before.first_id, before.first_id + plan.objects - 1, self._node_id,
        )  # fmt: skip
        time_limit_ms = max(before.time_limit_ms, min(2 * before.time_limit_ms, PREPARED_MS_MAX))
        return await self._prepare(plan, time_limit_ms)

    async def _cover(self, prepared: Prepared, count: int) -> None:
        """Marks the ids in the bucket before they are used (rule 11); most are marked already."""
        guard = self._guard
        if guard is not None:
            version, url = (
                self._metadata.image.version,
                self._buckets.store(self._buckets.default_bucket_id).url,
            )
            await self._watch.persist(
                lambda: self._calls.run(guard.cover, prepared.first_id, count, version),
                url,
                prepared.until_ms,
            )

    async def _upload(
        self, block: CacheBlock, plan: UploadPlan, prepared: Prepared
    ) -> tuple[Prepared, list[NewObject]]:
        """Uploads the objects of the block. → Their metadata, and the prepared objects that they became."""
        groups = [plan.set_streams] if plan.set_streams else []
        groups += [(stream_id,) for stream_id in plan.object_streams]
        while True:
            try:
                await self._cover(prepared, plan.objects)
                return prepared, [
                    await self._put_object(block, group, object_id, prepared.until_ms)
                    for object_id, group in enumerate(groups, start=prepared.first_id)
                ]
            except PreparedTooLongAgo:
                prepared = await self._prepare_anew(plan, prepared)

    async def _put_object(
        self, block: CacheBlock, streams: tuple[int, ...], object_id: int, until_ms: float
    ) -> NewObject:
        block_size_bytes = self._settings.block_size_bytes
        encoded = await self._calls.run(encode_object, block.streams, streams, block_size_bytes)
        store = self._buckets.store(self._buckets.default_bucket_id)
        begun_ms = self._clock.monotonic_ms()
        await self._watch.persist(lambda: self._put(store, encoded, object_id), store.url, until_ms)
        self._seconds.observe((self._clock.monotonic_ms() - begun_ms) / 1000)
        self._bytes_uploaded += encoded.size_bytes
        log.debug("object %d was uploaded: %s", object_id, size_words(encoded.size_bytes))
        return new_object(encoded, object_id)

    async def _put(self, store: ObjectStore, encoded: EncodedObject, object_id: int) -> None:
        await self._calls.run(store.put, object_key(object_id), encoded.buffers)

    async def _commit(
        self, block: CacheBlock, plan: UploadPlan, prepared: Prepared, new_objects: list[NewObject]
    ) -> None:
        """Commits the objects. If they were given up in the meantime, which a maintainer does by its own clock, the
        block is uploaded once more. A commit that was done is never refused so (``decide_commit_upload``)."""
        while True:
            if self._clock.monotonic_ms() < prepared.until_ms:
                with suppress(ObjectNotExist):
                    await self._watch.persist(partial(self._commit_once, plan, new_objects), METADATA_LOG)
                    return
            anew = await self._prepare_anew(plan, prepared)
            prepared, new_objects = await self._upload(block, plan, anew)

    async def _commit_once(self, plan: UploadPlan, new_objects: list[NewObject]) -> None:
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
