"""Steps of staying and going: sessions, leaving, and the end of the whole group."""

from siltstone.broker.groups.rules.actions import Left
from siltstone.broker.groups.rules.draft import JOIN_TIMER, SYNC_TIMER, Draft
from siltstone.broker.groups.rules.membership import going
from siltstone.broker.groups.rules.requests import Close, Commit, Heartbeat, Leave, Request, Sync, TimerRang
from siltstone.kafka_protocol.error_code import ErrorCode


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
