"""The table walked: a request becomes an event, the event a rule, the rule's steps a decision.

What holds after every decision: the group is in the state the table says; in *PreparingRebalance* the join timer is
set; every request that waits belongs to a member; a join phase in which everybody has joined has ended (but for the
initial delay).
"""

from collections.abc import Callable, Mapping
from typing import Any

from siltstone.broker.groups.rules import (
    member_steps,
    offset_steps,
    rebalance_steps,
)
from siltstone.broker.groups.rules.actions import Decision
from siltstone.broker.groups.rules.draft import Draft
from siltstone.broker.groups.rules.events import event_of, join_end_event
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import Request
from siltstone.broker.groups.rules.states import TABLE, GroupEvent, GroupState, Rule, Step
from siltstone.broker.groups.settings import GroupSettings

STEPS: Mapping[Step, Callable[[Draft, Any], None]] = {
    Step.GIVE_MEMBER_ID: member_steps.give_member_id,
    Step.TAKE_IN: member_steps.take_in,
    Step.REPLACE_STATIC_MEMBER: member_steps.replace_static_member,
    Step.TELL_GENERATION: member_steps.tell_generation,
    Step.TELL_KEPT_GENERATION: member_steps.tell_kept_generation,
    Step.BEGIN_INITIAL_DELAY: rebalance_steps.begin_initial_delay,
    Step.EXTEND_INITIAL_DELAY: rebalance_steps.extend_initial_delay,
    Step.BEGIN_JOIN_PHASE: rebalance_steps.begin_join_phase,
    Step.END_SYNCS: rebalance_steps.end_syncs,
    Step.DROP_MISSING: rebalance_steps.drop_missing,
    Step.ELECT_LEADER: rebalance_steps.elect_leader,
    Step.NEXT_GENERATION: rebalance_steps.next_generation,
    Step.TELL_JOINED: rebalance_steps.tell_joined,
    Step.PARK_SYNC: rebalance_steps.park_sync,
    Step.DISTRIBUTE: rebalance_steps.distribute,
    Step.TELL_ASSIGNMENT: rebalance_steps.tell_assignment,
    Step.DROP_SILENT: rebalance_steps.drop_silent,
    Step.KEEP_SESSION: member_steps.keep_session,
    Step.TELL_ALL_IS_WELL: member_steps.tell_all_is_well,
    Step.TELL_REBALANCE: member_steps.tell_rebalance,
    Step.REMOVE: member_steps.remove,
    Step.SAVE: member_steps.save,
    Step.DISMISS: member_steps.dismiss,
    Step.ACCEPT_OFFSETS: offset_steps.accept_offsets,
    Step.DELETE_OFFSETS: offset_steps.delete_offsets,
    Step.DROP_EXPIRED_OFFSETS: offset_steps.drop_expired_offsets,
    Step.FORGET_OFFSETS: offset_steps.forget_offsets,
    Step.MOVE_OFFSETS: offset_steps.move_offsets,
    Step.FORGET_GROUP: offset_steps.forget_group,
}


def decide(group: Group, request: Request, ticket: int, now_ms: int, settings: GroupSettings) -> Decision:
    """``ticket`` is what the request is answered under, in this decision or a later one. The group is not changed."""
    draft = Draft(group, ticket, now_ms, settings)
    event = event_of(group, request, now_ms, settings)
    if not isinstance(event, GroupEvent):
        draft.answer(event)
        return draft.decision()
    _walk(draft, TABLE[event][group.state], request)
    if _join_phase_is_over(draft.group):
        _walk(draft, TABLE[join_end_event(draft.group)][draft.group.state], request)
    return draft.decision()


def _walk(draft: Draft, rule: Rule, request: Request) -> None:
    if rule.refusal is not None:
        draft.answer(rule.refusal)
    for step in rule.steps:
        STEPS[step](draft, request)
    draft.become(rule.to)


def _join_phase_is_over(group: Group) -> bool:
    return group.state is GroupState.PREPARING and group.initial is None and group.everybody_joined
