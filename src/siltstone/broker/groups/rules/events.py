"""What a request is to the group it meets: an event of the table, or an answer at once because the request itself
is wrong."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from siltstone.broker.groups.rules.actions import Answer, Left
from siltstone.broker.groups.rules.expiry import all_expire
from siltstone.broker.groups.rules.group import CONSUMER_TYPE, Group
from siltstone.broker.groups.rules.join_events import join_event
from siltstone.broker.groups.rules.membership import going, stranger
from siltstone.broker.groups.rules.requests import (
    Close,
    Commit,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ForgetOffsets,
    Heartbeat,
    Join,
    Leave,
    MoveOffsets,
    Request,
    Sync,
    TimerKind,
    TimerRang,
)
from siltstone.broker.groups.rules.states import GroupEvent, GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode

EventOrAnswer: TypeAlias = GroupEvent | Answer


def event_of(group: Group, request: Request, now_ms: int, settings: GroupSettings) -> EventOrAnswer:
    return _EVENTS[type(request)](group, request, now_ms, settings)


def join_end_event(group: Group) -> GroupEvent:
    members = group.members.values()
    if any(member.join_ticket is not None for member in members):
        return GroupEvent.JOIN_ENDS
    if any(member.is_static for member in members):
        return GroupEvent.JOIN_ENDS_DESERTED
    return GroupEvent.JOIN_ENDS_WITHOUT_MEMBERS


def _heartbeat_event(group: Group, beat: Heartbeat, _: int, __: GroupSettings) -> EventOrAnswer:
    return _wrong_generation(group, beat) or GroupEvent.MEMBER_BEATS


def _join_event(group: Group, join: Join, _: int, settings: GroupSettings) -> EventOrAnswer:
    return join_event(group, join, settings)


def _wrong_generation(group: Group, request: Heartbeat | Sync | Commit) -> ErrorCode | None:
    refusal = stranger(group, request.member_id, request.instance_id)
    if refusal is None and request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return refusal


def _sync_event(group: Group, sync: Sync, _: int, settings: GroupSettings) -> EventOrAnswer:
    refusal = _wrong_generation(group, sync)
    if refusal is not None:
        return refusal
    if _differs(sync.protocol_type, group.protocol_type) or _differs(sync.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if sync.member_id != group.leader_id:
        return GroupEvent.FOLLOWER_SYNCS
    assignments_bytes = sum(len(assignment) for assignment in sync.assignments.values())
    if group.members_bytes + assignments_bytes > settings.group_bytes_max:
        return ErrorCode.MESSAGE_TOO_LARGE
    return GroupEvent.LEADER_SYNCS


def _differs(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def _commit_event(group: Group, commit: Commit, _: int, __: GroupSettings) -> EventOrAnswer:
    """Without a generation it comes from an administrator, or from a consumer that was told its partitions by its
    program."""
    is_outsider = not commit.member_id and commit.instance_id is None
    if commit.generation < 0 and (is_outsider or group.state is GroupState.EMPTY):
        return GroupEvent.OUTSIDER_COMMITS
    return _wrong_generation(group, commit) or GroupEvent.MEMBER_COMMITS


def _leave_event(group: Group, leave: Leave, _: int, __: GroupSettings) -> EventOrAnswer:
    member_ids, errors = going(group, leave)
    if not member_ids:
        return Left(errors)
    if any(member_id in group.members for member_id in member_ids):
        return GroupEvent.MEMBERS_GO
    return GroupEvent.NEWCOMERS_GO


def _timer_event(group: Group, rang: TimerRang, _: int, __: GroupSettings) -> EventOrAnswer:
    match rang.timer.kind:
        case TimerKind.JOIN:
            initial = group.initial
            if initial is not None and initial.newcomers and initial.remaining_ms > 0:
                return GroupEvent.NEWCOMERS_DURING_DELAY
            return join_end_event(group)
        case TimerKind.SYNC:
            return GroupEvent.SYNC_TIME_ENDS
        case TimerKind.SESSION:
            return _session_event(group, rang.timer.member_id)


def _session_event(group: Group, member_id: str) -> GroupEvent:
    """Whoever waits for an answer cannot beat. A new member is given up all the same: its client may be long gone,
    and would leave one more such member with each attempt."""
    if member_id in group.pending:
        return GroupEvent.NEWCOMERS_GO
    member = group.members[member_id]
    waits = member.join_ticket is not None or member.sync_ticket is not None
    return GroupEvent.WAITING_MEMBER_IS_SILENT if waits and not member.is_new else GroupEvent.MEMBERS_GO


def _delete_offsets_event(group: Group, _: DeleteOffsets, __: int, ___: GroupSettings) -> EventOrAnswer:
    if group.protocol_type == CONSUMER_TYPE:
        return GroupEvent.OFFSETS_DELETED
    return GroupEvent.OFFSETS_DELETED_OF_OTHER_TYPE


def _expire_event(group: Group, expire: ExpireOffsets, now_ms: int, settings: GroupSettings) -> EventOrAnswer:
    if all_expire(group, expire, now_ms, settings):
        return GroupEvent.LAST_OFFSET_EXPIRES
    return GroupEvent.OFFSETS_EXPIRE


def _move_event(_: Group, move: MoveOffsets, __: int, ___: GroupSettings) -> EventOrAnswer:
    return GroupEvent.OFFSETS_OUTLIVED if move.spares_members else GroupEvent.BACKLOG_EVICTED


_EVENTS: Mapping[type[Request], Callable[[Group, Any, int, GroupSettings], EventOrAnswer]] = {
    Heartbeat: _heartbeat_event,
    Join: _join_event,
    Sync: _sync_event,
    Commit: _commit_event,
    Leave: _leave_event,
    TimerRang: _timer_event,
    DeleteOffsets: _delete_offsets_event,
    ExpireOffsets: _expire_event,
    MoveOffsets: _move_event,
    ForgetOffsets: lambda *_: GroupEvent.TOPIC_DELETED,
    DeleteGroup: lambda *_: GroupEvent.GROUP_DELETED,
    Close: lambda *_: GroupEvent.COORDINATOR_CLOSES,
}
