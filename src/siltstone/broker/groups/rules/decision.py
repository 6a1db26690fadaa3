"""A decision about one request holds the new group, the answers to send, the timers to set, and the records to write.

Each request has a ticket; its answer names the ticket, and may be part of a later decision than the request's own.
Steps write a ``Draft``; ``Draft.decision`` is the finished value, which ``known_groups`` performs.
"""

from typing import Generic, TypeAlias, TypeVar

import msgspec

from siltstone.broker.groups.offsets_log.record import (
    GroupKey,
    GroupMetadata,
    GroupRecord,
    MemberMetadata,
    OffsetRecord,
    Record,
)
from siltstone.broker.groups.rules.group import Group, Member, member_bytes
from siltstone.broker.groups.rules.requests import Answer, GroupTimer, TimerKind
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode

G = TypeVar("G", bound=msgspec.Struct)
"""A group of the classic protocol or of KIP-848."""

JOIN_TIMER = GroupTimer(TimerKind.JOIN)
SYNC_TIMER = GroupTimer(TimerKind.SYNC)


class AnswerTo(msgspec.Struct, frozen=True):
    ticket: int
    answer: Answer


class SetTimer(msgspec.Struct, frozen=True):
    """Replaces the same timer if it is set, unless it ``keeps`` running."""

    timer: GroupTimer
    delay_ms: int
    keeps: bool = False


class CancelTimer(msgspec.Struct, frozen=True):
    timer: GroupTimer


Action: TypeAlias = AnswerTo | SetTimer | CancelTimer


class GroupDecision(msgspec.Struct, Generic[G], frozen=True):
    """``records`` must be durable before any of the answers is sent, and so must ``pending``, which are written in the
    transaction of the request."""

    group: G
    actions: tuple[Action, ...] = ()
    records: tuple[Record, ...] = ()
    pending: tuple[OffsetRecord, ...] = ()


class GroupDraft(Generic[G]):
    """A decision about a group that steps are still adding to. ``before`` is the group as the request
    found it, and is not changed."""

    def __init__(self, group: G, ticket: int, now_ms: int, settings: GroupSettings) -> None:
        self.before = group
        self.group = group
        self.ticket = ticket
        self.now_ms = now_ms
        self.settings = settings
        self.records: list[Record] = []
        self.pending: list[OffsetRecord] = []
        self.actions: list[Action] = []

    def change(self, **fields: object) -> None:
        self.group = msgspec.structs.replace(self.group, **fields)

    def answer(self, answer: Answer) -> None:
        """Answers the request that is being decided."""
        self.answer_ticket(self.ticket, answer)

    def answer_ticket(self, ticket: int, answer: Answer) -> None:
        self.actions.append(AnswerTo(ticket, answer))

    def begin_session(self, member_id: str, delay_ms: int) -> None:
        self.set_timer(GroupTimer(TimerKind.SESSION, member_id), delay_ms)

    def end_session(self, member_id: str) -> None:
        self.cancel_timer(GroupTimer(TimerKind.SESSION, member_id))

    def set_timer(self, timer: GroupTimer, delay_ms: int, *, keeps: bool = False) -> None:
        self.actions.append(SetTimer(timer, delay_ms, keeps))

    def cancel_timer(self, timer: GroupTimer) -> None:
        self.actions.append(CancelTimer(timer))


class Draft(GroupDraft[Group]):
    def __init__(self, group: Group, ticket: int, now_ms: int, settings: GroupSettings) -> None:
        super().__init__(group, ticket, now_ms, settings)
        self._members: dict[str, Member] | None = None
        self._to_be_saved = False

    def become(self, state: GroupState) -> None:
        if state is not self.group.state:
            self.change(state=state, state_since_ms=self.now_ms)

    def save(self) -> None:
        """Writes a record of the group as it is when the decision is complete."""
        self._to_be_saved = True

    def decision(self) -> GroupDecision[Group]:
        if self._to_be_saved:
            self.change(is_saved=True)
            self.records.append(GroupRecord(GroupKey(self.group.group_id), metadata_of(self.group)))
        return GroupDecision(self.group, tuple(self.actions), tuple(self.records), tuple(self.pending))

    # -- members -----------------------------------------------------------------------------------------

    def put(self, member: Member) -> None:
        members = self._own_members()
        replaced = members.get(member.member_id)
        members[member.member_id] = member
        change_bytes = member_bytes(member) - (0 if replaced is None else member_bytes(replaced))
        self.change(members_bytes=self.group.members_bytes + change_bytes)

    def alter(self, member: Member, **fields: object) -> Member:
        altered = msgspec.structs.replace(member, **fields)
        self.put(altered)
        return altered

    def remove(self, member_id: str) -> None:
        """Removes the member, its session timer and, if it is the leader, the group's leader. The member's requests
        must have been answered."""
        removed = self._own_members().pop(member_id)
        assert removed.join_ticket is None and removed.sync_ticket is None
        leader_id = None if self.group.leader_id == member_id else self.group.leader_id
        self.change(members_bytes=self.group.members_bytes - member_bytes(removed), leader_id=leader_id)
        self.end_session(member_id)

    def _own_members(self) -> dict[str, Member]:
        if self._members is None:
            self._members = dict(self.group.members)
            self.change(members=self._members)
        return self._members

    # -- answers -----------------------------------------------------------------------------------------

    def answer_join(self, member: Member, answer: Answer) -> Member:
        """Answers the member's JoinGroup if one awaits an answer."""
        if member.join_ticket is None:
            return member
        self.answer_ticket(member.join_ticket, answer)
        return self.alter(member, join_ticket=None)

    def answer_sync(self, member: Member, answer: Answer) -> Member:
        """Answers the member's SyncGroup if one awaits an answer, and restarts the member's session: it could not send
        heartbeats meanwhile."""
        if member.sync_ticket is None:
            return member
        self.answer_ticket(member.sync_ticket, answer)
        self.keep_session(member)
        return self.alter(member, sync_ticket=None)

    def turn_away(self, member: Member, refusal: ErrorCode) -> Member:
        """Refuses the requests of the member that await an answer."""
        return self.answer_sync(self.answer_join(member, refusal), refusal)

    # -- timers ------------------------------------------------------------------------------------------

    def keep_session(self, member: Member) -> None:
        self.begin_session(member.member_id, member.session_timeout_ms)


def metadata_of(group: Group) -> GroupMetadata:
    """The group must be *Empty* or *Stable*: other states are not written to the log."""
    assert group.state in {GroupState.EMPTY, GroupState.STABLE}
    return GroupMetadata(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        state_since_ms=group.state_since_ms,
        members=tuple(
            MemberMetadata(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata_of(group.protocol_name),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )
