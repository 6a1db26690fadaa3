"""Decides one request: the request becomes an event, the table has a rule for the event, the rule's steps make the
decision.

``event_of`` says what a request means to the group that it meets: an event of ``states.TABLE``, or an answer at once
because the request itself is wrong. ``decide`` then walks the table.

After every decision: the group is in the state that the table names; in *PreparingRebalance* the join timer is set;
every request that awaits an answer belongs to a member; a join phase in which every member has joined has ended, unless
the initial delay is running.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from siltstone.broker.groups.rules import membership_steps, offset_steps
from siltstone.broker.groups.rules.decision import Draft, GroupDecision
from siltstone.broker.groups.rules.group import (
    CONSUMER_TYPE,
    MEMBER_OVERHEAD_BYTES,
    Group,
    Member,
    can_work_with,
    elected_protocol,
    membership_error,
    protocols_bytes,
    subscribed_topics,
)
from siltstone.broker.groups.rules.requests import (
    Answer,
    Close,
    Commit,
    CommitInTransaction,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ForgetOffsets,
    Heartbeat,
    Join,
    Leave,
    Left,
    MoveOffsets,
    Request,
    Sync,
    TimerKind,
    TimerRang,
)
from siltstone.broker.groups.rules.states import TABLE, GroupEvent, GroupState, Rule, Step
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode

STEPS: Mapping[Step, Callable[[Draft, Any], None]] = {
    Step.GIVE_MEMBER_ID: membership_steps.give_member_id,
    Step.TAKE_IN: membership_steps.take_in,
    Step.REPLACE_STATIC_MEMBER: membership_steps.replace_static_member,
    Step.TELL_GENERATION: membership_steps.tell_generation,
    Step.TELL_KEPT_GENERATION: membership_steps.tell_kept_generation,
    Step.BEGIN_INITIAL_DELAY: membership_steps.begin_initial_delay,
    Step.EXTEND_INITIAL_DELAY: membership_steps.extend_initial_delay,
    Step.BEGIN_JOIN_PHASE: membership_steps.begin_join_phase,
    Step.END_SYNCS: membership_steps.end_syncs,
    Step.DROP_MISSING: membership_steps.drop_missing,
    Step.ELECT_LEADER: membership_steps.elect_leader,
    Step.NEXT_GENERATION: membership_steps.next_generation,
    Step.TELL_JOINED: membership_steps.tell_joined,
    Step.PARK_SYNC: membership_steps.park_sync,
    Step.DISTRIBUTE: membership_steps.distribute,
    Step.TELL_ASSIGNMENT: membership_steps.tell_assignment,
    Step.DROP_SILENT: membership_steps.drop_silent,
    Step.KEEP_SESSION: membership_steps.keep_session,
    Step.TELL_ALL_IS_WELL: membership_steps.tell_all_is_well,
    Step.TELL_REBALANCE: membership_steps.tell_rebalance,
    Step.REMOVE: membership_steps.remove,
    Step.SAVE: membership_steps.save,
    Step.DISMISS: membership_steps.dismiss,
    Step.ACCEPT_OFFSETS: offset_steps.accept_offsets,
    Step.ACCEPT_PENDING_OFFSETS: offset_steps.accept_pending_offsets,
    Step.DELETE_OFFSETS: offset_steps.delete_offsets,
    Step.DROP_EXPIRED_OFFSETS: offset_steps.drop_expired_offsets,
    Step.FORGET_OFFSETS: offset_steps.forget_offsets,
    Step.MOVE_OFFSETS: offset_steps.move_offsets,
    Step.FORGET_GROUP: offset_steps.forget_group,
}

EventOrAnswer: TypeAlias = GroupEvent | Answer


def decide(
    group: Group, request: Request, ticket: int, now_ms: int, settings: GroupSettings
) -> GroupDecision[Group]:
    """``ticket``: the number under which this decision, or a later one, answers the request. ``group`` itself is not
    changed."""
    draft = Draft(group, ticket, now_ms, settings)
    event = event_of(group, request, now_ms, settings)
    if not isinstance(event, GroupEvent):
        draft.answer(event)
        return draft.decision()
    _walk(draft, TABLE[event][group.state], request)
    if _join_phase_is_over(draft.group):
        _walk(draft, TABLE[_join_end_event(draft.group)][draft.group.state], request)
    return draft.decision()


def _walk(draft: Draft, rule: Rule, request: Request) -> None:
    if rule.refusal is not None:
        draft.answer(rule.refusal)
    for step in rule.steps:
        STEPS[step](draft, request)
    draft.become(rule.to)


def _join_phase_is_over(group: Group) -> bool:
    return group.state is GroupState.PREPARING and group.initial is None and group.everybody_joined


def _join_end_event(group: Group) -> GroupEvent:
    members = group.members.values()
    if any(member.join_ticket is not None for member in members):
        return GroupEvent.JOIN_ENDS
    if any(member.is_static for member in members):
        return GroupEvent.JOIN_ENDS_DESERTED
    return GroupEvent.JOIN_ENDS_WITHOUT_MEMBERS


# -- which event a request is ----------------------------------------------------------------------------


def event_of(group: Group, request: Request, now_ms: int, settings: GroupSettings) -> EventOrAnswer:
    return _EVENTS[type(request)](group, request, now_ms, settings)


def _join_event(group: Group, join: Join, _: int, settings: GroupSettings) -> GroupEvent | ErrorCode:
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
    """Returns the member whose place the client takes: its own, or that of the static member with its instance id."""
    if join.member_id:
        return group.members.get(join.member_id)
    return None if join.instance_id is None else group.static_member(join.instance_id)


def _has_room(group: Group, join: Join, replaced: Member | None, settings: GroupSettings) -> bool:
    """During the join phase only the members that are sure to stay count: if the limit was lowered, the last members to
    rejoin are refused. In other states all members count. Pending member ids count as bytes, not as members."""
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
    refusal = membership_error(group, join.member_id, join.instance_id)
    if refusal is not None:
        return refusal
    if group.members[join.member_id].protocols != join.protocols:
        return GroupEvent.MEMBER_REJOINS_CHANGED
    is_leader = join.member_id == group.leader_id
    return GroupEvent.LEADER_REJOINS if is_leader else GroupEvent.FOLLOWER_REJOINS


def _return_event(group: Group, join: Join, replaced: Member) -> GroupEvent:
    """A static member that was restarted knows neither its member id nor its partitions, so its metadata may differ
    although its subscription does not. The member counts as unchanged if the group would still elect the same protocol,
    and the member subscribes to the same topics."""
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


def _wrong_generation(
    group: Group, request: Heartbeat | Sync | Commit | CommitInTransaction
) -> ErrorCode | None:
    refusal = membership_error(group, request.member_id, request.instance_id)
    if refusal is None and request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return refusal


def _heartbeat_event(group: Group, beat: Heartbeat, _: int, __: GroupSettings) -> EventOrAnswer:
    return _wrong_generation(group, beat) or GroupEvent.MEMBER_BEATS


def _leave_event(group: Group, leave: Leave, _: int, __: GroupSettings) -> EventOrAnswer:
    member_ids, errors = membership_steps.leaving_members(group, leave)
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
            return _join_end_event(group)
        case TimerKind.SYNC:
            return GroupEvent.SYNC_TIME_ENDS
        case TimerKind.SESSION:
            return _session_event(group, rang.timer.member_id)
        case TimerKind.REVOCATION:
            raise AssertionError("members of the classic protocol give their partitions back when they join")


def _session_event(group: Group, member_id: str) -> GroupEvent:
    """A client whose JoinGroup or SyncGroup awaits an answer cannot send heartbeats, so its member stays. A new
    member is removed all the same: its client may be gone, and each retry of such a client would add one more member.
    """
    if member_id in group.pending:
        return GroupEvent.NEWCOMERS_GO
    member = group.members[member_id]
    waits = member.join_ticket is not None or member.sync_ticket is not None
    return GroupEvent.WAITING_MEMBER_IS_SILENT if waits and not member.is_new else GroupEvent.MEMBERS_GO


def _commit_event(group: Group, commit: Commit, _: int, __: GroupSettings) -> EventOrAnswer:
    """A commit without a generation comes from an administrator, or from a consumer whose partitions were assigned by
    its program."""
    is_outsider = not commit.member_id and commit.instance_id is None
    if commit.generation < 0 and (is_outsider or group.state is GroupState.EMPTY):
        return GroupEvent.OUTSIDER_COMMITS
    return _wrong_generation(group, commit) or GroupEvent.MEMBER_COMMITS


def _transaction_event(group: Group, commit: CommitInTransaction, _: int, __: GroupSettings) -> EventOrAnswer:
    """The member is looked at only if the request names one: clients of the first versions name none."""
    if commit.generation < 0 and not commit.member_id and commit.instance_id is None:
        return GroupEvent.COMMITTED_IN_TRANSACTION
    return _wrong_generation(group, commit) or GroupEvent.COMMITTED_IN_TRANSACTION


def _delete_offsets_event(group: Group, _: DeleteOffsets, __: int, ___: GroupSettings) -> EventOrAnswer:
    if group.protocol_type == CONSUMER_TYPE:
        return GroupEvent.OFFSETS_DELETED
    return GroupEvent.OFFSETS_DELETED_OF_OTHER_TYPE


def _expire_event(group: Group, expire: ExpireOffsets, now_ms: int, settings: GroupSettings) -> EventOrAnswer:
    if offset_steps.all_expire(group, expire, now_ms, settings):
        return GroupEvent.LAST_OFFSET_EXPIRES
    return GroupEvent.OFFSETS_EXPIRE


def _move_event(_: Group, move: MoveOffsets, __: int, ___: GroupSettings) -> EventOrAnswer:
    return GroupEvent.OFFSETS_OUTLIVED if move.spares_members else GroupEvent.BACKLOG_EVICTED


_EVENTS: Mapping[type[Request], Callable[[Group, Any, int, GroupSettings], EventOrAnswer]] = {
    Join: _join_event,
    Sync: _sync_event,
    Heartbeat: _heartbeat_event,
    Leave: _leave_event,
    TimerRang: _timer_event,
    Commit: _commit_event,
    CommitInTransaction: _transaction_event,
    DeleteOffsets: _delete_offsets_event,
    ExpireOffsets: _expire_event,
    MoveOffsets: _move_event,
    ForgetOffsets: lambda *_: GroupEvent.TOPIC_DELETED,
    DeleteGroup: lambda *_: GroupEvent.GROUP_DELETED,
    Close: lambda *_: GroupEvent.COORDINATOR_CLOSES,
}
