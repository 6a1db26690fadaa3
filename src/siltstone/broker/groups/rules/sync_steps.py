"""Steps of the second half of a rebalance: the leader's assignment reaches everybody."""

from siltstone.broker.groups.rules.actions import Assigned
from siltstone.broker.groups.rules.draft import SYNC_TIMER, Draft
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.member import Member
from siltstone.broker.groups.rules.requests import Sync, TimerRang
from siltstone.kafka_protocol.error_code import ErrorCode


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
