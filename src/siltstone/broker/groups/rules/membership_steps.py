"""Has the steps about members and rebalances, in the order in which a rebalance takes them: join, end of the join
phase, sync, sessions and leaving.

A member joins and awaits its answer. The end of the join phase removes the members that have not joined, elects the
leader and begins a generation; the answers go out, and each member has to sync. The leader's SyncGroup has the
assignment, which completes the rebalance. Steps about offsets are in ``offset_steps``.
"""

import msgspec

from siltstone.broker.groups.rules.decision import JOIN_TIMER, SYNC_TIMER, Draft
from siltstone.broker.groups.rules.group import (
    Group,
    InitialDelay,
    Member,
    elected_protocol,
    membership_error,
    subscribed_topics,
)
from siltstone.broker.groups.rules.requests import (
    Assigned,
    Close,
    Commit,
    Heartbeat,
    Join,
    Joined,
    JoinedMember,
    Leave,
    LeavingMember,
    Left,
    MemberIdGiven,
    Request,
    Sync,
    TimerRang,
)
from siltstone.broker.groups.rules.states import GroupState
from siltstone.kafka_protocol.error_code import ErrorCode

# -- join ------------------------------------------------------------------------------------------------


def give_member_id(draft: Draft, join: Join) -> None:
    """Answers with a new member id (KIP-394). If the client never gets this answer, only a pending id is left, and no
    member for which the others wait."""
    draft.change(pending=draft.group.pending | {join.new_member_id})
    draft.begin_session(join.new_member_id, join.session_timeout_ms)
    draft.answer(MemberIdGiven(join.new_member_id))


def take_in(draft: Draft, join: Join) -> None:
    """Adds a new member, or updates the known one; its JoinGroup is answered at the end of the join phase."""
    known = draft.group.members.get(join.member_id)
    if known is None:
        _add(draft, join)
    else:
        # An earlier JoinGroup of this member that still awaits an answer is void.
        draft.answer_join(known, ErrorCode.REBALANCE_IN_PROGRESS)
        draft.put(_updated(draft.group.members[join.member_id], join, draft.ticket))


def replace_static_member(draft: Draft, join: Join) -> None:
    """Replaces the id of a static member that was restarted (KIP-345). The member keeps its place, and a client that
    still uses the old id is fenced."""
    assert join.instance_id is not None
    old = draft.group.static_member(join.instance_id)
    assert old is not None
    was_leader = draft.group.leader_id == old.member_id
    old = draft.turn_away(old, ErrorCode.FENCED_INSTANCE_ID)
    draft.remove(old.member_id)
    new = msgspec.structs.replace(_updated(old, join, draft.ticket), member_id=join.new_member_id)
    draft.put(new)
    draft.keep_session(new)
    if was_leader:
        draft.change(leader_id=new.member_id)


def tell_generation(draft: Draft, join: Join) -> None:
    """Answers with the current generation, because the member's first answer may have been lost."""
    draft.answer(_joined(draft.group, draft.group.members[join.member_id]))


def tell_kept_generation(draft: Draft, join: Join) -> None:
    """Answers with the current generation, whose assignment stays valid. A leader that understands skip_assignment
    learns that it leads, and only watches for new partitions; any other leader must not learn it, because it would
    assign again."""
    assert join.instance_id is not None
    member = draft.group.static_member(join.instance_id)
    assert member is not None
    draft.alter(member, join_ticket=None)
    answer = _joined(draft.group, member)
    if join.can_skip_assignment:
        skips = msgspec.structs.replace(answer, skip_assignment=member.member_id == draft.group.leader_id)
        draft.answer(skips)
    else:
        leader_before = draft.before.leader_id or ""
        draft.answer(msgspec.structs.replace(answer, members=(), leader_id=leader_before))


def _add(draft: Draft, join: Join) -> None:
    group = draft.group
    member = Member(
        member_id=join.member_id or join.new_member_id,
        instance_id=join.instance_id,
        client_id=join.client_id,
        client_host=join.client_host,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        protocols=join.protocols,
        join_ticket=draft.ticket,
        is_new=True,
    )
    if not group.members:
        draft.change(protocol_type=join.protocol_type)
    if group.initial is not None:
        draft.change(initial=msgspec.structs.replace(group.initial, newcomers=True))
    draft.change(pending=group.pending - {member.member_id}, leader_id=group.leader_id or member.member_id)
    draft.put(member)
    draft.begin_session(member.member_id, draft.settings.new_member_join_timeout_ms)


def _updated(member: Member, join: Join, ticket: int) -> Member:
    return msgspec.structs.replace(
        member,
        client_id=join.client_id,
        client_host=join.client_host,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        protocols=join.protocols,
        join_ticket=ticket,
    )


def _joined(group: Group, member: Member) -> Joined:
    """Returns the answer that has the group's generation for ``member``."""
    assert group.leader_id is not None
    return Joined(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        members=_all_members(group) if member.member_id == group.leader_id else (),
    )


def _all_members(group: Group) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.metadata_of(group.protocol_name))
        for member in group.members.values()
    )


# -- the join phase --------------------------------------------------------------------------------------


def begin_initial_delay(draft: Draft, _: Request) -> None:
    """Begins the delay of an empty group: it waits a while for more members after the first one, which saves a
    rebalance for each of them."""
    delay_ms = draft.settings.group_initial_rebalance_delay_ms
    remaining_ms = max(draft.group.rebalance_timeout_ms - delay_ms, 0)
    draft.change(initial=InitialDelay(remaining_ms))
    draft.set_timer(JOIN_TIMER, delay_ms)


def extend_initial_delay(draft: Draft, _: Request) -> None:
    """Extends the delay while new members join, in all by at most the rebalance timeout of the first."""
    assert draft.group.initial is not None
    remaining_ms = draft.group.initial.remaining_ms
    delay_ms = min(draft.settings.group_initial_rebalance_delay_ms, remaining_ms)
    draft.change(initial=InitialDelay(remaining_ms - delay_ms))
    draft.set_timer(JOIN_TIMER, delay_ms)


def begin_join_phase(draft: Draft, _: Request) -> None:
    draft.set_timer(JOIN_TIMER, draft.group.rebalance_timeout_ms)


def end_syncs(draft: Draft, _: Request) -> None:
    """Ends the sync phase of the generation: no member gets an assignment of it after this."""
    draft.cancel_timer(SYNC_TIMER)
    was_completing = draft.before.state is GroupState.COMPLETING
    for member in list(draft.group.members.values()):
        answered = draft.answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        if was_completing or answered.must_sync:
            draft.alter(answered, must_sync=False, assignment=b"" if was_completing else answered.assignment)


def drop_missing(draft: Draft, _: Request) -> None:
    """Removes the members that have not joined, except static members: those stay until their sessions end."""
    for member in list(draft.group.members.values()):
        if member.join_ticket is None and not member.is_static:
            draft.remove(member.member_id)


def elect_leader(draft: Draft, _: Request) -> None:
    """Elects the leader: the leader stays leader if it has joined; otherwise the oldest member that has joined becomes
    leader."""
    members = draft.group.members
    leader = members.get(draft.group.leader_id or "")
    if leader is None or leader.join_ticket is None:
        heir = next(member for member in members.values() if member.join_ticket is not None)
        draft.change(leader_id=heir.member_id)


def next_generation(draft: Draft, _: Request) -> None:
    draft.cancel_timer(JOIN_TIMER)
    members = list(draft.group.members.values())
    protocol_name = elected_protocol(members) if members else None
    draft.change(
        generation=draft.group.generation + 1,
        protocol_name=protocol_name,
        subscribed_topics=subscribed_topics(draft.group.protocol_type, protocol_name, members),
        initial=None,
    )


def tell_joined(draft: Draft, _: Request) -> None:
    """Answers the members that have joined; each of them must sync before the sync timer rings. A static member that
    has not joined need not sync: it stays until its session ends (Kafka removes it after the rebalance timeout)."""
    for member in list(draft.group.members.values()):
        answered = draft.answer_join(member, _joined(draft.group, member))
        has_joined = answered is not member
        draft.alter(answered, assignment=b"", is_new=False, must_sync=has_joined)
        if has_joined:
            draft.keep_session(answered)
    draft.set_timer(SYNC_TIMER, draft.group.rebalance_timeout_ms)


# -- sync ------------------------------------------------------------------------------------------------


def park_sync(draft: Draft, sync: Sync) -> None:
    """Lets the member's SyncGroup await the leader's assignment. An earlier SyncGroup of this member is void."""
    member = draft.group.members[sync.member_id]
    asked = draft.answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.alter(asked, sync_ticket=draft.ticket, must_sync=False)


def distribute(draft: Draft, sync: Sync) -> None:
    """Stores the leader's assignment, and answers the leader and every SyncGroup that awaits it; the other members get
    theirs when they sync."""
    for member in list(draft.group.members.values()):
        assignment = sync.assignments.get(member.member_id, b"")
        has_synced = member.member_id == sync.member_id
        assigned = draft.alter(member, assignment=assignment, must_sync=member.must_sync and not has_synced)
        draft.answer_sync(assigned, _assigned(draft.group, assigned))
        if has_synced:
            draft.answer(_assigned(draft.group, assigned))
    _end_sync_phase_if_complete(draft)


def tell_assignment(draft: Draft, sync: Sync) -> None:
    member = draft.alter(draft.group.members[sync.member_id], must_sync=False)
    draft.answer(_assigned(draft.group, member))
    _end_sync_phase_if_complete(draft)


def drop_silent(draft: Draft, _: TimerRang) -> None:
    """Removes the members that were answered with the generation and have not sent SyncGroup."""
    for member in list(draft.group.members.values()):
        if member.must_sync:
            draft.remove(member.member_id)


def _assigned(group: Group, member: Member) -> Assigned:
    return Assigned(group.protocol_type, group.protocol_name, member.assignment)


def _end_sync_phase_if_complete(draft: Draft) -> None:
    if not draft.group.awaits_syncs:
        draft.cancel_timer(SYNC_TIMER)


# -- sessions and leaving --------------------------------------------------------------------------------


def keep_session(draft: Draft, request: Sync | Heartbeat | Commit | TimerRang) -> None:
    member_id = request.timer.member_id if isinstance(request, TimerRang) else request.member_id
    draft.keep_session(draft.group.members[member_id])


def tell_all_is_well(draft: Draft, _: Heartbeat) -> None:
    draft.answer(ErrorCode.NONE)


def tell_rebalance(draft: Draft, _: Heartbeat) -> None:
    draft.answer(ErrorCode.REBALANCE_IN_PROGRESS)


def remove(draft: Draft, request: Leave | TimerRang) -> None:
    """Removes a member. Its requests that await an answer get UNKNOWN_MEMBER_ID, so a client that is still alive joins
    as a new member."""
    member_ids, errors = leaving_members(draft.group, request)
    for member_id in member_ids:
        if member_id in draft.group.pending:
            draft.change(pending=draft.group.pending - {member_id})
            draft.end_session(member_id)
        else:
            draft.turn_away(draft.group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
            draft.remove(member_id)
    if isinstance(request, Leave):
        draft.answer(Left(errors))


def leaving_members(group: Group, request: Leave | TimerRang) -> tuple[list[str], tuple[ErrorCode, ...]]:
    """Returns the ids of the members and the pending ids to be removed, each once, and an error code for each member
    that the request names."""
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
    return membership_error(group, leaving.member_id, leaving.instance_id) or leaving.member_id


def save(draft: Draft, _: Request) -> None:
    draft.save()


def dismiss(draft: Draft, _: Close) -> None:
    """Refuses every request that awaits an answer and cancels every timer."""
    for timer in (JOIN_TIMER, SYNC_TIMER):
        draft.cancel_timer(timer)
    for member in list(draft.group.members.values()):
        draft.turn_away(member, ErrorCode.NOT_COORDINATOR)
        draft.remove(member.member_id)
    for member_id in draft.group.pending:
        draft.end_session(member_id)
    draft.change(pending=frozenset())
