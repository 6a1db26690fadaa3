"""The known groups of one coordinator: each with its offsets, its timers and its share of the memory limit.

``KnownGroups.perform`` decides a request and performs the decision in the same turn of the event loop, so requests,
states and records have the same order. ``ask`` adds an answer that a caller awaits. ``OffsetExpiry`` deletes expired
offsets from time to time. The decisions are in ``rules``; the coordinator that owns all this is in ``coordinator``.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from siltstone.broker.coordination.timers import TimerHeap
from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup
from siltstone.broker.groups.group_kinds import (
    AnyGroup,
    decide_of_any_kind,
    own_count_of,
    own_records_of,
    timers_of,
)
from siltstone.broker.groups.log_writer import LogWriter
from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    GroupRecord,
    LogProducer,
    OffsetKey,
    OffsetRecord,
    Record,
    encode_record,
)
from siltstone.broker.groups.pending_offsets import PendingOffsets
from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.groups.rules.decision import AnswerTo, CancelTimer, GroupDecision, SetTimer
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import (
    Close,
    Commit,
    CommitInTransaction,
    ConsumerBeat,
    DeleteOffsets,
    ExpireOffsets,
    GroupTimer,
    Join,
    MoveOffsets,
    Request,
    ShareBeat,
    Sync,
    TimerRang,
    TopicPartition,
)
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.groups.share_protocol.group import ShareGroup
from siltstone.foundation.quantity_words import counted
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.serving_limits import OFFSETS_LOOKED_AT_PER_TURN
from siltstone.runtime.clock import Clock

GROUP_OVERHEAD_BYTES = 1_000
OFFSET_OVERHEAD_BYTES = 300
"""The memory that a group and an offset take besides their texts and bytes."""

NO_TICKET = 0
"""The ticket of a request that has no answer: the broker's own, such as a timer that rang."""

log = logging.getLogger(__name__)


# -- what the coordinators of a node share ---------------------------------------------------------------


class GroupMemory:
    """The memory that all groups of the node take together, and its limit."""

    def __init__(self, settings: GroupSettings) -> None:
        self._bytes_max = settings.groups_bytes_max
        self._is_full_logged = False
        self.bytes_used = 0

    def charge(self, change_bytes: int) -> None:
        self.bytes_used += change_bytes

    @property
    def is_full(self) -> bool:
        """Logs a warning each time the memory becomes full."""
        is_full = self.bytes_used >= self._bytes_max
        if is_full and not self._is_full_logged:
            log.warning(
                "consumer groups take %d bytes of memory, which is the limit: new members and new offsets are refused; "
                "raise groups.groups_bytes_max, or delete groups",
                self.bytes_used,
            )
        self._is_full_logged = is_full
        return is_full


def _none(_: str) -> Collection[str]:
    return ()


def _of_node(settings: GroupSettings, _: str) -> GroupSettings:
    return settings


class GroupEnvironment(msgspec.Struct, frozen=True):
    """Shared by all coordinators of a node. ``topics``: the existing topics. ``keeping_topics_of``: group id → the
    names of the topics that keep their records for that group. ``configured``: the settings of the node and a group id
    → the settings of that group."""

    settings: GroupSettings
    clock: Clock
    timers: TimerHeap
    memory: GroupMemory
    topics: KnownTopics
    keeping_topics_of: Callable[[str], Collection[str]] = _none
    configured: Callable[[GroupSettings, str], GroupSettings] = _of_node

    def settings_of(self, group_id: str) -> GroupSettings:
        return self.configured(self.settings, group_id)


# -- one group -------------------------------------------------------------------------------------------


class KnownGroup(msgspec.Struct, eq=False):
    """A group with its committed offsets. ``metadata`` is the group's newest record in the log, which lags behind
    ``group`` during a rebalance: a rebalance is not written. ``pending``: the offsets of transactions that have not
    ended. ``offsets_bytes``: the memory charged for the offsets."""

    group: AnyGroup
    metadata: GroupMetadata | None = None
    offsets: dict[TopicPartition, CommittedOffset] = msgspec.field(default_factory=dict)
    pending: PendingOffsets = msgspec.field(default_factory=PendingOffsets)
    offsets_bytes: int = 0

    @property
    def live_records(self) -> int:
        """The number of records from which the log can rebuild this group."""
        own = own_count_of(self.group)
        if own is None:
            own = self.metadata is not None
        return len(self.offsets) + len(self.pending) + own

    @property
    def charged_bytes(self) -> int:
        pending_bytes = OFFSET_OVERHEAD_BYTES * len(self.pending)
        return GROUP_OVERHEAD_BYTES + self.group.charged_bytes + self.offsets_bytes + pending_bytes

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Those with an offset, or with one that may become it."""
        return frozenset(self.offsets.keys() | self.pending.partitions)

    @property
    def is_nothing(self) -> bool:
        """Whether the group can be removed from memory: it has no members, no pending ids and no records."""
        group = self.group
        return group.is_dead or (group.is_empty and not group.pending and self.live_records == 0)

    def offsets_of(self, partition: TopicPartition) -> Iterator[CommittedOffset]:
        """Yields the committed offset, and the pending ones that may take its place."""
        if (committed := self.offsets.get(partition)) is not None:
            yield committed
        for _, pending in self.pending.in_order(partition):
            yield pending

    def apply(self, record: Record) -> None:
        """The record must be one of this group. Groups of other protocols than the classic one say themselves what
        their records say."""
        if isinstance(record, GroupRecord):
            self.metadata = record.metadata
        elif isinstance(record, OffsetRecord):
            self._apply_offset(record)

    def apply_pending(self, producer: LogProducer, record: OffsetRecord) -> None:
        """The record is one of the producer's transaction."""
        partition = (sys.intern(record.key.topic), record.key.partition)
        if record.committed is None:
            self.pending.removed(partition)
        else:
            self.pending.add(producer, partition, record.committed)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        for partition, committed in self.pending.end(producer_id, commits=commits):
            self._set_offset(partition, committed)

    def records_of_group(self) -> Iterator[Record]:
        """Yields the live records of the group itself; ``record_of_offset`` has the others."""
        yield from own_records_of(self.group)
        if self.metadata is not None:
            yield GroupRecord(GroupKey(self.group.group_id), self.metadata)

    def record_of_offset(self, topic_partition: TopicPartition) -> OffsetRecord | None:
        committed = self.offsets.get(topic_partition)
        if committed is None:
            return None
        return OffsetRecord(OffsetKey(self.group.group_id, *topic_partition), committed)

    def _apply_offset(self, record: OffsetRecord) -> None:
        """Topic names are interned: a thousand partitions of a topic in a hundred groups share one text."""
        topic_partition = (sys.intern(record.key.topic), record.key.partition)
        if record.committed is None:
            self.pending.removed(topic_partition)
        else:
            self.pending.replaced(topic_partition)
        self._set_offset(topic_partition, record.committed)

    def _set_offset(self, topic_partition: TopicPartition, committed: CommittedOffset | None) -> None:
        self.offsets_bytes -= _offset_bytes(self.offsets.pop(topic_partition, None))
        if committed is not None:
            self.offsets[topic_partition] = committed
        self.offsets_bytes += _offset_bytes(committed)


def _offset_bytes(committed: CommittedOffset | None) -> int:
    return 0 if committed is None else OFFSET_OVERHEAD_BYTES + len(committed.metadata)


# -- all groups of a coordinator -------------------------------------------------------------------------


def _log_rebalance(before: AnyGroup, after: AnyGroup) -> None:
    """Logs that a rebalance has ended or started, or that the last member has gone."""
    if isinstance(after, ConsumerGroup | ShareGroup):
        _log_new_targets(before, after)
    elif isinstance(before, Group):
        _log_generation(before, after)
    elif after.members:
        log.info("group %s has the classic protocol again", after.group_id)


def _log_new_targets(before: AnyGroup, after: ConsumerGroup | ShareGroup) -> None:
    members = counted(len(after.members), "member")
    if isinstance(before, Group) and before.members:
        log.info("group %s has the consumer protocol now, %s", after.group_id, members)
    elif before.members and not after.members:
        log.info("group %s is empty: its last member has left", after.group_id)
    elif isinstance(before, Group) or before.assignment_epoch != after.assignment_epoch:
        log.info(
            "group %s has a new assignment: epoch %d, %s", after.group_id, after.assignment_epoch, members
        )


def _log_generation(before: Group, after: Group) -> None:
    if before.state is after.state and before.generation == after.generation:
        return
    members = counted(len(after.members), "member")
    match after.state:
        case GroupState.STABLE:
            log.info("group %s was rebalanced: generation %d, %s", after.group_id, after.generation, members)
        case GroupState.EMPTY if before.members:
            log.info("group %s is empty: its last member has left", after.group_id)
        case _:
            log.debug("group %s is in state %s: %s", after.group_id, after.state.value, members)


class KnownGroups:
    """``by_id``: group id → known group. ``ring`` is called when a timer of a group rings, and must not raise."""

    def __init__(
        self,
        by_id: dict[str, KnownGroup],
        writer: LogWriter,
        environment: GroupEnvironment,
        ring: Callable[[str, GroupTimer], None],
    ) -> None:
        self.by_id = by_id
        self.writer = writer
        self._environment = environment
        self._ring = ring
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = NO_TICKET
        self._timers: set[tuple[str, GroupTimer]] = set()
        self._in_transaction: dict[int, set[str]] = {}
        """Producer id → the groups that have offsets in its transaction."""
        self.live_records = 0
        for group_id, known in by_id.items():
            for producer_id in known.pending.producer_ids():
                self._in_transaction.setdefault(producer_id, set()).add(group_id)
            self._account(0, known.charged_bytes, 0, known.live_records)
            self._begin_sessions(known.group)

    def groups(self) -> Iterator[AnyGroup]:
        return (known.group for known in self.by_id.values())

    # -- ask and perform ---------------------------------------------------------------------------------

    def ask(self, group_id: str, request: Request, future: "asyncio.Future[Any]") -> None:
        """Performs the request and resolves ``future`` with its answer, at once or later. Raises TextTooLong, and then
        nothing has changed."""
        if self._has_no_room_for(group_id, request):
            future.set_result(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._tickets += 1
        ticket = self._tickets
        self._waiting[ticket] = future
        try:
            self.perform(group_id, request, ticket)
        except BaseException:
            del self._waiting[ticket]
            raise

    def perform(self, group_id: str, request: Request, ticket: int = NO_TICKET) -> None:
        """Decides the request and performs the decision. Raises as ``ask``."""
        known = self.by_id.get(group_id)
        if known is None:
            known = KnownGroup(Group(group_id))
        environment = self._environment
        now_ms, settings = environment.clock.now_ms(), environment.settings_of(group_id)
        decision = decide_of_any_kind(known.group, request, ticket, now_ms, settings, environment.topics)
        records = [encode_record(record) for record in decision.records]
        is_one = not (isinstance(known.group, Group) and isinstance(decision.group, Group))
        pending = [encode_record(record) for record in decision.pending]
        producer = request.producer if isinstance(request, CommitInTransaction) else None
        self._take(group_id, known, decision, producer, stays=isinstance(request, DeleteOffsets))
        if records:
            self.writer.add(records, group_id, is_one=is_one)
        if pending:
            self.writer.add(pending, group_id, producer)
        for action in decision.actions:
            match action:
                case AnswerTo(answered, answer):
                    self.writer.give(group_id, self._waiting.pop(answered), answer)
                case SetTimer(timer, delay_ms, keeps):
                    if not keeps or (group_id, timer) not in self._timers:
                        self._set_timer(group_id, timer, delay_ms)
                case CancelTimer(timer):
                    self._cancel_timer(group_id, timer)

    def rang(self, group_id: str, timer: GroupTimer) -> None:
        self._timers.discard((group_id, timer))
        self.perform(group_id, TimerRang(timer))

    def close(self) -> None:
        """Answers every waiting request with NOT_COORDINATOR and cancels all timers."""
        for group_id in list(self.by_id):
            self.perform(group_id, Close())
        self.abandon(ErrorCode.NOT_COORDINATOR)

    def abandon(self, refusal: ErrorCode) -> None:
        """Answers every waiting request with ``refusal``, cancels all timers and removes all groups from memory,
        without deciding anything: the state of the groups is no longer certain."""
        for future in self._waiting.values():
            if not future.done():
                future.set_result(refusal)
        self._waiting.clear()
        for group_id, timer in self._timers:
            self._environment.timers.cancel((self, group_id, timer))
        self._timers.clear()
        for known in self.by_id.values():
            self._account(known.charged_bytes, 0, known.live_records, 0)
        self.by_id.clear()

    def end_transaction(self, producer_id: int, durable: "asyncio.Future[int]", *, commits: bool) -> None:
        """The marker of the producer's transaction was appended, and will be ``durable``."""
        group_ids = self._in_transaction.pop(producer_id, set()) & self.by_id.keys()
        for group_id in sorted(group_ids):
            known = self.by_id[group_id]
            bytes_before, live_before = known.charged_bytes, known.live_records
            known.end_transaction(producer_id, commits=commits)
            self._account(bytes_before, known.charged_bytes, live_before, known.live_records)
        self.writer.marked(group_ids, durable)

    def _take(
        self,
        group_id: str,
        known: KnownGroup,
        decision: GroupDecision[Any],
        producer: LogProducer | None,
        *,
        stays: bool,
    ) -> None:
        """``producer``: in whose transaction the ``decision.pending`` are. ``stays``: a known group that loses its last
        offset remains as an empty group, as in Kafka; the next check for expired offsets removes it."""
        was_known = group_id in self.by_id
        bytes_before, live_before = (known.charged_bytes, known.live_records) if was_known else (0, 0)
        _log_rebalance(known.group, decision.group)
        known.group = decision.group
        for record in decision.records:
            known.apply(record)
        for pending in decision.pending:
            assert producer is not None
            known.apply_pending(producer, pending)
            self._in_transaction.setdefault(producer.producer_id, set()).add(group_id)
        if known.is_nothing and not (was_known and stays):
            self.by_id.pop(group_id, None)
            self._account(bytes_before, 0, live_before, 0)
        else:
            self.by_id[group_id] = known
            self._account(bytes_before, known.charged_bytes, live_before, known.live_records)

    def _account(self, bytes_before: int, bytes_after: int, live_before: int, live_after: int) -> None:
        self._environment.memory.charge(bytes_after - bytes_before)
        self.live_records += live_after - live_before

    def _has_no_room_for(self, group_id: str, request: Request) -> bool:
        """While the log has a backlog, every request that may write a record is refused. While the memory is full, new
        members and new offsets are refused; heartbeats, members that rejoin and offsets that are committed again are
        not."""
        if (
            isinstance(
                request, Join | Sync | ConsumerBeat | ShareBeat | Commit | CommitInTransaction | MoveOffsets
            )
            and self.writer.has_backlog
        ):
            return True
        if (
            not isinstance(request, Join | ConsumerBeat | ShareBeat | Commit | CommitInTransaction)
            or not self._environment.memory.is_full
        ):
            return False
        known = self.by_id.get(group_id)
        if known is None:
            return True
        if isinstance(request, Join | ConsumerBeat | ShareBeat):
            return request.member_id not in known.group.members
        return any((offset.topic, offset.partition) not in known.offsets for offset in request.offsets)

    # -- timers ------------------------------------------------------------------------------------------

    def _begin_sessions(self, group: AnyGroup) -> None:
        for timer, delay_ms in timers_of(group, self._environment.settings_of(group.group_id)):
            self._set_timer(group.group_id, timer, delay_ms)

    def _set_timer(self, group_id: str, timer: GroupTimer, delay_ms: int) -> None:
        self._timers.add((group_id, timer))
        key = (self, group_id, timer)
        self._environment.timers.set(key, delay_ms, lambda: self._ring(group_id, timer))

    def _cancel_timer(self, group_id: str, timer: GroupTimer) -> None:
        self._timers.discard((group_id, timer))
        self._environment.timers.cancel((self, group_id, timer))


class OffsetExpiry:
    """Deletes the offsets that are past their retention time, at the interval of the settings; a check looks at about a
    thousand offsets in each turn of the event loop."""

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
            self._left.extend(self._groups.by_id)
        looked_at = 0
        while self._left and looked_at < OFFSETS_LOOKED_AT_PER_TURN:
            group_id = self._left.popleft()
            known = self._groups.by_id.get(group_id)
            if (
                known is not None and not known.pending
            ):  # a group with offsets in a transaction stays as it is
                looked_at += 1 + len(known.offsets)
                kept_topics = self._environment.keeping_topics_of(group_id)
                self._groups.perform(group_id, ExpireOffsets(known.offsets, kept_topics))
