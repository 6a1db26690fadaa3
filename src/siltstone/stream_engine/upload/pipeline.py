"""``UploadPipeline`` brings sealed blocks into the bucket: sealed block → prepare → upload → commit → trim the WAL.

Blocks are prepared and committed strictly in seal order, one at a time; their objects are uploaded concurrently.
Commits in seal order keep every stream's committed offsets contiguous (rule 3). Requests to a bucket or a metadata log
that refuses or does not answer are repeated (``outage``), and objects whose time limit has passed are prepared again.

An object id belongs to one bucket. When a put fails and another bucket takes writes, the object is prepared once more,
for that bucket, and put there; the commit of the new id releases the old one, so that the sweep deletes what the failed
put may have left. Under replication the puts into the buckets of an object run side by side, and a block is committed
when all copies of its objects are there, or as many as the strategy demands. Any other refusal of a prepare or commit
ends the pipeline: the node is fenced, or the metadata differs from what it assumes, and it must not continue. Blocks
before the one that failed are still committed; those after it are cancelled. Next: ``upload_plan``, ``upload_buckets``,
``outage``.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec

from siltstone.foundation.histogram import Histogram, HistogramCounts
from siltstone.foundation.quantity_words import counted, seconds_words, size_words
from siltstone.metadata.commands import CommitUpload, NewObject, PrepareObjects
from siltstone.metadata.refusals import BucketNotWritable, ObjectNotExist
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.limits import DAY_MS
from siltstone.model.objects import object_key
from siltstone.object_formats.object_layout import EncodedObject
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.health import WITHOUT_SUCCESS_MS
from siltstone.object_store.metadata_mark import BucketGuard
from siltstone.object_store.port import StoreDenied, StoreTransient
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup, ends_in_time
from siltstone.stream_engine.settings import UploadSettings
from siltstone.stream_engine.tail.cache_block import CacheBlock
from siltstone.stream_engine.upload.outage import METADATA_LOG, Outage, OutageWatch, PreparedTooLongAgo
from siltstone.stream_engine.upload.upload_buckets import CopyOutcome, ObjectToPut, UploadBuckets
from siltstone.stream_engine.upload.upload_plan import (
    UploadPlan,
    encode_object,
    new_object,
    plan_upload,
    stream_bytes,
)

log = logging.getLogger(__name__)

PREPARED_MS_MAX = DAY_MS
"""Objects that are prepared again get twice the time of those before them, up to a day, so that an upload which needs
longer than the time limit is not repeated for ever."""


class UploadTurns:
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
    bucket_ids: tuple[int, ...]
    copies: tuple[int, ...]
    until_ms: float
    time_limit_ms: int

    def place(self, number: int) -> "UploadPlace":
        return UploadPlace(self.first_id + number, (self.bucket_ids[number], *self.copies))


class UploadPlace(msgspec.Struct, frozen=True):
    """The id under which an object is put, and the buckets for which the id was prepared."""

    object_id: int
    bucket_ids: tuple[int, ...]


class Uploaded(msgspec.Struct, frozen=True):
    """The objects of one block, uploaded as ``prepared``. ``released``: ids under which a put failed."""

    prepared: Prepared
    new_objects: tuple[NewObject, ...]
    released: tuple[int, ...]


class UploadStatistics(msgspec.Struct, frozen=True):
    """``outage``: the reason why uploads fail now; None while they do not."""

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
        guards: Mapping[int, BucketGuard] | None = None,
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
        self._guards: Mapping[int, BucketGuard] = {} if guards is None else guards
        self.upload_buckets = UploadBuckets(metadata, buckets, self._guards, clock)
        self._on_committed = on_committed
        self._tasks = TaskGroup("upload", on_failure)
        self._watch = OutageWatch(clock, node_id, on_outage_change)
        self.is_committing = False
        """Whether a commit has begun since the pipeline was made: the caller must then wait for its outcome."""
        self._turns_taken = 0
        self._prepare_turns = UploadTurns()
        self._commit_turns = UploadTurns()
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
        """The reason why uploads fail now; None while they do not."""
        return self._watch.outage

    @property
    def progress(self) -> tuple[int, int]:
        """A number that changes whenever something was uploaded or committed."""
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
        objects = _objects_of(block, plan)
        async with self._slots:
            async with self._prepare_turns.turn(ticket):
                prepared = await self._prepare(objects, self._settings.time_limit_ms)
            uploaded = await self._upload(block, objects, prepared)
            async with self._commit_turns.turn(ticket):
                self.is_committing = True
                uploaded = await self._commit(block, objects, uploaded)
                self._blocks_committed += 1
                self._objects_committed += plan.objects
                _log_committed(block, uploaded.new_objects, self._clock.monotonic_ms() - begun_ms)
                await self._on_committed(block)

    async def _prepare(self, objects: Sequence[ObjectToPut], time_limit_ms: int) -> Prepared:
        async def attempt() -> Prepared:
            while True:
                until_ms = self._clock.monotonic_ms() + time_limit_ms
                chosen = self.upload_buckets.choose(objects)
                command = PrepareObjects(
                    count=len(objects),
                    time_limit_ms=time_limit_ms,
                    node_id=self._node_id,
                    node_epoch=self._node_epoch,
                    bucket_ids=chosen.bucket_ids,
                    copies=chosen.copies,
                )
                try:
                    first_id = await self._metadata.execute(command)
                except BucketNotWritable:
                    await self._metadata.refresh()
                else:
                    return Prepared(first_id, chosen.bucket_ids, chosen.copies, until_ms, time_limit_ms)

        if not self.upload_buckets.is_counted:
            await self._calls.run(self.upload_buckets.count_bytes)
        return await self._watch.persist(attempt, METADATA_LOG)

    async def _prepare_anew(self, objects: Sequence[ObjectToPut], before: Prepared) -> Prepared:
        log.warning(
            "objects %d to %d of node %d were not committed in time: new ones are prepared, and uploaded once more",
            before.first_id, before.first_id + len(objects) - 1, self._node_id,
        )  # fmt: skip
        time_limit_ms = max(before.time_limit_ms, min(2 * before.time_limit_ms, PREPARED_MS_MAX))
        return await self._prepare(objects, time_limit_ms)

    async def _upload(
        self, block: CacheBlock, objects: Sequence[ObjectToPut], prepared: Prepared
    ) -> Uploaded:
        while True:
            try:
                new_objects: list[NewObject] = []
                released: list[int] = []
                for number, wanted in enumerate(objects):
                    encoded = await self._calls.run(
                        encode_object, block.streams, wanted.streams, self._settings.block_size_bytes
                    )
                    put = await self._put_object(encoded, wanted, prepared, number, released)
                    new_objects.append(new_object(encoded, put.object_id, put.bucket_ids))
                return Uploaded(prepared, tuple(new_objects), tuple(released))
            except PreparedTooLongAgo:
                prepared = await self._prepare_anew(objects, prepared)

    async def _put_object(
        self,
        encoded: EncodedObject,
        wanted: ObjectToPut,
        prepared: Prepared,
        number: int,
        released: list[int],
    ) -> UploadPlace:
        """Puts the object, in other buckets if its own take no writes. Returns the id under which it was put and the
        buckets in which it is, and appends the ids under which a put failed to ``released``."""
        place = prepared.place(number)
        standing: set[int] = set()

        async def attempt() -> None:
            nonlocal place
            while not await self._is_put(encoded, wanted, place, standing):
                released.append(place.object_id)
                standing.clear()
                place = (await self._prepare([wanted], prepared.time_limit_ms)).place(0)

        begun_ms = self._clock.monotonic_ms()
        urls = " and ".join(self._buckets.store(each).url for each in place.bucket_ids)
        await self._watch.persist(
            attempt, urls, prepared.until_ms, lambda: self._buckets.are_silent(place.bucket_ids)
        )
        self._seconds.observe((self._clock.monotonic_ms() - begun_ms) / 1000)
        self._bytes_uploaded += encoded.size_bytes * len(standing)
        log.debug("object %d was uploaded: %s", place.object_id, size_words(encoded.size_bytes))
        return UploadPlace(place.object_id, tuple(each for each in place.bucket_ids if each in standing))

    async def _is_put(
        self, encoded: EncodedObject, wanted: ObjectToPut, place: UploadPlace, standing: set[int]
    ) -> bool:
        """Puts the object into the buckets where it is not yet, side by side, and adds them to ``standing``. Returns
        False if the caller has to put it into other buckets, under another id. Raises StoreTransient, StoreDenied and
        what the buckets raise if the caller has to try the same buckets again."""
        missing = [each for each in place.bucket_ids if each not in standing]
        outcomes = await asyncio.gather(
            *(self._put_in_time(encoded, place.object_id, each) for each in missing), return_exceptions=True
        )
        troubles: dict[int, SiltstoneError] = {}
        for bucket_id, outcome in zip(missing, outcomes, strict=True):
            if outcome is None:
                standing.add(bucket_id)
            elif isinstance(outcome, (Unavailable, StoreDenied)):
                troubles[bucket_id] = outcome
            else:
                raise outcome
        if not troubles:
            return True
        if len(place.bucket_ids) == 1:
            ((bucket_id, trouble),) = troubles.items()
            if self.upload_buckets.instead_of(bucket_id, wanted, trouble) is None:
                raise trouble
            return False
        after = self.upload_buckets.after_copies_failed(standing, troubles)
        if after is CopyOutcome.AGAIN:
            raise self.upload_buckets.refused_copies(troubles)
        return after is CopyOutcome.COMMIT

    async def _put_in_time(self, encoded: EncodedObject, object_id: int, bucket_id: int) -> None:
        """Puts the object; gives up after WITHOUT_SUCCESS_MS if other buckets could take it. Raises StoreTransient,
        and what the bucket raises."""
        put = self._put(encoded, object_id, bucket_id)
        if not self.upload_buckets.has_enough_without(bucket_id):
            await put
        elif not await ends_in_time(put, self._clock, WITHOUT_SUCCESS_MS):
            raise StoreTransient(
                f"object {object_id} was not put in {seconds_words(WITHOUT_SUCCESS_MS / 1000)}"
            )

    async def _put(self, encoded: EncodedObject, object_id: int, bucket_id: int) -> None:
        """Marks the id in the bucket before it is used (rule 11), which most ids are already, and puts the object."""
        guard = self._guards.get(bucket_id)
        if guard is not None:
            await self._calls.run(guard.cover, object_id, 1, self._metadata.image)
        store = self._buckets.store(bucket_id)
        await self._calls.run(store.put, object_key(object_id), encoded.buffers)

    async def _commit(
        self, block: CacheBlock, objects: Sequence[ObjectToPut], uploaded: Uploaded
    ) -> Uploaded:
        """Commits the objects. If a sweep has destroyed them in the meantime, by the clock of its machine, the block is
        uploaded once more. A commit that was done is never refused for this reason (``decide_commit_upload``)."""
        while True:
            if self._clock.monotonic_ms() < uploaded.prepared.until_ms:
                with suppress(ObjectNotExist):
                    await self._watch.persist(partial(self._commit_once, objects, uploaded), METADATA_LOG)
                    return uploaded
            anew = await self._prepare_anew(objects, uploaded.prepared)
            uploaded = await self._upload(block, objects, anew)

    async def _commit_once(self, objects: Sequence[ObjectToPut], uploaded: Uploaded) -> None:
        has_set = objects[0].is_set
        await self._metadata.execute(
            CommitUpload(
                node_id=self._node_id,
                node_epoch=self._node_epoch,
                stream_set_object=uploaded.new_objects[0] if has_set else None,
                stream_objects=uploaded.new_objects[has_set:],
                data_time_ms=self._clock.now_ms(),
                released=uploaded.released,
            )
        )


def _objects_of(block: CacheBlock, plan: UploadPlan) -> list[ObjectToPut]:
    """Returns the objects of a block, the stream set object first, if there is one."""

    def of(streams: tuple[int, ...], *, is_set: bool) -> ObjectToPut:
        size_bytes = sum(stream_bytes(block.streams[stream_id]) for stream_id in streams)
        return ObjectToPut(streams, is_set, size_bytes)

    sets = [of(plan.set_streams, is_set=True)] if plan.set_streams else []
    return [*sets, *(of((stream_id,), is_set=False) for stream_id in plan.object_streams)]
