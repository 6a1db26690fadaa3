"""The coordinator of the groups in one partition of ``__consumer_offsets``.

::

    LOADING ──loaded──▶ ACTIVE ──an append failed, or a bug──▶ LOADING (reads the log again)
       │                   └──close──▶ CLOSED
       └──damaged log──▶ DAMAGED ◀──a bug in a background task── LOADING, ACTIVE

A damaged log is loaded again from time to time, in case its object was restored; no damage is skipped.
While the coordinator is active, ``known_groups`` decides requests as they arrive, and ``log_writer`` sends each
answer when the records of its decision are durable. Except for rebalances that are in progress, memory holds only
what the log holds. So after any failure the coordinator may read the log again (``loading``): members see a rebalance
at worst, and no acknowledged offset is lost.

When the log has grown long, ``write_checkpoint`` writes the live state again at its end and trims what is before it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum, auto
from typing import TypeAlias, TypeVar

import msgspec

from siltstone.broker.groups.known_groups import GroupEnvironment, KnownGroup, KnownGroups, OffsetExpiry
from siltstone.broker.groups.loading import Replay, replay
from siltstone.broker.groups.log_writer import LogWriter
from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    EncodedRecord,
    LogProducer,
    OffsetKey,
    OffsetRecord,
    encode_record,
)
from siltstone.broker.groups.ports import GroupLog, GroupLogs
from siltstone.broker.groups.rules.requests import Answer, ForgetOffsets, GroupTimer, Request
from siltstone.broker.partitions.transaction_state import PermissionQuestion
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.serving_limits import (
    GROUP_CLOSE_WAIT_MS,
    GROUP_LOAD_BACKOFF_MS_MAX,
    GROUP_LOAD_BACKOFF_MS_MIN,
    GROUP_LOAD_WAIT_MS,
)
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

MakeRequest: TypeAlias = Callable[[KnownGroup | None], Request | ErrorCode]
"""Makes a request from the known group, None when the group is not known; or refuses."""

RECORDS_PER_STEP = 1_000
"""A step of a checkpoint takes a few milliseconds of the event loop, and the memory of as many records."""

log = logging.getLogger(__name__)

T = TypeVar("T")


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
    """``log_records``: the records that loading would read; ``live_records``: those of them that still count."""

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
        self._unknown: Mapping[bytes, bytes] = {}
        self._topics_to_forget: set[str] = set()
        self._is_checkpointing = False
        self._waiting_for_load: dict[asyncio.Future[None], None] = {}
        self._loads = self._checkpoints = 0

    def start(self) -> None:
        self._tasks.start("load", self._load())

    async def loaded(self) -> None:
        """Waits until the groups are loaded, at most GROUP_LOAD_WAIT_MS."""
        if self._phase is not Phase.LOADING:
            return
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_load[loaded] = None
        with resolved_after(loaded, GROUP_LOAD_WAIT_MS, self._environment.clock):
            await loaded
        self._waiting_for_load.pop(loaded, None)

    # -- ask ---------------------------------------------------------------------------------------------

    def ask(self, group_id: str, asked: Request | MakeRequest) -> "asyncio.Future[Answer]":
        """Does the same as ``Groups.ask``, for the groups of this coordinator. When ``asked`` is a function and returns
        an error code, that is the answer. Raises InvalidRequest when a text of the request is too long for a record."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self._groups is None:
            answer.set_result(REFUSALS[self._phase])
            return answer
        request = asked(self._groups.by_id.get(group_id)) if callable(asked) else asked
        if isinstance(request, ErrorCode):
            self._groups.writer.give(group_id, answer, request)
        else:
            self._groups.ask(group_id, request, answer)
            self._checkpoint_if_long()
        return answer

    def look(self, group_id: str, take: Callable[[KnownGroup | None], T]) -> "asyncio.Future[T | ErrorCode]":
        """``take`` is called at once with the known group; the future gets its result when the state it saw is
        durable."""
        answer: asyncio.Future[T | ErrorCode] = asyncio.get_running_loop().create_future()
        if self._groups is None:
            answer.set_result(REFUSALS[self._phase])
        else:
            self._groups.writer.give(group_id, answer, take(self._groups.by_id.get(group_id)))
        return answer

    def look_at_all(self, take: Callable[[KnownGroup], T]) -> list[T] | ErrorCode:
        """Calls ``take`` with every group, in its present state, which need not be durable yet."""
        if self._groups is None:
            return REFUSALS[self._phase]
        return [take(known) for known in self._groups.by_id.values()]

    # -- transactions ------------------------------------------------------------------------------------

    async def take_transactions(self) -> None:
        """Called before offsets are committed in a transaction. Raises Unavailable."""
        if self._log is not None:
            await self._log.take_transactions()

    def question(self, producer_id: int) -> AbstractContextManager[PermissionQuestion]:
        """Used while the coordinator of the transaction is asked whether the producer may commit offsets here."""
        return nullcontext(PermissionQuestion()) if self._log is None else self._log.question(producer_id)

    async def transactions_written(self) -> None:
        """Returns when no record of a transaction waits for the log, or none ever will be written."""
        if self._groups is not None and self._groups.writer.has_waiting_transactions:
            await self._groups.writer.flushed()

    def takes_marker(self, producer_id: int) -> bool:
        """Whether a marker of the producer may be appended: the groups are loaded, and no record of its transaction
        still waits for the log."""
        return self._groups is not None and not self._groups.writer.has_waiting_of(producer_id)

    def marked(self, producer_id: int, durable: "asyncio.Future[int]", *, commits: bool) -> None:
        if self._groups is not None:
            self._groups.end_transaction(producer_id, durable, commits=commits)

    # ----------------------------------------------------------------------------------------------------

    async def forget_topic(self, topic: str, before_ms: int | None = None) -> None:
        """See ``Groups.forget_topic``. While the groups are being loaded it returns at once, and the offsets are
        deleted after loading."""
        if self._groups is None:
            if before_ms is None:  # else loading compares the times
                self._topics_to_forget.add(topic)
            return
        _forget(
            self._groups,
            lambda name, committed: (
                name == topic and (before_ms is None or committed.committed_ms < before_ms)
            ),
        )
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
            live_records=self._live_records,
            loads=self._loads,
            checkpoints=self._checkpoints,
        )

    def end_waits(self) -> None:
        """Answers every waiting and every later request with NOT_COORDINATOR, except requests with records that are
        being written: these are answered when the records are durable."""
        groups, self._groups = self._groups, None
        self._enter(Phase.CLOSED)
        if self._expiry is not None:
            self._expiry.stop()
        if groups is not None:
            self._last_writer = groups.writer
            groups.close()

    async def close(self) -> None:
        """Ends all waits, and gives appends in progress GROUP_CLOSE_WAIT_MS to complete."""
        self.end_waits()
        if self._last_writer is not None:
            await _flushed_or_late(self._last_writer, self._environment.clock)
        await self._tasks.cancel()

    # -- load --------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        backoff_ms, logged = GROUP_LOAD_BACKOFF_MS_MIN, ""
        while True:
            try:
                group_log = await self._logs.open(self._partition)
                self._begin(group_log, await replay(group_log))
            except CorruptData as damage:
                if str(damage) != logged:
                    logged = str(damage)
                    log.error(
                        "__consumer_offsets-%d cannot be read, its groups are not available until it can: %s. Restore "
                        "what is damaged; loading is tried again every %d s",
                        self._partition, damage, GROUP_LOAD_BACKOFF_MS_MAX // 1000,
                    )  # fmt: skip
                if self._phase is Phase.CLOSED:
                    return
                self._enter(Phase.DAMAGED)
                await self._environment.clock.sleep_ms(GROUP_LOAD_BACKOFF_MS_MAX)
                continue
            except SiltstoneError as trouble:
                log.warning(
                    "groups of __consumer_offsets-%d could not be loaded, will retry: %s",
                    self._partition,
                    trouble,
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
        self._unknown = loaded.unknown
        self._groups = KnownGroups(loaded.groups, writer, self._environment, self._ring)
        self._expiry = OffsetExpiry(self._groups, self._environment, self._fail)
        self._expiry.start()
        self._is_checkpointing = False
        self._loads += 1
        _forget(self._groups, self._belongs_to_deleted_topic)
        self._topics_to_forget.clear()
        self._enter(Phase.ACTIVE)
        self._checkpoint_if_long()

    def _belongs_to_deleted_topic(self, name: str, committed: CommittedOffset) -> bool:
        """Returns whether an offset belongs to a deleted topic. A broker may have crashed after deleting the topic and
        before deleting its offsets. An offset committed before the current topic of that name was created therefore
        belongs to the old topic."""
        topic = self._environment.topics.by_name(name)
        return topic is None or committed.committed_ms < topic.created_ms or name in self._topics_to_forget

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        for waiting in self._waiting_for_load:
            _resolve(waiting)
        self._waiting_for_load.clear()

    def _fail(self, failure: Exception) -> None:
        """Discards the state in memory and reads the log again, so that no answer contradicts the log."""
        groups, self._groups = self._groups, None
        if groups is None:
            return
        log.warning(
            "groups of __consumer_offsets-%d are loaded again after a failure: %r", self._partition, failure
        )
        self._discard(groups)
        self._phase = Phase.LOADING
        self.start()

    def _task_failed(self, failure: BaseException) -> None:
        """Only a bug ends a task: the state in memory is not certain, and loading again may meet the same bug."""
        self._enter(Phase.DAMAGED)
        groups, self._groups = self._groups, None
        if groups is not None:
            self._discard(groups)

    def _discard(self, groups: KnownGroups) -> None:
        """Stops everything that works on the state in memory: offsets do not expire, and no record is appended."""
        assert self._expiry is not None
        self._expiry.stop()
        groups.writer.stop()
        groups.abandon(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _ring(self, group_id: str, timer: GroupTimer) -> None:
        assert self._groups is not None
        try:
            self._groups.rang(group_id, timer)
        except Exception as bug:
            log.exception("a timer of group %r failed", group_id)
            self._fail(bug)

    # -- checkpoint --------------------------------------------------------------------------------------

    @property
    def _log_records(self) -> int:
        return 0 if self._groups is None else self._log_records_before + self._groups.writer.records_added

    @property
    def _live_records(self) -> int:
        return 0 if self._groups is None else self._groups.live_records + len(self._unknown)

    def _checkpoint_if_long(self) -> None:
        assert self._groups is not None
        settings = self._environment.settings
        limit = max(settings.checkpoint_records_min, settings.checkpoint_live_factor * self._live_records)
        if self._log_records > limit and not self._is_checkpointing:
            self._is_checkpointing = True
            self._tasks.start("checkpoint", self._checkpoint())

    async def _checkpoint(self) -> None:
        groups, group_log = self._groups, self._log
        if groups is None or group_log is None:
            return
        records_before = groups.writer.records_added
        try:
            is_done = await write_checkpoint(groups.by_id, groups.writer, group_log, self._unknown)
        except SiltstoneError as trouble:
            log.warning(
                "__consumer_offsets-%d could not be trimmed, its log stays longer: %s",
                self._partition,
                trouble,
            )
            is_done = True  # the next checkpoint, after as many new records, trims this part too
        if is_done and groups is self._groups:
            self._log_records_before = -records_before
            self._is_checkpointing = False
            self._checkpoints += 1


def _forget(groups: KnownGroups, is_over: Callable[[str, CommittedOffset], bool]) -> None:
    for group_id, known in list(groups.by_id.items()):
        offsets = tuple(
            key
            for key in known.partitions
            if any(is_over(key[0], committed) for committed in known.offsets_of(key))
        )
        if offsets:
            groups.perform(group_id, ForgetOffsets(offsets))


async def _flushed_or_late(writer: LogWriter, clock: Clock) -> None:
    late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with resolved_after(late, GROUP_CLOSE_WAIT_MS, clock):
        await asyncio.wait({writer.flushed(), late}, return_when=asyncio.FIRST_COMPLETED)


@contextmanager
def resolved_after(future: "asyncio.Future[None]", duration_ms: int, clock: Clock) -> Iterator[None]:
    """Resolves the future after so long; not any more when the block has ended."""
    timer = clock.call_after_ms(duration_ms, lambda: _resolve(future))
    try:
        yield
    finally:
        timer.cancel()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def write_checkpoint(
    groups: Mapping[str, KnownGroup], writer: LogWriter, log: GroupLog, unknown: Mapping[bytes, bytes]
) -> bool:
    """Writes the live state again at the end of the log, and trims the log before it. ``unknown``: records that are
    kept as they are. False: an append failed, and nothing was trimmed. Raises what trimming raises.

    Requests continue meanwhile and change ``groups``, and the log is right all the same: each record here holds the
    value at the moment when it is written, and a later change comes later in the log. A key that was removed has its
    tombstone after the start of the checkpoint or, if it was removed before, no record in it. An offset and the
    pending ones of its partition are added in one turn, in the order in which they were committed: no marker comes
    between them.
    """
    start_offset = log.next_offset
    added = len(unknown)
    writer.add(list(unknown.items()))
    for offset_and_pending in _live_records(groups):
        for record, producer in offset_and_pending:
            writer.add([record], producer=producer)
        added += len(offset_and_pending)
        if added >= RECORDS_PER_STEP:
            added = 0
            if await writer.flushed() is not True:
                return False
    if await writer.flushed() is not True:
        return False
    await log.trim_before(start_offset)
    return True


def _live_records(
    groups: Mapping[str, KnownGroup],
) -> Iterator[list[tuple[EncodedRecord, LogProducer | None]]]:
    """Yields each record as it is at that moment, together with the offsets that open transactions have written for the
    same partition; ``groups`` may change between two records."""
    for group_id in list(groups):
        known = groups.get(group_id)
        if known is None:
            continue
        records: list[tuple[EncodedRecord, LogProducer | None]]
        records = [(encode_record(record), None) for record in known.records_of_group()]
        if records:
            yield records
        for topic_partition in known.partitions:
            records = []
            offset = known.record_of_offset(topic_partition)
            if offset is not None:
                records.append((encode_record(offset), None))
            key = OffsetKey(group_id, *topic_partition)
            for producer, committed in known.pending.in_order(topic_partition):
                records.append((encode_record(OffsetRecord(key, committed)), producer))
            if records:
                yield records
