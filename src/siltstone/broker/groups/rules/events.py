"""What a request is to the group it meets: an event of the table, or an answer at once because the request itself
is wrong.

Who is who: whether somebody is the member it says it is, and which members a request means.

What a JoinGroup is to the group it meets.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from siltstone.broker.groups.rules.actions import Answer, Left
from siltstone.broker.groups.rules.group import (
    CONSUMER_TYPE,
    Group,
    can_work_with,
    elected_protocol,
    subscribed_topics,
)
from siltstone.broker.groups.rules.member import MEMBER_OVERHEAD_BYTES, Member, protocols_bytes
from siltstone.broker.groups.rules.offset_steps import all_expire
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
    LeavingMember,
    MoveOffsets,
    Request,
    Sync,
    TimerKind,
    TimerRang,
)
from siltstone.broker.groups.rules.states import GroupEvent, GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode


def stranger(group: Group, member_id: str, instance_id: str | None) -> ErrorCode | None:
    """Why it is not that member. None: it is."""
    member = group.members.get(member_id)
    if instance_id is None or (member is not None and member.instance_id == instance_id):
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else None
    if group.static_member(instance_id) is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.FENCED_INSTANCE_ID


def going(group: Group, request: Leave | TimerRang) -> tuple[list[str], tuple[ErrorCode, ...]]:
    """The ids of members and newcomers that go, each once, and for each that the request names an error or none."""
    if isinstance(request, TimerRang):
        return [request.timer.member_id], ()
    member_ids: list[str] = []
    errors: list[ErrorCode] = []
    for leaving in request.members:
        found = _leaving_id(group, leaving)
        if found in member_ids:
            found = ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(found, ErrorCode):
            errors.append(found)
        else:
            member_ids.append(found)
            errors.append(ErrorCode.NONE)
    return member_ids, tuple(errors)


def _leaving_id(group: Group, leaving: LeavingMember) -> str | ErrorCode:
    if not leaving.member_id:
        member = None if leaving.instance_id is None else group.static_member(leaving.instance_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else member.member_id
    if leaving.member_id in group.pending:
        return leaving.member_id
    return stranger(group, leaving.member_id, leaving.instance_id) or leaving.member_id


def join_event(group: Group, join: Join, settings: GroupSettings) -> GroupEvent | ErrorCode:
    replaced = _replaced_by(group, join)
    replaced_id = None if replaced is None else replaced.member_id
    if not _has_room(group, join, replaced, settings):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not can_work_with(group, join.protocol_type, join.protocols, replaced_id):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if join.member_id:
        return _rejoin_event(group, join)
    if replaced is not None:
        return _return_event(group, join, replaced)
    if join.instance_id is None and join.takes_member_id:
        return GroupEvent.MEMBER_ID_WANTED
    return GroupEvent.MEMBER_JOINS


def _replaced_by(group: Group, join: Join) -> Member | None:
    """Whose place it takes: its own, or that of the static member that it is."""
    if join.member_id:
        return group.members.get(join.member_id)
    return None if join.instance_id is None else group.static_member(join.instance_id)


def _has_room(group: Group, join: Join, replaced: Member | None, settings: GroupSettings) -> bool:
    """During the join phase those count who are sure to stay: the limit may have been lowered, and then the last to
    rejoin are left out. Otherwise all members count. Ids that were given away take no place, only bytes."""
    known_bytes = 0 if replaced is None else protocols_bytes(replaced.protocols)
    own_bytes = MEMBER_OVERHEAD_BYTES + protocols_bytes(join.protocols) - known_bytes
    if group.charged_bytes + own_bytes > settings.group_bytes_max:
        return False
    if len(group.members) < settings.group_max_size:
        return True
    if group.state is GroupState.PREPARING:
        has_place = replaced is not None and (replaced.is_static or replaced.join_ticket is not None)
        places_taken = group.certain_members
    else:
        has_place = replaced is not None
        places_taken = len(group.members)
    return has_place or places_taken < settings.group_max_size


def _rejoin_event(group: Group, join: Join) -> GroupEvent | ErrorCode:
    if join.member_id in group.pending and join.instance_id is None:
        return GroupEvent.MEMBER_JOINS
    refusal = stranger(group, join.member_id, join.instance_id)
    if refusal is not None:
        return refusal
    if group.members[join.member_id].protocols != join.protocols:
        return GroupEvent.MEMBER_REJOINS_CHANGED
    is_leader = join.member_id == group.leader_id
    return GroupEvent.LEADER_REJOINS if is_leader else GroupEvent.FOLLOWER_REJOINS


def _return_event(group: Group, join: Join, replaced: Member) -> GroupEvent:
    """A static member that was restarted knows neither its id nor what it had: its metadata may differ without its
    wanting anything else. What counts is whether all still agree on the protocol, and on the topics."""
    returned = msgspec.structs.replace(replaced, protocols=join.protocols)
    members = [
        returned if member.member_id == replaced.member_id else member for member in group.members.values()
    ]
    protocol_name = elected_protocol(members)
    topics = subscribed_topics(group.protocol_type, protocol_name, [returned])
    topics_before = subscribed_topics(group.protocol_type, protocol_name, [replaced])
    if protocol_name == group.protocol_name and topics == topics_before:
        return GroupEvent.STATIC_MEMBER_RETURNS
    return GroupEvent.STATIC_MEMBER_RETURNS_CHANGED


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
