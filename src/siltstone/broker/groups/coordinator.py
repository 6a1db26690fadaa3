"""The coordinator of the groups in one partition of ``__consumer_offsets``.

``coordination.life`` has its phases. While it is active, ``known_groups`` decides requests as they arrive, and
``log_writer`` sends each answer when the records of its decision are durable. Except for rebalances that are in
progress, memory holds only what the log holds. So when the log is read again (``loading``), members see a rebalance at
worst, and no acknowledged offset is lost.

When the log has grown long, ``write_checkpoint`` writes the live state again at its end and trims what is before it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias, TypeVar

import msgspec

from siltstone.broker.coordination.checkpoints import LogSize, write_again
from siltstone.broker.coordination.life import CoordinatorLife, resolved_after
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
from siltstone.model.serving_limits import GROUP_CLOSE_WAIT_MS
from siltstone.runtime.clock import Clock

MakeRequest: TypeAlias = Callable[[KnownGroup | None], Request | ErrorCode]
"""Makes a request from the known group, None when the group is not known; or refuses."""

Step: TypeAlias = list[tuple[EncodedRecord, LogProducer | None]]
"""Records that a checkpoint adds in one turn. A producer has written its record in a transaction that is open."""

RECORDS_PER_STEP = 1_000
"""A step of a checkpoint takes a few milliseconds of the event loop, and the memory of as many records."""

log = logging.getLogger(__name__)

T = TypeVar("T")


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
        self._life = CoordinatorLife(
            "groups", f"__consumer_offsets-{partition}", environment.clock, self._read_log, self._discard
        )
        self._log: GroupLog | None = None
        self._length = LogSize(0, 0)
        self._groups: KnownGroups | None = None
        self._expiry: OffsetExpiry | None = None
        self._last_writer: LogWriter | None = None
        self._unknown: Mapping[bytes, bytes] = {}
        self._topics_to_forget: set[str] = set()

    def start(self) -> None:
        self._life.start()

    async def loaded(self) -> None:
        """Waits until the groups are loaded, at most COORDINATOR_LOAD_WAIT_MS."""
        await self._life.loaded()

    # -- ask ---------------------------------------------------------------------------------------------

    def ask(self, group_id: str, asked: Request | MakeRequest) -> "asyncio.Future[Answer]":
        """Does the same as ``Groups.ask``, for the groups of this coordinator. When ``asked`` is a function and returns
        an error code, that is the answer. Raises InvalidRequest when a text of the request is too long for a record."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self._groups is None:
            answer.set_result(self._life.refusal)
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
            answer.set_result(self._life.refusal)
        else:
            self._groups.writer.give(group_id, answer, take(self._groups.by_id.get(group_id)))
        return answer

    def look_at_all(self, take: Callable[[KnownGroup], T]) -> list[T] | ErrorCode:
        """Calls ``take`` with every group, in its present state, which need not be durable yet."""
        if self._groups is None:
            return self._life.refusal
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
            phase=self._life.phase.name,
            groups=len(groups),
            members=sum(len(group.members) for group in groups),
            log_records=0 if self._groups is None else self._length.records,
            live_records=self._live_records,
            loads=self._life.loads,
            checkpoints=self._life.checkpoints,
        )

    def end_waits(self) -> None:
        """Answers every waiting and every later request with NOT_COORDINATOR, except requests with records that are
        being written: these are answered when the records are durable."""
        groups, self._groups = self._groups, None
        self._life.end()
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
        await self._life.tasks.cancel()

    # -- load --------------------------------------------------------------------------------------------

    async def _read_log(self) -> Callable[[], None]:
        group_log = await self._logs.open(self._partition)
        loaded = await replay(group_log)
        return lambda: self._begin(group_log, loaded)

    def _begin(self, group_log: GroupLog, loaded: Replay) -> None:
        settings = self._environment.settings
        self._log, self._unknown = group_log, loaded.unknown
        self._length = LogSize(
            settings.checkpoint_records_min, settings.checkpoint_live_factor, loaded.records_read
        )
        writer = LogWriter(group_log, self._length, self._life.tasks, self._life.fail)
        self._groups = KnownGroups(loaded.groups, writer, self._environment, self._ring)
        self._expiry = OffsetExpiry(self._groups, self._environment, self._life.fail)
        self._expiry.start()
        _forget(self._groups, self._belongs_to_deleted_topic)
        self._topics_to_forget.clear()
        self._checkpoint_if_long()

    def _belongs_to_deleted_topic(self, name: str, committed: CommittedOffset) -> bool:
        """Returns whether an offset belongs to a deleted topic. A broker may have crashed after deleting the topic and
        before deleting its offsets. An offset committed before the current topic of that name was created therefore
        belongs to the old topic."""
        topic = self._environment.topics.by_name(name)
        return topic is None or committed.committed_ms < topic.created_ms or name in self._topics_to_forget

    def _discard(self) -> None:
        """Stops everything that works on the state in memory: offsets do not expire, and no record is appended."""
        groups, self._groups = self._groups, None
        if groups is not None:
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
            self._life.fail(bug)

    # -- checkpoint --------------------------------------------------------------------------------------

    @property
    def _live_records(self) -> int:
        return 0 if self._groups is None else self._groups.live_records + len(self._unknown)

    def _checkpoint_if_long(self) -> None:
        if self._length.is_long(self._live_records):
            self._life.checkpoint(self._checkpoint)

    async def _checkpoint(self) -> bool:
        groups, group_log = self._groups, self._log
        if groups is None or group_log is None:
            return False
        return await write_checkpoint(groups.by_id, groups.writer, group_log, self._length, self._unknown)


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


async def write_checkpoint(
    groups: Mapping[str, KnownGroup],
    writer: LogWriter,
    log: GroupLog,
    length: LogSize,
    unknown: Mapping[bytes, bytes],
) -> bool:
    """See ``coordination.checkpoints``. ``unknown``: records that are kept as they are. An offset and the pending ones
    of its partition are added in one turn, in the order in which they were committed: no marker comes between them."""

    async def append(step: Step) -> bool:
        for record, producer in step:
            writer.add([record], producer=producer)
        return await writer.flushed() is True

    return await write_again(log, length, _steps(groups, unknown), append)


def _steps(groups: Mapping[str, KnownGroup], unknown: Mapping[bytes, bytes]) -> Iterator[Step]:
    """Yields some RECORDS_PER_STEP records at a time."""
    step: Step = [(record, None) for record in unknown.items()]
    for offset_and_pending in _live_records(groups):
        step += offset_and_pending
        if len(step) >= RECORDS_PER_STEP:
            yield step
            step = []
    yield step


def _live_records(groups: Mapping[str, KnownGroup]) -> Iterator[Step]:
    """Yields each record as it is at that moment, together with the offsets that open transactions have written for the
    same partition; ``groups`` may change between two records."""
    for group_id in list(groups):
        known = groups.get(group_id)
        if known is None:
            continue
        records: Step = [(encode_record(record), None) for record in known.records_of_group()]
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
