"""Decides one request to a share group: (group, request, now, topics) → decision. Pure.

A wrong heartbeat gets the same error as from Apache Kafka 4.3 (GroupMetadataManager).
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from siltstone.broker.groups.assigned.draft import (
    AssignedDraft,
    answer_beat,
    close_group,
    delete_group,
)
from siltstone.broker.groups.assigned.group import JOINS, LEAVES
from siltstone.broker.groups.offsets_log.keyed_values import PartitionOfId
from siltstone.broker.groups.offsets_log.share_records import SharedTopic
from siltstone.broker.groups.ports import KnownTopic, KnownTopics
from siltstone.broker.groups.rules.decision import GroupDecision
from siltstone.broker.groups.rules.requests import (
    BeatAnswer,
    ChangeShared,
    Close,
    Commit,
    CommitInTransaction,
    ConsumerBeat,
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
    ShareBeat,
    Sync,
    TimerRang,
)
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.groups.share_protocol.group import ShareGroup, ShareMember, share_member_bytes
from siltstone.broker.groups.share_protocol.log_records import share_records_between, share_tombstones_of
from siltstone.kafka_protocol.error_code import ErrorCode


class ShareDraft(AssignedDraft[ShareGroup]):
    def decision(self) -> GroupDecision[ShareGroup]:
        return self.decision_by(share_records_between, share_tombstones_of)


def decide_for_shares(
    group: ShareGroup,
    request: Request,
    ticket: int,
    now_ms: int,
    settings: GroupSettings,
    topics: KnownTopics,
) -> GroupDecision[ShareGroup]:
    """Does what ``rules.deciding.decide`` does."""
    draft = ShareDraft(group, ticket, now_ms, settings, topics)
    _STEPS[type(request)](draft, request)
    return draft.decision()


# -- members ---------------------------------------------------------------------------------------------


def _beat(draft: ShareDraft, beat: ShareBeat) -> None:
    known = draft.group.members.get(beat.member_id)
    member = _member_of(draft, known, beat)
    if isinstance(member, ErrorCode):
        draft.answer(member)
    elif beat.epoch == LEAVES:
        _remove(draft, member)
        draft.answer(BeatAnswer(member.member_id, LEAVES, None))
    else:
        _go_on(draft, known, member, beat)


def _member_of(draft: ShareDraft, known: ShareMember | None, beat: ShareBeat) -> ShareMember | ErrorCode:
    """Returns the member as it is in the group, or a new one; or why it is not a member. A member whose last answer
    was lost may be one epoch behind."""
    if known is None:
        return _newcomer(draft, beat) if beat.epoch == JOINS else ErrorCode.UNKNOWN_MEMBER_ID
    if beat.epoch > known.epoch or 0 < beat.epoch < known.epoch != beat.epoch != known.previous_epoch:
        return ErrorCode.FENCED_MEMBER_EPOCH
    return known


def _newcomer(draft: ShareDraft, beat: ShareBeat) -> ShareMember | ErrorCode:
    group, settings = draft.group, draft.settings
    if len(group.members) >= settings.group_share_max_size:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    member = ShareMember(beat.member_id)
    if group.charged_bytes + share_member_bytes(_as_asked(member, beat)) > settings.group_bytes_max:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    return member


def _go_on(draft: ShareDraft, known: ShareMember | None, member: ShareMember, beat: ShareBeat) -> None:
    asked = _as_asked(member, beat)
    if asked != known:
        draft.put(asked)
    is_changed = known is None or asked.topics != known.topics
    if is_changed or draft.group.seen is not draft.topics.all():
        is_changed |= draft.refresh_topics()
    if is_changed:
        draft.raise_epoch()
        _assign(draft)
    after = _settled(draft.group, asked)
    if after is not asked:
        draft.put(after)
    draft.begin_session(after.member_id, draft.settings.group_share_session_timeout_ms)
    answer_beat(draft, after, asked, is_told=beat.epoch == JOINS or beat.topics is not None)


def _as_asked(member: ShareMember, beat: ShareBeat) -> ShareMember:
    """Returns the same object if the member says nothing new."""
    asked = replace(
        member,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        topics=member.topics if beat.topics is None else tuple(sorted(set(beat.topics))),
    )
    return member if asked == member else asked


def _settled(group: ShareGroup, member: ShareMember) -> ShareMember:
    """Returns the member with its target, which is its own at once."""
    if member.epoch == group.assignment_epoch:
        return member
    target = group.targets.get(member.member_id, frozenset())
    return replace(member, epoch=group.assignment_epoch, previous_epoch=member.epoch, assigned=target)


def _remove(draft: ShareDraft, member: ShareMember) -> None:
    draft.remove(member)
    draft.refresh_topics()
    draft.raise_epoch()
    _assign(draft)


def _leave(draft: ShareDraft, leave: Leave) -> None:
    """Members of share groups leave by their heartbeats."""
    draft.answer(Left(tuple(ErrorCode.UNKNOWN_MEMBER_ID for _ in leave.members)))


def _timer(draft: ShareDraft, rang: TimerRang) -> None:
    member = draft.group.members.get(rang.timer.member_id)
    if member is not None:
        _remove(draft, member)


# -- topics and targets ----------------------------------------------------------------------------------


def _assign(draft: ShareDraft) -> None:
    """Makes the targets of the group's epoch at once: nobody has to give up anything first."""
    group = draft.group
    known = [topic for name in group.names if (topic := draft.topics.by_name(name)) is not None]
    draft.change(
        targets=assign_simply(group, known),
        assignment_epoch=group.epoch,
        assignment_ms=draft.now_ms,
        shared={
            **{topic_id: each for topic_id, each in group.shared.items() if draft.topics.by_id(topic_id)},
            **{
                topic.topic_id: SharedTopic(topic.name, tuple(range(topic.partition_count)))
                for topic in known
            },
        },
    )


def assign_simply(group: ShareGroup, topics: list[KnownTopic]) -> dict[str, frozenset[PartitionOfId]]:
    """Returns the partitions of each member: of each topic, every partition has a member and every member a partition,
    as evenly as that goes [Kafka: SimpleAssignor]."""
    targets: dict[str, set[PartitionOfId]] = {member_id: set() for member_id in group.members}
    for topic in topics:
        sharing = sorted(member.member_id for member in group.members.values() if topic.name in member.topics)
        count = topic.partition_count
        for place in range(max(count, len(sharing))):
            targets[sharing[place % len(sharing)]].add((topic.topic_id, place % count))
    return {member_id: frozenset(partitions) for member_id, partitions in targets.items()}


# -- the group -------------------------------------------------------------------------------------------


def _change_shared(draft: ShareDraft, change: ChangeShared) -> None:
    if draft.group.members:
        draft.answer(ErrorCode.NON_EMPTY_GROUP)
        return
    shared = {key: topic for key, topic in draft.group.shared.items() if topic.name not in change.removed}
    shared.update(change.added)
    if shared != draft.group.shared:
        draft.change(shared=shared)
    if not draft.group.is_saved:
        draft.change(epoch=1, assignment_epoch=1, assignment_ms=draft.now_ms)
    draft.answer(ErrorCode.NONE)


def _nothing(_: ShareDraft, __: ExpireOffsets | ForgetOffsets) -> None:
    """A share group has no committed offsets, and stays until it is deleted."""


def _refuse(code: ErrorCode) -> Callable[[ShareDraft, Any], None]:
    return lambda draft, _: draft.answer(code)


_not_this_kind = _refuse(ErrorCode.GROUP_ID_NOT_FOUND)

_STEPS: Mapping[type[Request], Callable[[ShareDraft, Any], None]] = {
    ShareBeat: _beat,
    ConsumerBeat: _not_this_kind,
    Join: _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    Sync: _refuse(ErrorCode.UNKNOWN_MEMBER_ID),
    Heartbeat: _refuse(ErrorCode.UNKNOWN_MEMBER_ID),
    Leave: _leave,
    TimerRang: _timer,
    Commit: _not_this_kind,
    CommitInTransaction: _not_this_kind,
    DeleteOffsets: _not_this_kind,
    ExpireOffsets: _nothing,
    MoveOffsets: _not_this_kind,
    ForgetOffsets: _nothing,
    ChangeShared: _change_shared,
    DeleteGroup: delete_group,
    Close: close_group,
}
