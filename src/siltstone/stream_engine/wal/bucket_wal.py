"""Keeps the write-ahead log in a bucket: puts bulks of records under ``<node epoch>/<seq>``, each only if no object has
that key yet.

A *bulk* takes what was appended since the one before; ``put_pace`` says when it leaves. Several puts are under way at a
time; appends are answered in the order of their bulks. The put itself is the fence: another process that takes the log
over seals each earlier life at its first free seq (``runs``), so a put of that life fails there, and objects behind the
seal are never acknowledged. No lease is renewed in the bucket, and an idle log makes no requests.

While the bucket refuses or does not answer, puts are retried and appends wait; ``trouble`` then has the reason. Objects
whose records are all committed are deleted from time to time. An idle log puts one empty bulk for that: its header says
which objects are kept. Next: ``bucket_log``.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import count
from math import inf
from typing import Any

from siltstone.foundation.histogram import Histogram
from siltstone.model.buffers import Buffer
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import SECOND_MS
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.identity import LogIdentity, encode_log_identity
from siltstone.object_formats.log_file import (
    RECORD_HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    WalRecord,
    encode_record_header,
)
from siltstone.object_formats.wal_object import WalObjectKind, wal_prefix
from siltstone.object_store.port import ObjectAlreadyExists, ObjectStore, StoreDenied, StoreTransient
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, random_token
from siltstone.runtime.tasks import TaskGroup, ends_while_it_progresses
from siltstone.stream_engine.settings import WalSettings
from siltstone.stream_engine.wal.bucket_log import EMPTY_LOG, BucketLog, Bulk
from siltstone.stream_engine.wal.port import (
    ConditionalPutIgnored,
    QueuedAppend,
    WalInUse,
    WalSealed,
    WalStatistics,
    WalWriteFailed,
)
from siltstone.stream_engine.wal.put_pace import PutPace
from siltstone.stream_engine.wal.runs import Place, deletable, kept_place

RETRY_MS_MIN = 100
RETRY_MS_MAX = 5 * SECOND_MS
"""The waits between the attempts of a put, which double. Each attempt has retries of its own (``RetryingStore``)."""

HANGS_MS = 5 * SECOND_MS
HANG_LOGGED_INTERVAL_MS = 30 * SECOND_MS
"""A put that takes this long is logged, and again after the interval."""

DELETE_INTERVAL_MS = 10 * SECOND_MS
DELETE_KEYS = 100
"""Committed objects are deleted after this time, or when there are this many."""

CLOSE_STALLED_MS_MAX = 1 * SECOND_MS
"""Closing the log does not wait for a bucket that has answered no put for this long. The records of such a put were not
acknowledged, or the engine has waited for them before."""

log = logging.getLogger(__name__)


class BucketWriteAheadLog:
    """The log of one node in one bucket. ``calls`` must have a thread for each put that may be under way, and one
    more."""

    def __init__(
        self,
        store: ObjectStore,
        store_id: str,
        node_id: int,
        settings: WalSettings,
        calls: BlockingCalls,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._place_in_words = f"{wal_prefix(node_id)} of {store.url}"
        self._log = BucketLog(store, store_id, node_id, calls, clock, random_token(rng))
        self._earlier = EMPTY_LOG
        self._identity: LogIdentity | None = None
        self._node_epoch = -1
        self._seqs = count(1)
        self._answered_seq = 1
        self._queue: list[Buffer] = []
        self._queue_sizes: list[int] = []
        self._queued_bytes = 0
        self._pace = PutPace(settings.puts_per_hour_max)
        self._next_position = self._durable_position = self._trimmed_position = 0
        self._in_flight: deque[Bulk] = deque()
        self._objects: deque[tuple[Place, int]] = deque()
        self._newest_record_place: Place = (-1, -1)
        self._needless: list[Place] = []
        self._kept_answered: Place = (-1, -1)
        self._slots = asyncio.Semaphore(settings.bulks_in_flight_max)
        self._wake, self._answered, self._cleaning = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._closing = self._has_failed = False
        self._trouble = self._cause = ""
        self._said_ms, self._is_said = -inf, False
        self._on_durable: Callable[[int], None] = lambda _: None
        self._on_failure: Callable[[BaseException], None] = lambda _: None
        self._tasks = TaskGroup("wal", self._failed)
        self._timers = TaskGroup("wal", self._failed)
        self._appends = self._bulks = self._bytes_written = 0
        self._put_seconds = Histogram()

    # -- identity ----------------------------------------------------------------------------------------

    async def identity(self) -> LogIdentity | None:
        return self._identity or await self._log.identity(await self._log.lives())

    async def is_empty(self) -> bool:
        return not await self._log.holds_records()

    async def newest_record(self) -> WalRecord | None:
        return await self._log.newest_record()

    async def claim(self, identity: LogIdentity) -> None:
        """Raises WalInUse, ConditionalPutIgnored, StoreTransient, StoreDenied."""
        if self._identity is None:
            await self._claim_first(identity)
        else:
            await self._put_and_wait(WalObjectKind.CLAIM, [encode_log_identity(identity)])
        self._identity = identity

    async def _claim_first(self, identity: LogIdentity) -> None:
        """Puts the claim at seq 0, then once more, with other bytes: a bucket that does not refuse the second put does
        not fence."""
        place = identity.node_epoch, 0
        kept = self._objects[0][0] if self._objects else place
        try:
            await self._put_claim(self._log, identity, place, kept)
        except ObjectAlreadyExists:
            raise WalInUse(
                f"the write-ahead log {self._place_in_words} has a claim of node epoch {identity.node_epoch} already: "
                "another process uses it with another copy of the metadata; stop that process first"
            ) from None
        try:
            await self._put_claim(
                self._log.of_another_process(random_token(self._rng)), identity, place, kept
            )
        except ObjectAlreadyExists:
            pass
        else:
            raise ConditionalPutIgnored(
                f"{self._log.store.url} ignores If-None-Match: it replaced an object although it was asked not to, so "
                "it cannot hold a write-ahead log; use another server, or engine.wal.location=file"
            )
        self._kept_answered = kept

    async def _put_claim(self, through: BucketLog, identity: LogIdentity, place: Place, kept: Place) -> None:
        buffers = through.encoded(
            WalObjectKind.CLAIM, place, [encode_log_identity(identity)],
            first_position=self._next_position, trimmed_position=self._trimmed_position, kept=kept,
        )  # fmt: skip
        await through.put(place, buffers)

    # -- an earlier start --------------------------------------------------------------------------------

    async def fence(self, node_epoch: int) -> None:
        """Raises DamagedWal, WalOfAnotherStore, WalOfAnotherNode, StoreTransient, StoreDenied."""
        self._earlier = sealed = await self._log.seal(node_epoch, self._log.node_id)
        self._next_position = self._durable_position = sealed.end_position
        self._trimmed_position = sealed.trimmed_position
        self._needless = list(sealed.others)

    async def recover(self) -> AsyncIterator[list[WalRecord]]:
        self._objects.clear()
        async for found in self._log.bulks(self._earlier):
            self._objects.append((found.place, found.end_position))
            if found.records:
                self._newest_record_place = found.place
                yield found.records

    async def reset(self) -> None:
        """Resets the log. Objects are deleted later, when the claim of this life says that none is kept."""
        self._needless += [
            (run.node_epoch, seq) for run in self._earlier.runs for seq in run.seqs
        ]  # fmt: skip
        self._objects.clear()
        self._earlier = EMPTY_LOG
        self._trimmed_position = self._next_position

    # -- this start --------------------------------------------------------------------------------------

    async def start(
        self,
        node_epoch: int,
        on_durable: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
        carried_end: int = 0,
    ) -> None:
        assert self._identity is not None and self._identity.node_epoch == node_epoch, (
            "the log was not claimed"
        )
        assert not self._objects or carried_end, "the log was neither carried nor reset"
        self._node_epoch = node_epoch
        self._on_durable, self._on_failure = on_durable, on_failure
        self._next_position = self._durable_position = max(self._next_position, carried_end)
        self._tasks.start("cut", self._cut_bulks())
        self._timers.start("delete", self._delete_from_time_to_time())
        self._timers.start("hangs", self._say_when_the_bucket_hangs())
        self._cleaning.set()

    def append(self, batch: RecordBatch, metadata_version: int) -> QueuedAppend:
        assert not self._closing
        header = encode_record_header(batch, self._next_position, self._durable_position, metadata_version)
        record_bytes = RECORD_OVERHEAD_BYTES + len(batch.payload)
        if not self._queue:
            self._wake.set()
        self._queue.append(header)
        self._queue.append(batch.payload)
        self._queue_sizes.append(record_bytes)
        self._queued_bytes += record_bytes
        self._next_position += record_bytes
        if self._queued_bytes >= self._settings.group_bytes_max:
            self._wake.set()
        return QueuedAppend(self._next_position, header[RECORD_HEADER_BYTES:])

    def why_refused(self, payload_bytes: int) -> str:
        """A bucket that takes no puts is waited for: an append is in memory then, and its capacity is limited."""
        return ""

    def has_room_for(self, payload_bytes: int) -> bool:
        untrimmed = self._next_position - self._trimmed_position
        return untrimmed + RECORD_OVERHEAD_BYTES + payload_bytes <= self._settings.capacity_bytes

    async def trim(self, position: int) -> None:
        self._trimmed_position = max(self._trimmed_position, position)
        self._cleaning.set()

    async def forget_trimmed(self) -> None:
        """Needs nothing of its own: the objects of trimmed records are deleted from time to time."""
        self._cleaning.set()

    async def empty(self) -> bool:
        """Needs nothing of its own: the end of the log deletes the objects of trimmed records."""
        return self._trimmed_position >= self._next_position

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._wake.set()
        if not self._has_failed:
            await self._in_time(self._tasks.drain())
        await self._tasks.cancel()
        await self._timers.cancel()
        if not (self._has_failed or self._in_flight or self._identity is None):
            await self._in_time(self._delete_at_end())

    async def _in_time(self, work: Coroutine[Any, Any, None]) -> None:
        await ends_while_it_progresses(
            work, lambda: self._durable_position, self._clock, CLOSE_STALLED_MS_MAX
        )

    def statistics(self) -> WalStatistics:
        return WalStatistics(
            appends=self._appends,
            groups=self._bulks,
            syncs=self._bulks,
            bytes_written=self._bytes_written,
            bytes_untrimmed=self._next_position - self._trimmed_position,
            segments=len(self._objects),
            trouble=self._trouble,
            write_seconds=self._put_seconds.counts(),
        )

    # -- bulks -------------------------------------------------------------------------------------------

    async def _cut_bulks(self) -> None:
        while not self._has_failed:
            await self._until_due()
            if not self._queue:
                break
            await self._slots.acquire()
            body, records, body_bytes = self._take_bulk()
            first_position = self._next_position - self._queued_bytes - body_bytes
            self._begin(WalObjectKind.BULK, body, first_position, records)
        while self._in_flight and not self._has_failed:
            self._answered.clear()
            await self._answered.wait()

    async def _until_due(self) -> None:
        """Waits until the next bulk is due, or the log is closing."""
        while not self._closing:
            if self._queue:
                due_ms = self._pace.due_ms(is_under_way=bool(self._in_flight))
                left_ms = due_ms - self._clock.monotonic_ms()
                if left_ms <= 0 or self._queued_bytes >= self._settings.group_bytes_max:
                    return
                await self._woken(self._wake, left_ms)
            else:
                await self._woken(self._wake)

    async def _woken(self, event: asyncio.Event, ms_max: float = inf) -> None:
        """Waits until the event is set, or the time has passed, and clears it."""
        timer = None if ms_max == inf else self._clock.call_after_ms(ms_max, event.set)
        await event.wait()
        event.clear()
        if timer is not None:
            timer.cancel()

    def _take_bulk(self) -> tuple[list[Buffer], int, int]:
        """Takes the records of the next bulk, at least one, from the queue; returns buffers, records, bytes."""
        body_bytes = records = 0
        for record_bytes in self._queue_sizes:
            if records and body_bytes + record_bytes > self._settings.group_bytes_max:
                break
            body_bytes += record_bytes
            records += 1
        body = self._queue[: 2 * records]
        del self._queue[: 2 * records]
        del self._queue_sizes[:records]
        self._queued_bytes -= body_bytes
        return body, records, body_bytes

    def _begin(self, kind: WalObjectKind, body: list[Buffer], first_position: int, records: int) -> Bulk:
        """Assigns the object its place in the log and starts its put. The caller has taken a slot."""
        now_ms = self._clock.monotonic_ms()
        self._pace.put(now_ms)
        place = self._node_epoch, next(self._seqs)
        kept = kept_place(self._objects, self._trimmed_position, place)
        bulk = Bulk(kind, place, body, first_position, records, kept, now_ms)
        self._objects.append((place, bulk.end_position))
        if records:
            self._newest_record_place = place
        self._in_flight.append(bulk)
        self._tasks.start(f"put-{place[1]}", self._put(bulk))
        return bulk

    async def _put_and_wait(self, kind: WalObjectKind, body: list[Buffer]) -> None:
        """Puts an object without records after the bulks that were cut before, and waits until it is acknowledged."""
        await self._slots.acquire()
        bulk = self._begin(kind, body, self._next_position - self._queued_bytes, records=0)
        while bulk in self._in_flight and not self._has_failed:
            self._answered.clear()
            await self._answered.wait()

    async def _put(self, bulk: Bulk) -> None:
        buffers = self._log.encoded(
            bulk.kind, bulk.place, bulk.body, first_position=bulk.first_position,
            trimmed_position=self._trimmed_position, kept=bulk.kept, answered_seq=self._answered_seq,
        )  # fmt: skip
        retry_ms = RETRY_MS_MIN
        while True:
            try:
                await self._log.put(bulk.place, buffers)
            except ObjectAlreadyExists:
                raise self._sealed(bulk) from None
            except (StoreTransient, StoreDenied) as trouble:
                self._say(f"{trouble}. {_remedy(trouble)}")
                await self._clock.sleep_ms(retry_ms)
                retry_ms = min(2 * retry_ms, RETRY_MS_MAX)
            else:
                break
        self._put_seconds.observe((self._clock.monotonic_ms() - bulk.asked_ms) / 1000)
        bulk.is_landed = True
        self._answer()

    def _sealed(self, bulk: Bulk) -> WalSealed:
        return WalSealed(
            f"another process has taken over the write-ahead log {self._place_in_words} of node epoch "
            f"{self._node_epoch} (at object {bulk.place[1]}): stop this process; what it has acknowledged is kept"
        )

    def _answer(self) -> None:
        """Answers the bulks that are stored together with all bulks before them, in order."""
        before = self._durable_position
        while self._in_flight and self._in_flight[0].is_landed and not self._has_failed:
            bulk = self._in_flight.popleft()
            self._answered_seq = bulk.place[1] + 1
            self._kept_answered = max(self._kept_answered, bulk.kept)
            self._durable_position = max(self._durable_position, bulk.end_position)
            self._appends += bulk.records
            self._bulks += 1
            self._bytes_written += bulk.end_position - bulk.first_position
            self._slots.release()
        if self._trouble and not any(self._hangs(bulk) for bulk in self._in_flight):
            self._trouble = self._cause = ""
            if self._is_said:
                log.warning("the write-ahead log %s is written again", self._place_in_words)
            self._is_said = False
        self._answered.set()
        self._cleaning.set()
        if self._queue and not self._in_flight:
            self._wake.set()
        if self._durable_position > before:
            self._on_durable(self._durable_position)

    def _failed(self, failure: BaseException) -> None:
        self._has_failed = True
        self._answered.set()
        self._wake.set()
        self._on_failure(WalWriteFailed(f"the write-ahead log cannot be written: {failure}"))

    # -- trouble -----------------------------------------------------------------------------------------

    def _say(self, cause: str) -> None:
        self._cause = cause
        self._trouble = f"the bucket of the write-ahead log {self._place_in_words} takes no objects: {cause}"
        self._log_trouble()

    def _hangs(self, bulk: Bulk) -> bool:
        return self._clock.monotonic_ms() - bulk.asked_ms >= HANGS_MS

    async def _say_when_the_bucket_hangs(self) -> None:
        while True:
            await self._clock.sleep_ms(HANGS_MS)
            if not self._in_flight or not self._hangs(self._in_flight[0]):
                continue
            if not self._cause:
                hangs_ms = self._clock.monotonic_ms() - self._in_flight[0].asked_ms
                self._trouble = (
                    f"the bucket of the write-ahead log {self._place_in_words} has not answered for "
                    f"{hangs_ms / 1000:.0f} s: check endpoint and network"
                )
            self._log_trouble()

    def _log_trouble(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._said_ms >= HANG_LOGGED_INTERVAL_MS:
            self._said_ms, self._is_said = now_ms, True
            log.error("appends wait: %s", self._trouble)

    # -- deleting ----------------------------------------------------------------------------------------

    async def _delete_from_time_to_time(self) -> None:
        while not self._has_failed:
            await self._woken(self._cleaning)
            due_ms = self._clock.monotonic_ms() + DELETE_INTERVAL_MS
            while self._has_trimmed and not self._has_failed:
                left_ms = due_ms - self._clock.monotonic_ms()
                if left_ms > 0 and deletable(self._objects, self._kept_answered) < DELETE_KEYS:
                    await self._woken(self._cleaning, left_ms)
                    continue
                await self._say_what_is_kept()
                if await self._delete():
                    due_ms = self._clock.monotonic_ms() + DELETE_INTERVAL_MS
                else:
                    await self._clock.sleep_ms(DELETE_INTERVAL_MS)
                    due_ms = self._clock.monotonic_ms()

    @property
    def _has_trimmed(self) -> bool:
        """Whether there are objects to delete now, or once a further object says which are kept. The newest
        object with records may stay."""
        if self._needless or deletable(self._objects, self._kept_answered):
            return True
        oldest = self._objects[0] if self._objects else None
        return (
            oldest is not None
            and oldest[1] <= self._trimmed_position
            and oldest[0] < self._newest_record_place
        )

    async def _say_what_is_kept(self) -> None:
        """Puts an empty bulk, unless an object that is being put says already that the oldest objects are committed."""
        kept = kept_place(self._objects, self._trimmed_position, self._newest_record_place)
        is_idle = not (self._in_flight or self._queue or self._closing)
        if is_idle and kept > self._kept_answered:
            await self._put_and_wait(WalObjectKind.BULK, [])

    async def _delete(self) -> bool:
        """Deletes the objects that are no longer needed. Returns whether all of them were deleted."""
        places = [place for place, _ in self._objects][: deletable(self._objects, self._kept_answered)]
        needless = list(self._needless)
        try:
            await self._log.delete([*needless, *places])
        except (
            SiltstoneError
        ) as trouble:  # not fatal: only their space is not freed; the next start deletes them
            log.warning("committed objects of the write-ahead log could not be deleted: %s", trouble)
            return False
        del self._needless[: len(needless)]
        for _ in places:
            self._objects.popleft()
        return True

    async def _delete_at_end(self) -> None:
        if self._has_trimmed:
            await self._delete()


def _remedy(trouble: SiltstoneError) -> str:
    if isinstance(trouble, StoreDenied):
        return "Give the node the permission to write to the bucket; the log then continues by itself"
    return "Check that the bucket can be reached (endpoint, network, space); the log then continues by itself"
