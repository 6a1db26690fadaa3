"""A group follows the rules of the classic protocol, the rules of KIP-848 or those of share groups. Pure.

The first request of a member decides. A group changes between the first two kinds, and keeps its offsets: without
members with the next one, and with members as ``consumer_protocol.migration`` says. A share group stays one until it is
deleted.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from siltstone.broker.groups.assigned.group import JOINS
from siltstone.broker.groups.consumer_protocol.deciding import decide_for_consumers
from siltstone.broker.groups.consumer_protocol.draft import revocation_timer, session_ms_of
from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup, ConsumerMember, MemberState
from siltstone.broker.groups.consumer_protocol.log_records import count_of, records_of, tombstones_of
from siltstone.broker.groups.consumer_protocol.migration import (
    classic_ends,
    downgraded,
    is_to_be_classic,
    upgraded,
)
from siltstone.broker.groups.offsets_log.record import Record
from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.groups.rules.deciding import decide
from siltstone.broker.groups.rules.decision import AnswerTo, GroupDecision
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import (
    ChangeShared,
    ConsumerBeat,
    GroupTimer,
    Join,
    Request,
    ShareBeat,
    TimerKind,
)
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.groups.share_protocol.deciding import decide_for_shares
from siltstone.broker.groups.share_protocol.group import ShareGroup
from siltstone.broker.groups.share_protocol.log_records import share_count_of, share_records_of
from siltstone.kafka_protocol.error_code import ErrorCode

AnyGroup: TypeAlias = Group | ConsumerGroup | ShareGroup


def decide_of_any_kind(
    group: AnyGroup,
    request: Request,
    ticket: int,
    now_ms: int,
    settings: GroupSettings,
    topics: KnownTopics,
) -> GroupDecision[Any]:
    """``ticket``: the number under which this decision, or a later one, answers the request."""
    if isinstance(request, ShareBeat | ChangeShared):
        if isinstance(group, Group) and group.is_empty and not group.is_saved and not group.pending:
            group = ShareGroup(group.group_id)
        if not isinstance(group, ShareGroup):
            return GroupDecision(group, (AnswerTo(ticket, ErrorCode.GROUP_ID_NOT_FOUND),))
    if isinstance(group, ShareGroup):
        return decide_for_shares(group, request, ticket, now_ms, settings, topics)
    if isinstance(group, ConsumerGroup):
        return _decide_for_consumers(group, request, ticket, now_ms, settings, topics)
    if isinstance(request, ConsumerBeat):
        return _turned_to_consumers(group, request, ticket, now_ms, settings, topics)
    return decide(group, request, ticket, now_ms, settings)


def _decide_for_consumers(
    group: ConsumerGroup,
    request: Request,
    ticket: int,
    now_ms: int,
    settings: GroupSettings,
    topics: KnownTopics,
) -> GroupDecision[Any]:
    if isinstance(request, Join) and group.is_empty:
        decided = decide(Group(group.group_id), request, ticket, now_ms, settings)
        left = tombstones_of(group) if group.is_saved else iter(())
        return replace(decided, records=(*left, *decided.records))
    decision = decide_for_consumers(group, request, ticket, now_ms, settings, topics)
    if is_to_be_classic(group, decision.group, settings):
        return downgraded(group, decision, request, now_ms, settings, topics)
    return decision


def _turned_to_consumers(
    group: Group,
    beat: ConsumerBeat,
    ticket: int,
    now_ms: int,
    settings: GroupSettings,
    topics: KnownTopics,
) -> GroupDecision[Any]:
    """A group of the classic protocol changes with the first member of the new one, or stays if it does not get in."""
    turned = upgraded(group, settings, topics) if beat.epoch == JOINS else None
    if turned is None:
        return GroupDecision(group, (AnswerTo(ticket, ErrorCode.GROUP_ID_NOT_FOUND),))
    decision = decide_for_consumers(
        turned, beat, ticket, now_ms, settings, topics, logged=ConsumerGroup(group.group_id)
    )
    if not decision.group.has_consumer_members:
        return GroupDecision(group, decision.actions)
    ended = classic_ends(group, now_ms, settings)
    return replace(
        decision,
        actions=(*ended.actions, *decision.actions),
        records=(*ended.records, *decision.records),
    )


def name_of_kind(kind: type[AnyGroup]) -> str:
    """Returns the name of the type as clients see it."""
    return _ROWS[kind].name


def own_records_of(group: AnyGroup) -> Iterator[Record]:
    """Yields the records from which a group that is wholly in the log can be rebuilt; none for a classic group."""
    return _ROWS[type(group)].records_of(group)


def own_count_of(group: AnyGroup) -> int | None:
    """Returns how many ``own_records_of`` has; None for a group of the classic protocol."""
    return _ROWS[type(group)].count_of(group)


def timers_of(group: AnyGroup, settings: GroupSettings) -> Iterator[tuple[GroupTimer, int]]:
    """Yields the timers of a group that was loaded, and how long they run: in full, because nobody knows what was left
    of them."""
    session_ms = _ROWS[type(group)].session_ms
    for member in group.members.values():
        yield GroupTimer(TimerKind.SESSION, member.member_id), session_ms(member, settings)
        if isinstance(member, ConsumerMember) and member.state is MemberState.UNREVOKED:
            yield revocation_timer(member.member_id), member.rebalance_timeout_ms


class _Row(msgspec.Struct, frozen=True):
    """What the coordinator asks of a kind of group. ``session_ms``: of a member."""

    name: str
    records_of: Callable[[Any], Iterator[Record]]
    count_of: Callable[[Any], int | None]
    session_ms: Callable[[Any, GroupSettings], int]


_ROWS: Mapping[type[AnyGroup], _Row] = {
    Group: _Row("classic", lambda _: iter(()), lambda _: None, lambda member, _: member.session_timeout_ms),
    ConsumerGroup: _Row("consumer", records_of, count_of, session_ms_of),
    ShareGroup: _Row(
        "share",
        share_records_of,
        share_count_of,
        lambda _, settings: settings.group_share_session_timeout_ms,
    ),
}
