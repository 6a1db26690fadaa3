"""Steps of a rebalance: the join phase begins, lasts, ends with a new generation.

Steps of the second half of a rebalance: the leader's assignment reaches everybody.
"""

from siltstone.broker.groups.rules.actions import Assigned
from siltstone.broker.groups.rules.draft import JOIN_TIMER, SYNC_TIMER, Draft
from siltstone.broker.groups.rules.group import Group, InitialDelay, elected_protocol, subscribed_topics
from siltstone.broker.groups.rules.member import Member
from siltstone.broker.groups.rules.member_steps import joined
from siltstone.broker.groups.rules.requests import Request, Sync, TimerRang
from siltstone.broker.groups.rules.states import GroupState
from siltstone.kafka_protocol.error_code import ErrorCode


def begin_initial_delay(draft: Draft, _: Request) -> None:
    """A group that starts: who comes with the first is spared a rebalance each."""
    delay_ms = draft.settings.group_initial_rebalance_delay_ms
    remaining_ms = max(draft.group.rebalance_timeout_ms - delay_ms, 0)
    draft.change(initial=InitialDelay(remaining_ms))
    draft.set_timer(JOIN_TIMER, delay_ms)


def extend_initial_delay(draft: Draft, _: Request) -> None:
    """For as long as newcomers come, and at most for the rebalance timeout of the first."""
    assert draft.group.initial is not None
    remaining_ms = draft.group.initial.remaining_ms
    delay_ms = min(draft.settings.group_initial_rebalance_delay_ms, remaining_ms)
    draft.change(initial=InitialDelay(remaining_ms - delay_ms))
    draft.set_timer(JOIN_TIMER, delay_ms)


def begin_join_phase(draft: Draft, _: Request) -> None:
    draft.set_timer(JOIN_TIMER, draft.group.rebalance_timeout_ms)


def end_syncs(draft: Draft, _: Request) -> None:
    """Nobody gets an assignment of this generation any more."""
    draft.cancel_timer(SYNC_TIMER)
    was_completing = draft.before.state is GroupState.COMPLETING
    for member in list(draft.group.members.values()):
        told = draft.answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        if was_completing or told.must_sync:
            draft.alter(told, must_sync=False, assignment=b"" if was_completing else told.assignment)


def drop_missing(draft: Draft, _: Request) -> None:
    """Who has not joined is a member no more. Static members are: their session decides."""
    for member in list(draft.group.members.values()):
        if member.join_ticket is None and not member.is_static:
            draft.remove(member.member_id)


def elect_leader(draft: Draft, _: Request) -> None:
    """The one there is, if it has joined; else who has been a member for longest."""
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
    """Who has joined has to sync in time. A static member that is away does not: it is waited for until its session
    ends (Kafka removes it after the rebalance timeout)."""
    for member in list(draft.group.members.values()):
        told = draft.answer_join(member, joined(draft.group, member))
        has_joined = told is not member
        draft.alter(told, assignment=b"", is_new=False, must_sync=has_joined)
        if has_joined:
            draft.keep_session(told)
    draft.set_timer(SYNC_TIMER, draft.group.rebalance_timeout_ms)


def park_sync(draft: Draft, sync: Sync) -> None:
    """Until the leader has assigned. If it asked before, that request is void."""
    member = draft.group.members[sync.member_id]
    asked = draft.answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
    draft.alter(asked, sync_ticket=draft.ticket, must_sync=False)


def distribute(draft: Draft, sync: Sync) -> None:
    """To all: to the leader and who waits now, to the others when they ask."""
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
    """Who was told the generation and did not ask for its assignment."""
    for member in list(draft.group.members.values()):
        if member.must_sync:
            draft.remove(member.member_id)


def _assigned(group: Group, member: Member) -> Assigned:
    return Assigned(group.protocol_type, group.protocol_name, member.assignment)


def _end_sync_phase_if_complete(draft: Draft) -> None:
    if not draft.group.awaits_syncs:
        draft.cancel_timer(SYNC_TIMER)
