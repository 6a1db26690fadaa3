"""Reading batches that are committed: image → ranges → indexes → blocks → batches.

Nothing here is ever skipped in silence: a block that is damaged, an index that lacks what the metadata promises and
an object that is gone are errors with names. What precedes the fault in one read is returned; the read that begins at
the fault raises it.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import find_ranges
from siltstone.model.errors import CorruptData, SiltstoneError, Unavailable
from siltstone.model.record_batch import RecordBatch
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.port import ObjectNotFound
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.reading.answer import Answer
from siltstone.stream_engine.reading.block_cache import Block, BlockCache, BlockCacheStatistics
from siltstone.stream_engine.reading.block_fetcher import BlockFetcher, FetchStatistics, PromisedBlock
from siltstone.stream_engine.reading.index_cache import IndexCache, IndexCacheStatistics
from siltstone.stream_engine.reading.read_ahead import ReadAhead, SequentialReaders
from siltstone.stream_engine.reading.read_plan import PlannedBlock, blocks_wanted, ranges_wanted
from siltstone.stream_engine.settings import ReadSettings

REFRESHES_MAX = 2
"""How often one read looks for a newer image because an object is gone: compacted and swept under our feet."""

RANGES_PER_PLAN_MAX = 256
"""Ranges looked at in one step of a read: many small ones before compaction, one or two after it."""


class ObjectMissing(CorruptData):
    """The bucket lacks an object that the newest metadata names."""


class ReaderClosed(Unavailable):
    """The reader was closed, or has failed."""


class ReadStatistics(msgspec.Struct, frozen=True):
    reads: int
    refreshes: int
    sequential_readers: int
    blocks: BlockCacheStatistics
    indexes: IndexCacheStatistics
    fetches: FetchStatistics


class CommittedReader:
    """Of one event loop. ``image`` gives the newest image this process has, ``refresh`` waits for a newer one."""

    def __init__(
        self,
        buckets: Buckets,
        image: Callable[[], MetadataImage],
        refresh: Callable[[], Awaitable[object]],
        calls: BlockingCalls,
        clock: Clock,
        settings: ReadSettings,
    ) -> None:
        self._image = image
        self._refresh = refresh
        self._tasks = TaskGroup("committed-reader", self._fail)
        self._cache = BlockCache(settings.block_cache_bytes_max)
        self._indexes = IndexCache(buckets, calls, self._tasks, settings.index_cache_bytes_max)
        self._fetcher = BlockFetcher(buckets, self._cache, calls, self._tasks, settings)
        self._readers = SequentialReaders(settings, clock)
        self._reads = 0
        self._refreshes = 0
        self._closed: ReaderClosed | None = None

    async def read(
        self, stream_id: int, start_offset: int, end_offset: int, bytes_max: int
    ) -> list[RecordBatch]:
        """Batches of [start, end) in order, payloads together within ``bytes_max`` but at least one batch.

        The first holds ``start_offset``, or is the next one where offsets were removed; the last may end after
        ``end_offset``. Empty when the image covers nothing at ``start_offset``, or all of [start, end) was removed:
        ``covers`` tells which. Payloads are views into cached blocks: copy what is kept for long. Raises
        StreamNotExist, OffsetOutOfRange, DamagedBlock, IndexNotMatched, DamagedIndex, DamagedFooter, ObjectMissing,
        ReaderClosed and what the store raises.
        """
        if self._closed is not None:
            raise self._closed
        self._reads += 1
        ahead = self._readers.take(stream_id, start_offset)
        answer = Answer(start_offset, end_offset, bytes_max)
        try:
            await self._fill(answer, stream_id, ahead)
        except SiltstoneError:
            if not answer.batches:
                raise
        self._readers.keep(stream_id, answer.next_offset, ahead)
        return answer.batches

    def covers(self, stream_id: int, start_offset: int, end_offset: int) -> bool:
        """Whether objects hold all of [start, end), be it that key compaction left nothing of it.

        Raises StreamNotExist, OffsetOutOfRange.
        """
        ranges = find_ranges(self._image(), stream_id, start_offset, end_offset)
        return bool(ranges) and ranges[-1].end_offset >= end_offset

    async def close(self) -> None:
        """Whoever still waits gets ReaderClosed."""
        if self._closed is None:
            self._closed = ReaderClosed("this reader of committed data is closed")
        await self._tasks.cancel()
        self._end_waits(self._closed)

    def statistics(self) -> ReadStatistics:
        return ReadStatistics(
            reads=self._reads,
            refreshes=self._refreshes,
            sequential_readers=len(self._readers),
            blocks=self._cache.statistics(),
            indexes=self._indexes.statistics(),
            fetches=self._fetcher.statistics(),
        )

    async def _fill(self, answer: Answer, stream_id: int, ahead: ReadAhead) -> None:
        refreshes_left = REFRESHES_MAX
        while not answer.is_full:
            try:
                if not await self._advance(answer, stream_id, ahead):
                    return
            except ObjectNotFound as gone:
                if refreshes_left == 0:
                    raise ObjectMissing(
                        f"offset {answer.next_offset} of stream {stream_id}: {gone}, and the newest metadata still"
                        " names it: run siltstone check"
                    ) from gone
                refreshes_left -= 1
                self._refreshes += 1
                await self._refresh()

    async def _advance(self, answer: Answer, stream_id: int, ahead: ReadAhead) -> bool:
        """One step: the blocks that the bytes left should take. False when the image covers no more."""
        image = self._image()
        planned = await self._plan(image, stream_id, answer.next_offset, answer.end_offset, answer.bytes_left)
        if not planned:
            return False
        promised = self._fetcher.fetch(planned, image.objects)
        self._begin_read_ahead(stream_id, planned[-1].entry.end_offset, ahead)
        for promise in promised:
            block = await _arrived(promise)
            has_passed_end = answer.take(block)
            self._cache.mark_read(block)
            if has_passed_end and ahead.is_sequential:
                self._cache.mark_finished(block)
            if answer.is_full:
                break
        return True

    async def _plan(
        self, image: MetadataImage, stream_id: int, start: int, end: int | None, bytes_wanted: int
    ) -> list[PlannedBlock]:
        covering = find_ranges(image, stream_id, start, end, RANGES_PER_PLAN_MAX)
        ranges = ranges_wanted(covering, start, bytes_wanted)
        indexes = await self._indexes.get_all(image.objects[held.object_id] for held in ranges)
        return blocks_wanted(ranges, indexes, start, end, bytes_wanted)

    def _begin_read_ahead(self, stream_id: int, planned_end: int, ahead: ReadAhead) -> None:
        if not ahead.is_sequential or ahead.is_fetching:
            return
        bytes_wanted = ahead.bytes_to_fetch(planned_end)
        if bytes_wanted > 0:
            ahead.is_fetching = True
            start = max(planned_end, ahead.until_offset)
            self._tasks.start(
                f"read-ahead-{stream_id}", self._fetch_ahead(stream_id, start, bytes_wanted, ahead)
            )

    async def _fetch_ahead(self, stream_id: int, start: int, bytes_wanted: int, ahead: ReadAhead) -> None:
        try:
            image = self._image()
            planned = await self._plan(image, stream_id, start, None, bytes_wanted)
            self._fetcher.fetch_ahead(planned, image.objects, ahead)
        except SiltstoneError:
            ahead.give_up()  # the read that wants these blocks will meet the error itself
        finally:
            ahead.is_fetching = False

    def _fail(self, failure: BaseException) -> None:
        """A task ended with what is no error of the store: a bug. No read is answered after it."""
        self._closed = ReaderClosed(f"reading committed data has failed: {failure!r}")
        self._end_waits(self._closed)

    def _end_waits(self, reason: ReaderClosed) -> None:
        self._indexes.close(reason)
        self._fetcher.close(reason)


async def _arrived(promise: PromisedBlock) -> Block:
    return promise if isinstance(promise, Block) else await asyncio.shield(promise)
