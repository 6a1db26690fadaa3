"""Reads committed batches: image → ranges → indexes → blocks → batches.

Nothing is skipped silently: for a damaged block, an index that lacks offsets named by the metadata, or a missing
object, the read raises DamagedRange, which says where the damage ends. A read returns the batches before the damage;
the read that begins at the damage raises the error. Damage is not remembered: when the object is restored, the next
read succeeds. Next: ``read_plan``, ``block_fetcher``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile

import msgspec

from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import find_ranges
from siltstone.model.errors import CorruptData, SiltstoneError, Unavailable
from siltstone.model.limits import KIB, TAIL_READ_BYTES_MAX
from siltstone.model.objects import ObjectRange
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import DamagedFrame
from siltstone.object_formats.block_index import DamagedBlock
from siltstone.object_store.bandwidth.limiter import LimiterStatistics, no_limit
from siltstone.object_store.bandwidth.turns import Direction, Grade
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.port import ObjectNotFound, ObjectStore
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.errors import DamagedRange
from siltstone.stream_engine.reading.answer import Answer
from siltstone.stream_engine.reading.block_cache import Block, BlockCache, BlockCacheStatistics
from siltstone.stream_engine.reading.block_fetcher import BlockFetcher, FetchStatistics, PromisedBlock
from siltstone.stream_engine.reading.index_cache import IndexCache, IndexCacheStatistics
from siltstone.stream_engine.reading.read_ahead import ReadAhead, SequentialReaders
from siltstone.stream_engine.reading.read_plan import (
    IndexNotMatched,
    PlannedBlock,
    blocks_wanted,
    bytes_from,
    ranges_wanted,
)
from siltstone.stream_engine.settings import ReadSettings

REFRESHES_MAX = 2
"""How often one read refreshes the image and reads again because an object is missing or damaged: it may have been
compacted and deleted since, and bytes may have been damaged only on their way."""

RANGES_PER_PLAN_MAX = 256
"""The most ranges considered in one step of a read. Before compaction a read needs many small ones, afterwards one or
two."""


GIVING_WAY_BYTES_MAX = 512 * KIB
"""While catch-up reads give way, each returns about a block, so that appends can use the event loop between two blocks:
copying an answer of some MiB into a socket blocks the loop for milliseconds."""


class BucketNotThere(Unavailable):
    """An object is missing, and so is the marker of its bucket: the bucket is not mounted, or it was emptied."""

    def __init__(self, bucket_id: int, gone: ObjectNotFound) -> None:
        super().__init__(
            f"{gone}, nor the marker of bucket {bucket_id}: mount the bucket again, or restore what was in it"
        )
        self.bucket_id = bucket_id


class ReaderClosed(Unavailable):
    """The reader was closed or has failed."""


class ReadStatistics(msgspec.Struct, frozen=True):
    reads: int
    refreshes: int
    sequential_readers: int
    blocks: BlockCacheStatistics
    indexes: IndexCacheStatistics
    fetches: FetchStatistics
    catch_up: LimiterStatistics


class CommittedReader:
    """Belongs to one event loop. ``image`` returns the newest image of this process; ``refresh`` reads the metadata
    log, after which ``image`` is current. ``is_there`` says whether a bucket can be reached; it is called before an
    object is reported as missing."""

    def __init__(
        self,
        buckets: Buckets,
        image: Callable[[], MetadataImage],
        refresh: Callable[[], Awaitable[object]],
        calls: BlockingCalls,
        clock: Clock,
        settings: ReadSettings,
        is_there: Callable[[ObjectStore], bool] = lambda _: True,
    ) -> None:
        self._buckets = buckets
        self._calls = calls
        self._is_there = is_there
        self._image = image
        self._refresh = refresh
        self._tasks = TaskGroup("committed-reader", self._fail)
        self._cache = BlockCache(settings.block_cache_bytes_max)
        self._indexes = IndexCache(buckets, calls, self._tasks, settings.index_cache_bytes_max, clock)
        self.catch_up = no_limit(clock)
        """The limiter of catch-up reads only, by which they give way to appends."""
        self._fetcher = BlockFetcher(buckets, self._cache, calls, self._tasks, settings, clock, self.catch_up)
        self._readers = SequentialReaders(settings, clock)
        self._reads = 0
        self._refreshes = 0
        self._closed: ReaderClosed | None = None

    async def read(
        self, stream_id: int, start_offset: int, end_offset: int, bytes_max: int
    ) -> list[RecordBatch]:
        """Returns the batches of [start, end) in order: at least one, and otherwise payloads of at most ``bytes_max``.

        The first batch holds ``start_offset``, or is the next one if key compaction has removed that offset; the last
        may end after ``end_offset``. The list is empty when no object holds ``start_offset``, or when key compaction
        has removed all of [start, end); ``covers`` distinguishes the two. Payloads are views into cached blocks: a
        caller that keeps one for long copies it. Raises StreamNotExist, OffsetOutOfRange, DamagedRange, ReaderClosed
        and the errors of the object store.
        """
        if self._closed is not None:
            raise self._closed
        self._reads += 1
        ahead = self._readers.take(stream_id, start_offset)
        if self.catch_up.is_limited(Direction.IN):
            bytes_max = self._giving_way(stream_id, start_offset, end_offset, bytes_max)
        answer = Answer(start_offset, end_offset, bytes_max)
        try:
            await self._fill(answer, stream_id, ahead)
        except SiltstoneError:
            if not answer.batches:
                raise
        self._readers.keep(stream_id, answer.next_offset, ahead)
        return answer.batches

    def covers(self, stream_id: int, start_offset: int, end_offset: int) -> bool:
        """Returns whether objects hold all of [start, end), even if key compaction has removed every record of it.

        Raises StreamNotExist, OffsetOutOfRange.
        """
        ranges = find_ranges(self._image(), stream_id, start_offset, end_offset)
        return bool(ranges) and ranges[-1].end_offset >= end_offset

    async def close(self) -> None:
        """Closes the reader; reads that are under way raise ReaderClosed."""
        if self._closed is None:
            self._closed = ReaderClosed("the reader of committed data is closed")
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
            catch_up=self.catch_up.statistics(),
        )

    def _giving_way(self, stream_id: int, start_offset: int, end_offset: int, bytes_max: int) -> int:
        """Returns how many bytes the read may return while catch-up reads give way to appends. Raises StreamNotExist,
        OffsetOutOfRange."""
        covering = find_ranges(self._image(), stream_id, start_offset, end_offset, RANGES_PER_PLAN_MAX)
        is_catch_up = grade_of_read(covering, start_offset) is Grade.CATCH_UP_READ
        return min(bytes_max, GIVING_WAY_BYTES_MAX) if is_catch_up else bytes_max

    async def _fill(self, answer: Answer, stream_id: int, ahead: ReadAhead) -> None:
        refreshes_left = REFRESHES_MAX
        while not answer.is_full:
            try:
                if not await self._advance(answer, stream_id, ahead):
                    return
            except (ObjectNotFound, CorruptData) as damage:
                if refreshes_left == 0:
                    raise await self._damaged_range(stream_id, answer.next_offset, damage) from damage
                refreshes_left -= 1
                self._refreshes += 1
                await self._refresh()
                if isinstance(damage, IndexNotMatched):
                    self._indexes.forget(damage.object_id)

    async def _damaged_range(self, stream_id: int, offset: int, damage: SiltstoneError) -> SiltstoneError:
        """Makes the error for a read that stopped at ``offset``. The damage ends with the damaged block, or with the
        object's range of the stream. Raises StreamNotExist and OffsetOutOfRange if the stream was deleted or trimmed
        meanwhile."""
        image = self._image()
        held = next(iter(find_ranges(image, stream_id, offset, None, 1)), None)
        if held is None:
            return damage
        end_offset = held.end_offset
        if isinstance(damage, DamagedBlock):
            end_offset = damage.entry.end_offset
        elif isinstance(damage, IndexNotMatched):
            end_offset = damage.end_offset
        bucket_id = image.objects[held.object_id].bucket_id
        if isinstance(damage, ObjectNotFound):
            is_there = await self._calls.run(self._is_there, self._buckets.store(bucket_id))
            if not is_there:
                return BucketNotThere(bucket_id, damage)
        return DamagedRange(stream_id, offset, end_offset, held.object_id, bucket_id, damage)

    async def _advance(self, answer: Answer, stream_id: int, ahead: ReadAhead) -> bool:
        """Does one step of a read: fetches as many blocks as the remaining bytes should need, and takes their batches.
        Returns False when no object holds the next offset."""
        image = self._image()
        covering = find_ranges(image, stream_id, answer.next_offset, answer.end_offset, RANGES_PER_PLAN_MAX)
        planned = await self._plan(image, covering, answer.next_offset, answer.end_offset, answer.bytes_left)
        if not planned:
            return False
        promised = self._fetcher.fetch(planned, image.objects, grade_of_read(covering, answer.next_offset))
        self._begin_read_ahead(stream_id, planned[-1].entry.end_offset, ahead)
        for promise in promised:
            block = await _arrived(promise)
            has_passed_end = _taken(answer, block)
            self._cache.mark_read(block)
            if has_passed_end and ahead.is_sequential:
                self._cache.mark_finished(block)
            if answer.is_full:
                break
        return True

    async def _plan(
        self,
        image: MetadataImage,
        covering: Sequence[ObjectRange],
        start: int,
        end: int | None,
        bytes_wanted: int,
    ) -> list[PlannedBlock]:
        ranges = ranges_wanted(covering, start, bytes_wanted)
        indexes = await self._indexes.get_leading(image.objects[held.object_id] for held in ranges)
        readable = list(takewhile(lambda held: held.object_id in indexes, ranges))
        return blocks_wanted(readable, indexes, start, end, bytes_wanted)

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
            covering = find_ranges(image, stream_id, start, None, RANGES_PER_PLAN_MAX)
            planned = await self._plan(image, covering, start, None, bytes_wanted)
            self._fetcher.fetch_ahead(planned, image.objects, ahead)
        except SiltstoneError:
            ahead.give_up()  # the read that needs these blocks will raise the error itself
        finally:
            ahead.is_fetching = False

    def _fail(self, failure: BaseException) -> None:
        """Is called when a task has failed with an unexpected error, which is a bug. Every later read raises
        ReaderClosed."""
        self._closed = ReaderClosed(
            f"the reader of committed data has failed: {failure!r}; restart the process"
        )
        self._end_waits(self._closed)

    def _end_waits(self, reason: ReaderClosed) -> None:
        self._indexes.close(reason)
        self._fetcher.close(reason)


def grade_of_read(covering: Sequence[ObjectRange], start_offset: int) -> Grade:
    """Returns TAIL_READ if little is left to read from ``start_offset`` on, otherwise CATCH_UP_READ. ``covering`` has
    at most RANGES_PER_PLAN_MAX ranges, so a full list counts as much."""
    bytes_left = sum(bytes_from(held, start_offset) for held in covering)
    is_far = bytes_left > TAIL_READ_BYTES_MAX or len(covering) >= RANGES_PER_PLAN_MAX
    return Grade.CATCH_UP_READ if is_far else Grade.TAIL_READ


def _taken(answer: Answer, block: Block) -> bool:
    """Does the same as Answer.take. Raises DamagedBlock if the block has the right checksum, but does not consist of
    frames."""
    try:
        return answer.take(block)
    except DamagedFrame as damage:
        raise DamagedBlock(block.entry, block.object_id, f"holds no batches: {damage}") from damage


async def _arrived(promise: PromisedBlock) -> Block:
    return promise if isinstance(promise, Block) else await asyncio.shield(promise)
