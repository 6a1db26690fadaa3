"""The coordinator of the groups in one partition of ``__consumer_offsets``.

::

    LOADING ──loaded──▶ ACTIVE ──an append failed, or a bug──▶ LOADING (reads the log again)
       │                   └──close──▶ CLOSED
       └──damaged log──▶ DAMAGED

While it is active, requests are decided as they come (``cells``), and answered when what was decided is durable
(``log_writer``). What is in memory is a function of the log but for rebalances under way, so whatever goes wrong,
reading the log again is safe: to members it looks like a rebalance at worst, and no offset that was acknowledged is
lost.

The live state written anew at the log's end, so that what lies before it can go.

It is written a thousand records at a time while everything goes on, and is right all the same: a key's record here
holds what the key holds when it is written; whatever changes later comes later in the log; what was removed before
has its tombstone after ``start`` or, removed before that, no record at all.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from typing import TypeAlias, TypeVar

import msgspec

from siltstone.broker.groups.environment import GroupEnvironment
from siltstone.broker.groups.known_groups import KnownGroup, KnownGroups, OffsetExpiry
from siltstone.broker.groups.loading import Replay, replay
from siltstone.broker.groups.log_writer import LogWriter
from siltstone.broker.groups.offsets_log.committed_offset import CommittedOffset
from siltstone.broker.groups.offsets_log.record import EncodedRecord, encode_record
from siltstone.broker.groups.ports import GroupLog, GroupLogs
from siltstone.broker.groups.rules.actions import Answer
from siltstone.broker.groups.rules.requests import ForgetOffsets, GroupTimer, Request
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.limits import (
    GROUP_CLOSE_WAIT_MS,
    GROUP_LOAD_BACKOFF_MS_MAX,
    GROUP_LOAD_BACKOFF_MS_MIN,
    GROUP_LOAD_WAIT_MS,
)
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

RECORDS_PER_STEP = 1_000
"""A few milliseconds of the event loop, and as many records of memory."""


async def write_checkpoint(cells: Mapping[str, KnownGroup], writer: LogWriter, log: GroupLog) -> bool:
    """``cells`` change while it runs. False: an append failed, and nothing was trimmed. Raises what trimming raises."""
    start_offset = log.next_offset
    step: list[EncodedRecord] = []
    for record in _live_records(cells):
        step.append(record)
        if len(step) == RECORDS_PER_STEP:
            writer.add(step)
            step = []
            if await writer.flushed() is not True:
                return False
    writer.add(step)
    if await writer.flushed() is not True:
        return False
    await log.trim_before(start_offset)
    return True


def _live_records(cells: Mapping[str, KnownGroup]) -> Iterator[EncodedRecord]:
    """Each as it is when it is asked for."""
    for group_id in list(cells):
        cell = cells.get(group_id)
        if cell is None:
            continue
        group = cell.record_of_group()
        if group is not None:
            yield encode_record(group)
        for topic_partition in list(cell.offsets):
            offset = cell.record_of_offset(topic_partition)
            if offset is not None:
                yield encode_record(offset)


log = logging.getLogger(__name__)

T = TypeVar("T")
MakeRequest: TypeAlias = Callable[[KnownGroup | None], Request | ErrorCode]


class Phase(Enum):
    LOADING = auto()
    ACTIVE = auto()
    DAMAGED = auto()
    CLOSED = auto()


REFUSALS = {
    Phase.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    Phase.DAMAGED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Phase.CLOSED: ErrorCode.NOT_COORDINATOR,
}


class CoordinatorStatistics(msgspec.Struct, frozen=True):
    """``log_records``: what loading would read; ``live_records``: what it would keep."""

    partition: int
    phase: str
    groups: int
    members: int
    log_records: int
    live_records: int
    loads: int
    checkpoints: int


class GroupCoordinator:
    def __init__(self, partition: int, logs: GroupLogs, environment: GroupEnvironment) -> None:
        self._partition = partition
        self._logs = logs
        self._environment = environment
        self._tasks = TaskGroup(f"group-coordinator-{partition}", self._task_failed)
        self._phase = Phase.LOADING
        self._log: GroupLog | None = None
        self._groups: KnownGroups | None = None
        self._expiry: OffsetExpiry | None = None
        self._last_writer: LogWriter | None = None
        self._log_records_before = 0
        self._topics_to_forget: set[str] = set()
        self._is_checkpointing = False
        self._waiting_for_load: set[asyncio.Future[None]] = set()
        self._loads = self._checkpoints = 0

    def start(self) -> None:
        self._tasks.start("load", self._load())

    async def loaded(self) -> None:
        """Waits a while."""
        if self._phase is not Phase.LOADING:
            return
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_load.add(loaded)
        with _resolved_after(loaded, GROUP_LOAD_WAIT_MS, self._environment.clock):
            await loaded
        self._waiting_for_load.discard(loaded)

    # -- ask ---------------------------------------------------------------------------------------------

    def ask(self, group_id: str, request: Request) -> "asyncio.Future[Answer]":
        """Raises InvalidRequest when a text in it is too long to be written down."""
        return self.ask_about(group_id, lambda _: request)

    def ask_about(self, group_id: str, make: MakeRequest) -> "asyncio.Future[Answer]":
        """A request that depends on what is known of the group (None: nothing). Raises as ``ask``."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self._groups is None:
            answer.set_result(REFUSALS[self._phase])
            return answer
        request = make(self._groups.cells.get(group_id))
        if isinstance(request, ErrorCode):
            self._groups.writer.give(group_id, answer, request)
        else:
            self._groups.ask(group_id, request, answer)
            self._write_anew_if_long()
        return answer

    def look(self, group_id: str, take: Callable[[KnownGroup | None], T]) -> "asyncio.Future[T | ErrorCode]":
        """``take`` is called at once; what it returns is given when what it saw is durable."""
        answer: asyncio.Future[T | ErrorCode] = asyncio.get_running_loop().create_future()
        if self._groups is None:
            answer.set_result(REFUSALS[self._phase])
        else:
            self._groups.writer.give(group_id, answer, take(self._groups.cells.get(group_id)))
        return answer

    def look_at_all(self, take: Callable[[KnownGroup], T]) -> list[T] | ErrorCode:
        """Of every group, as it is now, durable or not."""
        if self._groups is None:
            return REFUSALS[self._phase]
        return [take(cell) for cell in self._groups.cells.values()]

    async def forget_topic(self, topic: str) -> None:
        """Its offsets in all groups. Returns when that is durable, or noted until the groups are loaded."""
        if self._groups is None:
            self._topics_to_forget.add(topic)
            return
        _forget(self._groups, lambda name, _: name == topic)
        await self._groups.writer.flushed()

    @property
    def statistics(self) -> CoordinatorStatistics:
        groups = [] if self._groups is None else list(self._groups.groups())
        return CoordinatorStatistics(
            partition=self._partition,
            phase=self._phase.name,
            groups=len(groups),
            members=sum(len(group.members) for group in groups),
            log_records=self._log_records,
            live_records=0 if self._groups is None else self._groups.live_records,
            loads=self._loads,
            checkpoints=self._checkpoints,
        )

    def end_waits(self) -> None:
        """Every request is told NOT_COORDINATOR, but for those that are being written down: they are answered when that
        is done."""
        groups, self._groups = self._groups, None
        self._enter(Phase.CLOSED)
        if self._expiry is not None:
            self._expiry.stop()
        if groups is not None:
            self._last_writer = groups.writer
            groups.close()

    async def close(self) -> None:
        """Waits a while for what is under way. Afterwards every request is told NOT_COORDINATOR."""
        self.end_waits()
        if self._last_writer is not None:
            await _flushed_or_late(self._last_writer, self._environment.clock)
        await self._tasks.cancel()

    # -- load --------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        backoff_ms = GROUP_LOAD_BACKOFF_MS_MIN
        while True:
            try:
                group_log = await self._logs.open(self._partition)
                self._begin(group_log, await replay(group_log))
            except CorruptData as damage:
                log.error("__consumer_offsets-%d cannot be read: %s", self._partition, damage)
                self._enter(Phase.DAMAGED)
            except SiltstoneError as trouble:
                log.warning(
                    "__consumer_offsets-%d could not be loaded, trying again: %s", self._partition, trouble
                )
                await self._environment.clock.sleep_ms(backoff_ms)
                backoff_ms = min(2 * backoff_ms, GROUP_LOAD_BACKOFF_MS_MAX)
                continue
            return

    def _begin(self, group_log: GroupLog, loaded: Replay) -> None:
        if self._phase is Phase.CLOSED:
            return
        writer = LogWriter(group_log, self._tasks, self._fail)
        self._log, self._log_records_before = group_log, loaded.records_read
        self._groups = KnownGroups(loaded.cells, writer, self._environment, self._ring)
        self._expiry = OffsetExpiry(self._groups, self._environment, self._fail)
        self._expiry.start()
        self._is_checkpointing = False
        self._loads += 1
        _forget(self._groups, self._is_of_a_topic_that_went)
        self._topics_to_forget.clear()
        self._enter(Phase.ACTIVE)
        self._write_anew_if_long()

    def _is_of_a_topic_that_went(self, name: str, committed: CommittedOffset) -> bool:
        """Whoever deleted the topic may not have lived to have its offsets forgotten. A new one of the name is told by
        the time it was created: nobody has read it before."""
        topic = self._environment.topics.by_name(name)
        return topic is None or committed.committed_ms < topic.created_ms or name in self._topics_to_forget

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        for waiting in self._waiting_for_load:
            _resolve(waiting)
        self._waiting_for_load.clear()

    def _fail(self, failure: Exception) -> None:
        """Nobody is told anything that the log does not say: what is in memory goes, and is read again."""
        groups, self._groups = self._groups, None
        if groups is None:
            return
        log.warning("__consumer_offsets-%d is read again: %r", self._partition, failure)
        assert self._expiry is not None
        self._expiry.stop()
        groups.abandon(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._phase = Phase.LOADING
        self.start()

    def _task_failed(self, failure: BaseException) -> None:
        """A bug: nothing is certain, and trying again would not help."""
        self._enter(Phase.DAMAGED)
        groups, self._groups = self._groups, None
        if groups is not None:
            groups.abandon(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _ring(self, group_id: str, timer: GroupTimer) -> None:
        assert self._groups is not None
        try:
            self._groups.rang(group_id, timer)
        except Exception as bug:
            log.exception("a timer of group %r", group_id)
            self._fail(bug)

    # -- write anew --------------------------------------------------------------------------------------

    @property
    def _log_records(self) -> int:
        return 0 if self._groups is None else self._log_records_before + self._groups.writer.records_added

    def _write_anew_if_long(self) -> None:
        assert self._groups is not None
        settings = self._environment.settings
        live_records = self._groups.live_records
        limit = max(settings.checkpoint_records_min, settings.checkpoint_live_factor * live_records)
        if self._log_records > limit and not self._is_checkpointing:
            self._is_checkpointing = True
            self._tasks.start("checkpoint", self._write_anew())

    async def _write_anew(self) -> None:
        groups, group_log = self._groups, self._log
        if groups is None or group_log is None:
            return
        records_before = groups.writer.records_added
        try:
            is_done = await write_checkpoint(groups.cells, groups.writer, group_log)
        except SiltstoneError as trouble:
            log.warning("__consumer_offsets-%d could not be trimmed: %s", self._partition, trouble)
            is_done = True  # once more when as much has been written again
        if is_done and groups is self._groups:
            self._log_records_before = -records_before
            self._is_checkpointing = False
            self._checkpoints += 1


def _forget(groups: KnownGroups, is_over: Callable[[str, CommittedOffset], bool]) -> None:
    for group_id, cell in list(groups.cells.items()):
        offsets = tuple(key for key, committed in cell.offsets.items() if is_over(key[0], committed))
        if offsets:
            groups.tell(group_id, ForgetOffsets(offsets))


async def _flushed_or_late(writer: LogWriter, clock: Clock) -> None:
    late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with _resolved_after(late, GROUP_CLOSE_WAIT_MS, clock):
        await asyncio.wait({writer.flushed(), late}, return_when=asyncio.FIRST_COMPLETED)


@contextmanager
def _resolved_after(future: "asyncio.Future[None]", duration_ms: int, clock: Clock) -> Iterator[None]:
    timer = clock.call_after_ms(duration_ms, lambda: _resolve(future))
    try:
        yield
    finally:
        timer.cancel()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
