"""Steps of staying and going: sessions, leaving, and the end of the whole group.

Steps of a JoinGroup: a place in the group, and an answer now or when the join phase ends.
"""

import msgspec

from siltstone.broker.groups.rules.actions import Joined, JoinedMember, Left, MemberIdGiven
from siltstone.broker.groups.rules.draft import JOIN_TIMER, SYNC_TIMER, Draft
from siltstone.broker.groups.rules.events import going
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.member import Member
from siltstone.broker.groups.rules.requests import (
    Close,
    Commit,
    Heartbeat,
    Join,
    Leave,
    Request,
    Sync,
    TimerRang,
)
from siltstone.kafka_protocol.error_code import ErrorCode


def give_member_id(draft: Draft, join: Join) -> None:
    """KIP-394: a client that never hears of its answer leaves an id behind, and no member that all others wait for."""
    draft.change(pending=draft.group.pending | {join.new_member_id})
    draft.begin_session(join.new_member_id, join.session_timeout_ms)
    draft.answer(MemberIdGiven(join.new_member_id))


def take_in(draft: Draft, join: Join) -> None:
    """As a new member, or in its place with what it says now; it waits for the join phase to end."""
    known = draft.group.members.get(join.member_id)
    if known is None:
        _add(draft, join)
    else:
        # If it asked before, that request is void.
        draft.answer_join(known, ErrorCode.REBALANCE_IN_PROGRESS)
        draft.put(_updated(draft.group.members[join.member_id], join, draft.ticket))


def replace_static_member(draft: Draft, join: Join) -> None:
    """KIP-345: what was restarted gets a new member id and keeps its place; whoever still has the old id is fenced."""
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
    """The generation there is: its first answer may have been lost."""
    draft.answer(joined(draft.group, draft.group.members[join.member_id]))


def tell_kept_generation(draft: Draft, join: Join) -> None:
    """The assignment stands. A leader that knows skip_assignment is told that it leads, and only looks whether
    partitions came; any other must not learn it, or it would assign anew."""
    assert join.instance_id is not None
    member = draft.group.static_member(join.instance_id)
    assert member is not None
    draft.alter(member, join_ticket=None)
    answer = joined(draft.group, member)
    if join.can_skip_assignment:
        skips = msgspec.structs.replace(answer, skip_assignment=member.member_id == draft.group.leader_id)
        draft.answer(skips)
    else:
        leader_before = draft.before.leader_id or ""
        draft.answer(msgspec.structs.replace(answer, members=(), leader_id=leader_before))


def joined(group: Group, member: Member) -> Joined:
    """What ``member`` is told of the group's generation."""
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


def keep_session(draft: Draft, request: Sync | Heartbeat | Commit | TimerRang) -> None:
    member_id = request.timer.member_id if isinstance(request, TimerRang) else request.member_id
    draft.keep_session(draft.group.members[member_id])


def tell_all_is_well(draft: Draft, _: Heartbeat) -> None:
    draft.answer(ErrorCode.NONE)


def tell_rebalance(draft: Draft, _: Heartbeat) -> None:
    draft.answer(ErrorCode.REBALANCE_IN_PROGRESS)


def remove(draft: Draft, request: Leave | TimerRang) -> None:
    """Requests of theirs that wait here are answered so that a client that lives after all joins as a new member."""
    member_ids, errors = going(draft.group, request)
    for member_id in member_ids:
        if member_id in draft.group.pending:
            draft.change(pending=draft.group.pending - {member_id})
            draft.end_session(member_id)
        else:
            draft.turn_away(draft.group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
            draft.remove(member_id)
    if isinstance(request, Leave):
        draft.answer(Left(errors))


def save(draft: Draft, _: Request) -> None:
    draft.save()


def dismiss(draft: Draft, _: Close) -> None:
    """Nobody is left waiting, nothing rings any more."""
    for timer in (JOIN_TIMER, SYNC_TIMER):
        draft.cancel_timer(timer)
    for member in list(draft.group.members.values()):
        draft.turn_away(member, ErrorCode.NOT_COORDINATOR)
        draft.remove(member.member_id)
    for member_id in draft.group.pending:
        draft.end_session(member_id)
    draft.change(pending=frozenset())
