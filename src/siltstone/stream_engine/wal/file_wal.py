"""The write-ahead log in local files, with group commit.

The appends of one turn of the event loop, and all that arrive while a group is being written, form the next group. A
group is one vectored write and one fdatasync in a thread, then one call of ``on_durable``. So 64 concurrent appends
cost one sync, not 64, and a single append is never delayed to fill a group. ``log_directory`` has the files,
``object_formats.log_file`` their bytes.
"""

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Callable
from math import inf
from pathlib import Path
from typing import ParamSpec, TypeVar

from msgspec.structs import replace

from siltstone.foundation.histogram import Histogram
from siltstone.model.buffers import Buffer
from siltstone.model.limits import MINUTE_MS, SECOND_MS
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.identity import LogIdentity
from siltstone.object_formats.log_file import (
    LOG_FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    WalRecord,
    encode_record_header,
)
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.stream_engine.settings import WalSettings, WalSync
from siltstone.stream_engine.wal.log_directory import KeptLogFile, LogDirectory, LogFile, LogNotSynced
from siltstone.stream_engine.wal.port import QueuedAppend, WalStatistics, WalWriteFailed

P = ParamSpec("P")
T = TypeVar("T")

NO_FREE_FILE = (errno.EMFILE, errno.ENFILE)
FREE_FILE_INTERVAL_MS = 100
FREE_FILE_WAIT_MS_MAX = 1 * MINUTE_MS
"""How long the log waits for a free file before it fails. Network and readers give files back within seconds; a process
that leaks files does not."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NO_SPACE_INTERVAL_MS = 500
"""How often a log whose disk is full looks for space: soon for a person who frees some, and a cheap call."""

HANGS_MS = 5 * SECOND_MS
HANG_LOGGED_INTERVAL_MS = 30 * SECOND_MS
"""A write that takes so long is logged, and again after the interval: a busy disk takes a second."""

log = logging.getLogger(__name__)


class FileWriteAheadLog:
    """The log of one node in one directory. ``calls`` must have a thread that no long call occupies.

    The space of the next log file is reserved when half of the present one is used. When the disk has none left,
    appends that fit into the present file are still taken, and the others are refused before they have an offset
    (``why_refused``), until there is space again. So a full disk takes back nothing. What was queued beyond the space
    that was reserved, a burst larger than half a log file, waits. A sync that fails is the end of the log, whatever its
    reason."""

    def __init__(
        self, directory: Path, node_id: int, settings: WalSettings, calls: BlockingCalls, clock: Clock
    ) -> None:
        """Locks the directory. Raises WalInUse."""
        self._settings = settings
        self._calls = calls
        self._clock = clock
        self._folder = directory
        self._directory = LogDirectory(directory, node_id)
        self._live: list[LogFile | KeptLogFile] = []
        self._node_epoch = -1
        self._queue: list[Buffer] = []
        self._queue_sizes: list[int] = []
        self._next_position = 0
        self._written_position = 0
        self._synced_position = 0
        self._trimmed_position = 0
        self._forgotten_position = 0
        self._rolls: list[asyncio.Future[None]] = []
        self._synced_at_ms = 0.0
        self._wake = asyncio.Event()
        self._closing = False
        self._asked_disk_ms = inf
        self._trouble = ""
        self._full_disk = ""
        self._looks = asyncio.Event()
        self._is_reserved = self._looks_for_space = self._is_stuck = False
        self._on_durable: Callable[[int], None] = lambda _: None
        self._on_failure: Callable[[BaseException], None] = lambda _: None
        self._tasks = TaskGroup("wal", self._failed)
        self._timer = TaskGroup("wal", self._failed)
        self._appends = self._groups = self._syncs = self._bytes_written = 0
        self._write_seconds = Histogram()

    # -- identity ----------------------------------------------------------------------------------------

    async def identity(self) -> LogIdentity | None:
        """Which files the log has concerns nobody else."""
        identity = await self._calls.run(self._directory.identity)
        return None if identity is None else replace(identity, files=None)

    async def is_empty(self) -> bool:
        return await self._calls.run(self._directory.is_empty)

    async def newest_record(self) -> WalRecord | None:
        return await self._calls.run(self._directory.newest_record)

    async def claim(self, identity: LogIdentity) -> None:
        await self._calls.run(self._directory.claim, identity)

    # -- an earlier start --------------------------------------------------------------------------------

    async def fence(self, node_epoch: int) -> None:
        """Does nothing: the lock on the directory is the fence."""

    async def recover(self) -> AsyncIterator[list[WalRecord]]:
        scan = self._directory.recover()
        while (records := await self._calls.run(next, scan, None)) is not None:
            yield records

    async def reset(self) -> None:
        await self._calls.run(self._directory.clear)

    # -- this start --------------------------------------------------------------------------------------

    async def start(
        self,
        node_epoch: int,
        on_durable: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
        carried_end: int = 0,
    ) -> None:
        self._node_epoch = node_epoch
        self._on_durable = on_durable
        self._on_failure = on_failure
        if carried_end:
            await self._continue_at(carried_end)
        else:
            await self.reset()
        self._synced_at_ms = self._clock.monotonic_ms()
        self._tasks.start("write", self._write_groups())
        self._timer.start("disk", self._say_when_the_disk_hangs())
        if self._settings.sync is WalSync.EVERY_INTERVAL:
            self._timer.start("sync-timer", self._wake_at_intervals())

    async def _continue_at(self, position: int) -> None:
        kept = await self._calls.run(self._directory.keep, position)
        self._live += kept
        self._trimmed_position = kept[0].first_position
        self._next_position = self._written_position = self._synced_position = position

    def append(self, batch: RecordBatch, metadata_version: int) -> QueuedAppend:
        assert not self._closing
        header = encode_record_header(batch, self._next_position, self._synced_position, metadata_version)
        record_bytes = RECORD_OVERHEAD_BYTES + len(batch.payload)
        self._queue.append(header)
        self._queue.append(batch.payload)
        self._queue_sizes.append(record_bytes)
        self._next_position += record_bytes
        self._wake.set()
        return QueuedAppend(self._next_position, header[RECORD_HEADER_BYTES:])

    def has_room_for(self, payload_bytes: int) -> bool:
        untrimmed = self._next_position - self._trimmed_position
        return untrimmed + RECORD_OVERHEAD_BYTES + payload_bytes <= self._settings.capacity_bytes

    def why_refused(self, payload_bytes: int) -> str:
        if not self._full_disk:
            return ""
        end = self._written_position if self._is_stuck else self._file_end
        fits = self._next_position + RECORD_OVERHEAD_BYTES + payload_bytes <= end
        return "" if fits else self._full_disk

    @property
    def _file_end(self) -> int:
        """The log position up to which records fit into the present log file."""
        newest = self._live[-1] if self._live else None
        if not isinstance(newest, LogFile):
            return self._written_position
        return newest.first_position + newest.size_bytes - LOG_FILE_HEADER_BYTES

    async def trim(self, position: int) -> None:
        self._trimmed_position = max(self._trimmed_position, position)
        retired: list[LogFile | KeptLogFile] = []
        while len(self._live) > 1 and self._live[1].first_position <= position:
            retired.append(self._live.pop(0))
        if retired:
            try:
                await self._calls.run(self._retire, retired, self._live[0].first_position)
            except (
                OSError
            ) as trouble:  # not fatal: only their space is not freed, and recovery skips their records
                log.warning("trimmed files of the write-ahead log could not be freed: %s", trouble)
                self._live[:0] = [each for each in retired if each.path.exists()]  # the next trim tries again

    async def forget_trimmed(self) -> None:
        """Begins a new log file, and deletes the files before it instead of keeping them to be used again: each as soon
        as all its records are trimmed."""
        self._forgotten_position = self._next_position
        # Why first: the new file would be made of a spare, and have its stale records.
        await self._calls.run(self._directory.delete_spares)
        if not self._closing:
            rolled = asyncio.get_running_loop().create_future()
            self._rolls.append(rolled)
            self._wake.set()
            await rolled
        await self.trim(self._trimmed_position)

    async def empty(self) -> bool:
        if self._trimmed_position < self._next_position:
            return False
        live, self._live = self._live, []
        for segment in live:
            segment.close()
        self._synced_position = self._written_position
        try:
            await self._calls.run(self._directory.clear)
        except OSError as trouble:  # not fatal: the next start deletes them
            log.warning("the files of the write-ahead log could not be deleted: %s", trouble)
            return False
        return True

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._looks.set()
        self._wake.set()
        await self._tasks.drain()
        await self._timer.cancel()
        for segment in self._live:
            segment.close()
        self._live.clear()
        self._directory.close()

    def statistics(self) -> WalStatistics:
        return WalStatistics(
            appends=self._appends,
            groups=self._groups,
            syncs=self._syncs,
            bytes_written=self._bytes_written,
            bytes_untrimmed=self._next_position - self._trimmed_position,
            segments=len(self._live),
            trouble=self._trouble,
            full_disk=self._full_disk,
            write_seconds=self._write_seconds.counts(),
        )

    # -- group commit ------------------------------------------------------------------------------------

    async def _write_groups(self) -> None:
        while self._queue or self._rolls or not self._closing:
            if self._rolls:
                await self._roll()
            elif self._looks_for_space or self._is_next_wanted():
                await self._reserve_next()
            elif self._queue:
                await self._write_next_group()
            elif self._is_unsynced and self._sync_is_due():
                await self._sync()
            else:
                await self._wake.wait()
                self._wake.clear()
        await self._sync()

    async def _roll(self) -> None:
        rolls, self._rolls = self._rolls, []
        newest = self._live[-1] if self._live else None
        if newest is not None and newest.first_position < self._written_position:
            await self._begin_file(0)
        for rolled in rolls:
            if not rolled.done():
                rolled.set_result(None)

    # Why no timer gathers a larger group: while one group is synced, the next one gathers by itself, and a lone
    # append is not delayed.
    async def _write_next_group(self) -> None:
        buffers, records, group_bytes = self._take_group()
        sync = self._sync_is_due()
        if not self._has_file_for(group_bytes):
            await self._begin_file(group_bytes)
        begun_ms = self._clock.monotonic_ms()
        await self._write(buffers, sync)
        self._write_seconds.observe((self._clock.monotonic_ms() - begun_ms) / 1000)
        self._written_position += group_bytes
        self._account(records, group_bytes)
        if sync:
            self._synced()
        self._on_durable(self._written_position)

    async def _write(self, buffers: list[Buffer], sync: bool) -> None:
        """Writes a group. File systems that never overwrite need space although it was reserved: then the same bytes
        are written again, at the same place, when there is space. Raises OSError."""
        while True:
            try:
                await self._on_disk(self._write_group, buffers, sync)
            except OSError as trouble:
                await self._wait_for_space(trouble)
            else:
                self._is_stuck = False
                return

    # -- a full disk -------------------------------------------------------------------------------------

    def _is_next_wanted(self) -> bool:
        newest = self._live[-1] if self._live else None
        if self._is_reserved or self._full_disk or self._closing or not isinstance(newest, LogFile):
            return False
        return (self._file_end - self._written_position) * 2 < newest.size_bytes

    async def _reserve_next(self) -> None:
        """Reserves the space of the next log file, or notes that the disk is full. Raises OSError."""
        self._looks_for_space = False
        try:
            await self._on_disk(self._directory.reserve, self._settings.segment_bytes)
        except OSError as trouble:
            if trouble.errno not in NO_SPACE:
                raise
            self._note_full_disk(trouble)
        else:
            self._is_reserved = True
            if self._full_disk:
                self._full_disk = ""
                log.warning("the write-ahead log in %s has space again, and appends are taken", self._folder)

    def _note_full_disk(self, trouble: OSError) -> None:
        if not self._full_disk:
            self._full_disk = (
                f"the disk of the write-ahead log in {self._folder} is full ({trouble.strerror}): free some space, and "
                "the log continues by itself"
            )
            log.error("appends are refused as soon as the open log file is full: %s", self._full_disk)
            self._timer.start("space", self._look_for_space_at_intervals())

    async def _look_for_space_at_intervals(self) -> None:
        while self._full_disk:
            await self._clock.sleep_ms(NO_SPACE_INTERVAL_MS)
            self._looks_for_space = bool(self._full_disk)
            self._looks.set()
            self._wake.set()

    async def _wait_for_space(self, trouble: OSError) -> None:
        """Raises ``trouble`` unless the disk is full, and space may come."""
        if trouble.errno not in NO_SPACE or isinstance(trouble, LogNotSynced):
            raise trouble
        self._is_stuck = True
        self._note_full_disk(trouble)
        self._looks.clear()
        if not self._closing:
            await self._looks.wait()
        if self._closing:
            raise trouble

    async def _on_disk(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._asked_disk_ms = self._clock.monotonic_ms()
        try:
            return await self._calls.run(call, *args, **kwargs)
        finally:
            self._asked_disk_ms, self._trouble = inf, ""

    async def _say_when_the_disk_hangs(self) -> None:
        said_ms = -inf
        while True:
            await self._clock.sleep_ms(HANGS_MS)
            now_ms = self._clock.monotonic_ms()
            hangs_ms = now_ms - self._asked_disk_ms
            if hangs_ms < HANGS_MS:
                continue
            self._trouble = (
                f"the disk of the write-ahead log in {self._folder} has not answered for {hangs_ms / 1000:.0f} s: "
                "check the disk"
            )
            if now_ms - said_ms >= HANG_LOGGED_INTERVAL_MS:
                said_ms = now_ms
                log.error("appends wait: %s", self._trouble)

    async def _sync(self) -> None:
        """Syncs the newest log file, which has everything that was written and not synced, if there is anything."""
        if self._is_unsynced:
            await self._on_disk(self._live[-1].sync)
            self._synced()

    async def _wake_at_intervals(self) -> None:
        while True:
            await self._clock.sleep_ms(self._settings.sync_interval_ms)
            self._wake.set()

    def _take_group(self) -> tuple[list[Buffer], int, int]:
        """Takes the next group, at least one record, from the queue; returns its buffers, number of records, bytes."""
        group_bytes = records = 0
        bytes_max = self._settings.group_bytes_max
        if self._full_disk:  # there is no next file, so this one is used to its end
            bytes_max = min(bytes_max, max(0, self._file_end - self._written_position))
        for record_bytes in self._queue_sizes:
            if records and group_bytes + record_bytes > bytes_max:
                break
            group_bytes += record_bytes
            records += 1
        buffers = self._queue[: 2 * records]
        del self._queue[: 2 * records]
        del self._queue_sizes[:records]
        return buffers, records, group_bytes

    def _sync_is_due(self) -> bool:
        if self._settings.sync is WalSync.EVERY_INTERVAL:
            return self._clock.monotonic_ms() - self._synced_at_ms >= self._settings.sync_interval_ms
        return self._settings.sync is WalSync.EVERY_GROUP

    @property
    def _is_unsynced(self) -> bool:
        return self._synced_position < self._written_position

    def _synced(self) -> None:
        self._synced_position = self._written_position
        self._synced_at_ms = self._clock.monotonic_ms()
        self._syncs += 1

    def _account(self, records: int, group_bytes: int) -> None:
        self._appends += records
        self._groups += 1
        self._bytes_written += group_bytes

    def _write_group(self, buffers: list[Buffer], sync: bool) -> None:
        """Runs in the writer's thread. A group is never split over two log files, so only the end of a log file can be
        torn."""
        segment = self._live[-1]
        assert isinstance(segment, LogFile)
        segment.write(buffers)
        if sync:
            segment.sync()

    def _has_file_for(self, group_bytes: int) -> bool:
        newest = self._live[-1] if self._live else None
        return isinstance(newest, LogFile) and newest.has_room_for(group_bytes)

    async def _begin_file(self, group_bytes: int) -> None:
        """Begins the next log file. While the process, or the machine, has no free file, it is tried again, for
        FREE_FILE_WAIT_MS_MAX: connections that close free files, and an engine that failed would have to be restarted.
        Raises OSError."""
        until_ms = self._clock.monotonic_ms() + FREE_FILE_WAIT_MS_MAX
        is_said = False
        while True:
            try:
                await self._on_disk(self._end_newest)
                self._live.append(await self._on_disk(self._new_file, self._written_position, group_bytes))
            except OSError as trouble:
                if trouble.errno not in NO_FREE_FILE:
                    await self._wait_for_space(trouble)
                    continue
                if self._clock.monotonic_ms() >= until_ms:
                    raise OSError(
                        trouble.errno,
                        f"{trouble.strerror}, for {FREE_FILE_WAIT_MS_MAX // 1000} s: raise the limit of open files "
                        "(ulimit -n, LimitNOFILE)",
                        trouble.filename,
                    ) from trouble
                self._trouble = (
                    f"the write-ahead log waits for a free file, at most {FREE_FILE_WAIT_MS_MAX // 1000} s: {trouble}; "
                    "raise the limit of open files (ulimit -n, LimitNOFILE)"
                )
                if not is_said:
                    is_said = True
                    log.error("appends wait: %s", self._trouble)
                await self._clock.sleep_ms(FREE_FILE_INTERVAL_MS)
            else:
                self._is_reserved = self._is_stuck = False
                return

    def _end_newest(self) -> None:
        """Closes the newest log file, which is full: the log has one open file, however long it is. The next file's
        sync would confirm records of this one that were not synced, so they are synced first."""
        if self._live:
            if self._settings.sync is not WalSync.EVERY_GROUP:
                self._live[-1].sync()
            self._live[-1].close()

    def _new_file(self, position: int, group_bytes: int) -> LogFile:
        size_bytes = max(self._settings.segment_bytes, LOG_FILE_HEADER_BYTES + group_bytes)
        return self._directory.new_file(self._node_epoch, position, size_bytes)

    def _retire(self, segments: list[LogFile | KeptLogFile], oldest_position: int) -> None:
        for segment in segments:
            segment.close()
        self._directory.begin_with(oldest_position)
        for segment in segments:
            is_used_again = segment.first_position >= self._forgotten_position
            self._directory.retire(segment, is_used_again=is_used_again)

    def _failed(self, failure: BaseException) -> None:
        for rolled in self._rolls:
            rolled.cancel()
        self._on_failure(WalWriteFailed(f"the write-ahead log cannot be written: {failure}"))
