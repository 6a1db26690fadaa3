"""Decides a heartbeat of KIP-848: who the member is, what it wants, what it gets.

A wrong heartbeat gets the same error as from Apache Kafka 4.3 (GroupMetadataManager).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from siltstone.broker.groups.assigned.draft import answer_beat
from siltstone.broker.groups.assigned.group import JOINS, LEAVES, LEAVES_FOR_A_WHILE, Partitions
from siltstone.broker.groups.consumer_protocol.assignors import ASSIGNORS, UNIFORM, Subscriber
from siltstone.broker.groups.consumer_protocol.draft import ConsumerDraft
from siltstone.broker.groups.consumer_protocol.group import (
    ConsumerGroup,
    ConsumerMember,
    PatternTopics,
    consumer_member_bytes,
)
from siltstone.broker.groups.consumer_protocol.reconciliation import reconciled
from siltstone.broker.groups.ports import KnownTopic, KnownTopics
from siltstone.broker.groups.rules.requests import BeatAnswer, ConsumerBeat
from siltstone.broker.name_patterns import NamePattern, PatternRefused
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.serving_limits import CONSUMER_REGEX_INTERVAL_MS_MIN


def decide_beat(draft: ConsumerDraft, beat: ConsumerBeat) -> None:
    member = _member_of(draft, beat)
    if isinstance(member, ErrorCode):
        draft.answer(member)
    elif beat.epoch == LEAVES:
        remove_members(draft, [member])
        draft.answer(BeatAnswer(member.member_id, LEAVES, None))
    elif beat.epoch == LEAVES_FOR_A_WHILE:
        draft.put(replace(member, epoch=LEAVES_FOR_A_WHILE))
        draft.answer(BeatAnswer(member.member_id, LEAVES_FOR_A_WHILE, None))
    else:
        _go_on(draft, member, beat)


def remove_members(draft: ConsumerDraft, members: list[ConsumerMember]) -> None:
    """Removes members that leave, or whose time is over. The others get their partitions in the next epoch."""
    for member in members:
        draft.remove(member)
    draft.refresh_topics()
    draft.raise_epoch()


# -- who it is -------------------------------------------------------------------------------------------


def _member_of(draft: ConsumerDraft, beat: ConsumerBeat) -> ConsumerMember | ErrorCode:
    """Returns the member as it is in the group, or a new one; or why it is not a member."""
    if beat.instance_id is not None:
        return _static_member_of(draft, beat, beat.instance_id)
    known = draft.group.members.get(beat.member_id)
    if known is None:
        return _newcomer(draft, beat) if beat.epoch == JOINS else ErrorCode.UNKNOWN_MEMBER_ID
    return _checked_epoch(known, beat)


def _static_member_of(
    draft: ConsumerDraft, beat: ConsumerBeat, instance_id: str
) -> ConsumerMember | ErrorCode:
    known = draft.group.members.get(beat.member_id)
    if known is None or known.instance_id != instance_id:
        known = draft.group.static_member(instance_id)
    if known is None:
        return _newcomer(draft, beat) if beat.epoch == JOINS else ErrorCode.UNKNOWN_MEMBER_ID
    if known.member_id == beat.member_id:
        return _checked_epoch(known, beat)
    if beat.epoch != JOINS:
        return ErrorCode.FENCED_INSTANCE_ID
    is_free = known.is_away or known.classic is not None
    return taken_over(draft, known, beat.member_id) if is_free else ErrorCode.UNRELEASED_INSTANCE_ID


def _newcomer(draft: ConsumerDraft, beat: ConsumerBeat) -> ConsumerMember | ErrorCode:
    member = ConsumerMember(beat.member_id, instance_id=beat.instance_id)
    return newcomer(draft, _as_asked(member, beat), member)


def newcomer(
    draft: ConsumerDraft, asked: ConsumerMember, member: ConsumerMember
) -> ConsumerMember | ErrorCode:
    """Returns ``member`` if the group has room for it, as ``asked``."""
    group, settings = draft.group, draft.settings
    if len(group.members) >= settings.group_consumer_max_size:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if group.charged_bytes + consumer_member_bytes(asked) > settings.group_bytes_max:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    return member


def taken_over(draft: ConsumerDraft, away: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member that is back has another member id. It gets what it had, and nobody else is disturbed. A member
    of the classic protocol does not say that it leaves for a while."""
    target = draft.group.targets.get(away.member_id)
    draft.remove(away)
    back = replace(away, member_id=member_id)
    draft.put(back)
    if target is not None:
        draft.set_target(member_id, target)
    return back


def _checked_epoch(known: ConsumerMember, beat: ConsumerBeat) -> ConsumerMember | ErrorCode:
    """The answer with the present epoch may have been lost: the member may then still be in the epoch before, if it
    owns no more than what it was given."""
    if beat.epoch <= JOINS or beat.epoch == known.epoch:
        return known
    is_behind = beat.epoch < known.epoch and beat.epoch == known.previous_epoch
    if is_behind and beat.owned is not None and beat.owned <= known.assigned.keys():
        return known
    return ErrorCode.FENCED_MEMBER_EPOCH


# -- what it wants and what it gets ----------------------------------------------------------------------


def _go_on(draft: ConsumerDraft, member: ConsumerMember, beat: ConsumerBeat) -> None:
    asked = _as_asked(member, beat)
    after = take_step(
        draft,
        asked,
        beat.owned,
        resolve=lambda: _resolve_patterns(draft, beat, has_pattern=asked.regex is not None),
    )
    answer_beat(draft, after, asked, is_told=beat.epoch == JOINS or beat.is_full)


def take_step(
    draft: ConsumerDraft,
    asked: ConsumerMember,
    owned: Partitions | None,
    *,
    resolve: Callable[[], bool] = lambda: False,
    at_once: bool = False,
) -> ConsumerMember:
    """Puts the member as it ``asked`` into the group, assigns partitions if that is due or has to be done ``at_once``,
    and takes the member a step to its target. ``resolve``: looks for the topics of patterns, and returns whether others
    are found than before."""
    known = draft.group.members.get(asked.member_id)
    is_changed = known is None or (asked.topics, asked.regex) != (known.topics, known.regex)
    if asked != known:
        draft.put(asked)
    is_changed |= resolve()
    if is_changed or draft.group.seen is not draft.topics.all():
        is_changed |= draft.refresh_topics()
    if is_changed:
        draft.raise_epoch()
    _assign_if_due(draft, at_once=at_once)
    subscribed = subscribed_ids(draft.group, asked, draft.topics)
    after = reconciled(draft.group, asked, subscribed, owned)
    if after is not asked:
        draft.put(after)
    draft.watch_revocation(known, after)
    draft.keep_session(after)
    return after


def _as_asked(member: ConsumerMember, beat: ConsumerBeat) -> ConsumerMember:
    """Returns the same object if the member says nothing new."""
    asked = replace(
        member,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        topics=member.topics if beat.topics is None else tuple(sorted(set(beat.topics))),
        regex=member.regex if beat.regex is None else beat.regex or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if beat.rebalance_timeout_ms == -1
        else beat.rebalance_timeout_ms,
        assignor=member.assignor if beat.assignor is None else beat.assignor,
        classic=None,
    )
    return member if asked == member else asked


def _resolve_patterns(draft: ConsumerDraft, beat: ConsumerBeat, *, has_pattern: bool) -> bool:
    """Looks for the topics that match the members' patterns, as far as that is due. ``has_pattern``: whether this
    member has one. Returns whether others are found than before."""
    group = draft.group
    if not group.patterns and not has_pattern:  # nobody has one
        return False
    wanted = {member.regex for member in group.members.values() if member.regex}
    topics = draft.topics.all()
    is_changed = group.seen_by_patterns is not topics
    resolved = {
        pattern: known
        if (known := group.patterns.get(pattern)) is not None
        and not _is_due(draft, known, is_changed=is_changed)
        else PatternTopics(_matching(pattern, topics, beat), draft.now_ms)
        for pattern in sorted(wanted)
    }
    if all(found is not group.patterns.get(pattern) for pattern, found in resolved.items()):
        draft.change(seen_by_patterns=topics)
    if resolved == group.patterns:
        return False
    draft.change(patterns=resolved)
    before = {pattern: found.topics for pattern, found in group.patterns.items()}
    return any(before.get(pattern) != found.topics for pattern, found in resolved.items())


def _is_due(draft: ConsumerDraft, known: PatternTopics, *, is_changed: bool) -> bool:
    age_ms = draft.now_ms - known.resolved_ms
    refresh_ms = draft.settings.group_consumer_regex_refresh_interval_ms
    return age_ms >= refresh_ms or (is_changed and age_ms >= CONSUMER_REGEX_INTERVAL_MS_MIN)


def _matching(pattern: str, topics: Sequence[KnownTopic], beat: ConsumerBeat) -> tuple[str, ...]:
    """A pattern of the log that no program of today would take matches nothing."""
    try:
        compiled = NamePattern(pattern)
    except PatternRefused:
        return ()
    return tuple(sorted(each.name for each in topics if compiled.matches(each.name) and beat.sees(each.name)))


def _assign_if_due(draft: ConsumerDraft, *, at_once: bool) -> None:
    """Makes a target for the group's epoch, unless the last one is very young: many members that join at a time share
    the next one."""
    group = draft.group
    due_ms = group.assignment_ms + draft.settings.group_consumer_assignment_interval_ms
    is_young = bool(group.assignment_epoch) and draft.now_ms < due_ms and not at_once
    if group.epoch == group.assignment_epoch or is_young:
        return
    for member_id, target in _targets(draft).items():
        if group.targets.get(member_id) != target:
            draft.set_target(member_id, target)
    draft.change(assignment_epoch=group.epoch, assignment_ms=draft.now_ms)


def _targets(draft: ConsumerDraft) -> dict[str, Partitions]:
    group = draft.group
    subscribers = [
        Subscriber(
            member.member_id,
            member.instance_id,
            subscribed_ids(group, member, draft.topics),
            group.targets.get(member.member_id, frozenset()),
        )
        for member in group.members.values()
    ]
    return ASSIGNORS[preferred_assignor(group)](subscribers, partition_counts(group, draft.topics))


def preferred_assignor(group: ConsumerGroup) -> str:
    """Returns the assignor that most members with a wish wish for."""
    wishes = Counter(member.assignor for member in group.members.values() if member.assignor is not None)
    return wishes.most_common(1)[0][0] if wishes else UNIFORM


# -- the topics as they exist now --------------------------------------------------------------------------


def subscribed_ids(group: ConsumerGroup, member: ConsumerMember, topics: KnownTopics) -> frozenset[bytes]:
    """Returns the ids of the topics that exist."""
    known = (topics.by_name(name) for name in group.topics_of(member))
    return frozenset(topic.topic_id for topic in known if topic is not None)


def partition_counts(group: ConsumerGroup, topics: KnownTopics) -> Mapping[bytes, int]:
    """Returns topic id → number of partitions of all topics that any member subscribes to."""
    known = (topics.by_name(name) for name in group.names)
    return {topic.topic_id: topic.partition_count for topic in known if topic is not None}
