"""A group with everything that is known of it: its state, what of that the log holds, and its offsets.

The groups of one coordinator: decisions asked for, performed, and paid for in memory.

Everything here happens at once, without a turn of the event loop between a decision and its performance: the order of
requests is the order of records, and of states.

Offsets past their retention time are looked for every so often, a thousand in each turn of the event loop.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from siltstone.broker.groups.environment import GroupEnvironment
from siltstone.broker.groups.log_writer import LogWriter
from siltstone.broker.groups.offsets_log.committed_offset import CommittedOffset
from siltstone.broker.groups.offsets_log.group_metadata import GroupMetadata
from siltstone.broker.groups.offsets_log.keys import GroupKey, OffsetKey
from siltstone.broker.groups.offsets_log.record import GroupRecord, OffsetRecord, Record, encode_record
from siltstone.broker.groups.rules.actions import AnswerTo, CancelTimer, Decision, SetTimer
from siltstone.broker.groups.rules.deciding import decide
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import (
    Close,
    Commit,
    DeleteOffsets,
    ExpireOffsets,
    GroupTimer,
    Join,
    MoveOffsets,
    Request,
    Sync,
    TimerKind,
    TimerRang,
    TopicPartition,
)
from siltstone.broker.groups.rules.states import GroupState
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.limits import OFFSETS_LOOKED_AT_PER_TURN

GROUP_OVERHEAD_BYTES = 1_000
OFFSET_OVERHEAD_BYTES = 300
"""What a group and an offset cost in memory besides their texts and bytes."""

T = TypeVar("T")


class KnownGroup(msgspec.Struct, eq=False):
    """``metadata`` is the newest record of the group in the log, which is not always the group: a rebalance under
    way is not written down. ``offsets_bytes`` is what the offsets are charged."""

    group: Group
    metadata: GroupMetadata | None = None
    offsets: dict[TopicPartition, CommittedOffset] = msgspec.field(default_factory=dict)
    offsets_bytes: int = 0

    @property
    def live_records(self) -> int:
        """Records that the log would need to hold."""
        return len(self.offsets) + (self.metadata is not None)

    @property
    def charged_bytes(self) -> int:
        return GROUP_OVERHEAD_BYTES + self.group.charged_bytes + self.offsets_bytes

    @property
    def is_nothing(self) -> bool:
        """Nobody would miss it."""
        group = self.group
        if group.state is GroupState.DEAD:
            return True
        return group.state is GroupState.EMPTY and not group.pending and self.live_records == 0

    def apply(self, record: Record) -> None:
        """Of this group."""
        if isinstance(record, GroupRecord):
            self.metadata = record.metadata
        else:
            self._apply_offset(record)

    def record_of_group(self) -> GroupRecord | None:
        return None if self.metadata is None else GroupRecord(GroupKey(self.group.group_id), self.metadata)

    def record_of_offset(self, topic_partition: TopicPartition) -> OffsetRecord | None:
        committed = self.offsets.get(topic_partition)
        if committed is None:
            return None
        return OffsetRecord(OffsetKey(self.group.group_id, *topic_partition), committed)

    def _apply_offset(self, record: OffsetRecord) -> None:
        """Topic names are interned: a thousand partitions of a topic in a hundred groups share one text."""
        topic_partition = (sys.intern(record.key.topic), record.key.partition)
        self.offsets_bytes -= _offset_bytes(self.offsets.pop(topic_partition, None))
        if record.committed is not None:
            self.offsets[topic_partition] = record.committed
        self.offsets_bytes += _offset_bytes(record.committed)


def _offset_bytes(committed: CommittedOffset | None) -> int:
    return 0 if committed is None else OFFSET_OVERHEAD_BYTES + len(committed.metadata)


NOBODY = 0
"""The ticket of requests that nobody waits for."""


class KnownGroups:
    """``ring`` is called when a timer of a group rings, and must not raise."""

    def __init__(
        self,
        cells: dict[str, KnownGroup],
        writer: LogWriter,
        environment: GroupEnvironment,
        ring: Callable[[str, GroupTimer], None],
    ) -> None:
        self.cells = cells
        self.writer = writer
        self._environment = environment
        self._ring = ring
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = NOBODY
        self._timers: set[tuple[str, GroupTimer]] = set()
        self.live_records = 0
        for cell in cells.values():
            self._account(0, cell.charged_bytes, 0, cell.live_records)
            self._begin_sessions(cell.group)

    # -- ask ---------------------------------------------------------------------------------------------

    def ask(self, group_id: str, request: Request, future: "asyncio.Future[Any]") -> None:
        """``future`` gets the answer. Raises TextTooLong, and then nothing has changed."""
        if self._has_no_room_for(group_id, request):
            future.set_result(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._tickets += 1
        ticket = self._tickets
        self._waiting[ticket] = future
        try:
            self._decide(group_id, request, ticket)
        except BaseException:
            del self._waiting[ticket]
            raise

    def tell(self, group_id: str, request: Request) -> None:
        """What nobody waits for."""
        self._decide(group_id, request, NOBODY)

    def rang(self, group_id: str, timer: GroupTimer) -> None:
        self._timers.discard((group_id, timer))
        self.tell(group_id, TimerRang(timer))

    def close(self) -> None:
        """All who wait are told NOT_COORDINATOR, all timers are off."""
        for group_id in list(self.cells):
            self.tell(group_id, Close())
        self.abandon(ErrorCode.NOT_COORDINATOR)

    def abandon(self, refusal: ErrorCode) -> None:
        """Without deciding anything: what the groups are is not known any more."""
        for future in self._waiting.values():
            if not future.done():
                future.set_result(refusal)
        self._waiting.clear()
        for group_id, timer in self._timers:
            self._environment.timers.cancel((self, group_id, timer))
        self._timers.clear()
        for cell in self.cells.values():
            self._account(cell.charged_bytes, 0, cell.live_records, 0)
        self.cells.clear()

    def groups(self) -> Iterator[Group]:
        return (cell.group for cell in self.cells.values())

    # -- decide and do -----------------------------------------------------------------------------------

    def _decide(self, group_id: str, request: Request, ticket: int) -> None:
        cell = self.cells.get(group_id)
        if cell is None:
            cell = KnownGroup(Group(group_id))
        environment = self._environment
        decision = decide(cell.group, request, ticket, environment.clock.now_ms(), environment.settings)
        records = [encode_record(record) for record in decision.records]
        self._take(group_id, cell, decision, stays=isinstance(request, DeleteOffsets))
        if records:
            self.writer.add(records, group_id)
        for action in decision.actions:
            match action:
                case AnswerTo(answered, answer):
                    self.writer.give(group_id, self._waiting.pop(answered), answer)
                case SetTimer(timer, delay_ms):
                    self._set_timer(group_id, timer, delay_ms)
                case CancelTimer(timer):
                    self._cancel_timer(group_id, timer)

    def _take(self, group_id: str, cell: KnownGroup, decision: Decision, *, stays: bool) -> None:
        """``stays``: without its offsets it is an empty group all the same, as in Kafka; the next look for expired ones
        forgets it."""
        was_known = group_id in self.cells
        bytes_before, live_before = (cell.charged_bytes, cell.live_records) if was_known else (0, 0)
        cell.group = decision.group
        for record in decision.records:
            cell.apply(record)
        if cell.is_nothing and not (was_known and stays):
            self.cells.pop(group_id, None)
            self._account(bytes_before, 0, live_before, 0)
        else:
            self.cells[group_id] = cell
            self._account(bytes_before, cell.charged_bytes, live_before, cell.live_records)

    def _account(self, bytes_before: int, bytes_after: int, live_before: int, live_after: int) -> None:
        self._environment.memory.charge(bytes_after - bytes_before)
        self.live_records += live_after - live_before

    def _has_no_room_for(self, group_id: str, request: Request) -> bool:
        """Whoever is known goes on: heartbeats, rejoining members, offsets that are committed again; but while the log
        takes nothing, only what needs no record."""
        if isinstance(request, Join | Sync | Commit | MoveOffsets) and self.writer.has_backlog:
            return True
        if not isinstance(request, Join | Commit) or not self._environment.memory.is_full:
            return False
        cell = self.cells.get(group_id)
        if cell is None:
            return True
        if isinstance(request, Join):
            return request.member_id not in cell.group.members
        return any((offset.topic, offset.partition) not in cell.offsets for offset in request.offsets)

    # -- timers ------------------------------------------------------------------------------------------

    def _begin_sessions(self, group: Group) -> None:
        for member in group.members.values():
            session = GroupTimer(TimerKind.SESSION, member.member_id)
            self._set_timer(group.group_id, session, member.session_timeout_ms)

    def _set_timer(self, group_id: str, timer: GroupTimer, delay_ms: int) -> None:
        self._timers.add((group_id, timer))
        key = (self, group_id, timer)
        self._environment.timers.set(key, delay_ms, lambda: self._ring(group_id, timer))

    def _cancel_timer(self, group_id: str, timer: GroupTimer) -> None:
        self._timers.discard((group_id, timer))
        self._environment.timers.cancel((self, group_id, timer))


class OffsetExpiry:
    def __init__(
        self, groups: KnownGroups, environment: GroupEnvironment, on_failure: Callable[[Exception], None]
    ) -> None:
        self._groups = groups
        self._environment = environment
        self._on_failure = on_failure
        self._left: deque[str] = deque()

    def start(self) -> None:
        interval_ms = self._environment.settings.offsets_retention_check_interval_ms
        self._environment.timers.set(self, interval_ms, self._turn)

    def stop(self) -> None:
        self._environment.timers.cancel(self)

    def _turn(self) -> None:
        try:
            self._look()
        except Exception as bug:
            self._on_failure(bug)
            return
        if self._left:
            self._environment.timers.set(self, 0, self._turn)
        else:
            self.start()

    def _look(self) -> None:
        if not self._left:
            self._left.extend(self._groups.cells)
        looked_at = 0
        while self._left and looked_at < OFFSETS_LOOKED_AT_PER_TURN:
            group_id = self._left.popleft()
            cell = self._groups.cells.get(group_id)
            if cell is not None:
                looked_at += 1 + len(cell.offsets)
                kept_topics = self._environment.keeping_topics_of(group_id)
                self._groups.tell(group_id, ExpireOffsets(cell.offsets, kept_topics))
