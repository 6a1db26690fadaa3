"""Steps about offsets: commit, move, delete and expire them, and delete the whole group.

The retention time of an offset (KIP-211) counts:

============================= ======================================================
state of the group            from
============================= ======================================================
empty, had members            the moment it became empty, or the commit if later
simple                        the commit
stable, topics known          the commit, for topics that no member subscribes to
any other                     never: the offset stays
============================= ======================================================

An offset that was committed with its own retention time expires by that time, except where the table says never. A
sum that passes 64 bits is cut to them, where Kafka's becomes negative and the offset expires at once.
Offsets in topics that keep their records for the group (siltstone.retention.groups) stay, so that the group resumes at
the records that were kept for it. Kafka counts from the moment of the first line alone, so that an offset which an
administrator sets in a group that has been empty for long expires at once.
"""

from collections.abc import Iterator
from typing import Any

from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    OffsetKey,
    OffsetRecord,
)
from siltstone.broker.groups.rules.decision import Draft
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import (
    Commit,
    CommitInTransaction,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ForgetOffsets,
    MoveOffsets,
    OffsetErrors,
    OffsetsMoved,
    OffsetToCommit,
    TopicPartition,
)
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.topic_configs.values import LONG_MAX

# -- steps -----------------------------------------------------------------------------------------------


def accept_offsets(draft: Draft, commit: Commit) -> None:
    """Accepts or refuses each offset by itself: one with too much metadata does not stop the others."""
    expires_ms = None if commit.retention_ms is None else min(draft.now_ms + commit.retention_ms, LONG_MAX)
    errors = [_accept_offset(draft, draft.records, offset, expires_ms) for offset in commit.offsets]
    draft.answer(OffsetErrors(tuple(errors)))


def accept_pending_offsets(draft: Draft, commit: CommitInTransaction) -> None:
    errors = [_accept_offset(draft, draft.pending, offset, None) for offset in commit.offsets]
    draft.answer(OffsetErrors(tuple(errors)))


def delete_offsets(draft: Draft, request: DeleteOffsets) -> None:
    """Offsets in topics that members subscribe to are refused: the members would commit them again."""
    errors: list[ErrorCode] = []
    has_members = bool(draft.group.members)
    for topic, partition in request.partitions:
        if has_members and draft.group.is_subscribed_to(topic):
            errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        errors.append(ErrorCode.NONE)
        if (topic, partition) in request.committed:
            _delete_offset(draft, (topic, partition))
    draft.answer(OffsetErrors(tuple(errors)))


def drop_expired_offsets(draft: Draft, request: ExpireOffsets) -> None:
    for topic_partition in expired_offsets(draft.group, request, draft.now_ms, draft.settings):
        _delete_offset(draft, topic_partition)


def forget_offsets(draft: Draft, request: ForgetOffsets) -> None:
    for topic_partition in request.committed:
        _delete_offset(draft, topic_partition)


def move_offsets(draft: Draft, request: MoveOffsets) -> None:
    """Moves offsets. A moved offset has no leader epoch, since the record at it is not known, and loses the old
    offset's metadata."""
    moved = {
        topic_partition: target
        for topic_partition, target in request.targets.items()
        if target > request.committed.get(topic_partition, 0)
    }
    for topic_partition, target in moved.items():
        key = OffsetKey(draft.group.group_id, *topic_partition)
        draft.records.append(OffsetRecord(key, CommittedOffset(target, -1, "", draft.now_ms)))
    draft.answer(OffsetsMoved(moved))


def forget_group(draft: Draft, request: DeleteGroup | ExpireOffsets) -> None:
    """Writes a tombstone for every record of the group."""
    for topic_partition in request.committed:
        _delete_offset(draft, topic_partition)
    if draft.group.is_saved:
        draft.records.append(GroupRecord(GroupKey(draft.group.group_id), None))
    for member_id in draft.group.pending:
        draft.end_session(member_id)
    draft.change(pending=frozenset())
    if isinstance(request, DeleteGroup):
        draft.answer(ErrorCode.NONE)


def _accept_offset(
    draft: Draft, accepted: list[Any], offset: OffsetToCommit, expires_ms: int | None
) -> ErrorCode:
    if len(offset.metadata.encode()) > draft.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = CommittedOffset(offset.offset, offset.leader_epoch, offset.metadata, draft.now_ms, expires_ms)
    key = OffsetKey(draft.group.group_id, offset.topic, offset.partition)
    accepted.append(OffsetRecord(key, committed))
    return ErrorCode.NONE


def _delete_offset(draft: Draft, topic_partition: TopicPartition) -> None:
    draft.records.append(OffsetRecord(OffsetKey(draft.group.group_id, *topic_partition), None))


# -- expiry ----------------------------------------------------------------------------------------------


def expired_offsets(
    group: Group, request: ExpireOffsets, now_ms: int, settings: GroupSettings
) -> Iterator[TopicPartition]:
    for topic_partition, committed in request.committed.items():
        if topic_partition[0] in request.kept_topics:
            continue
        if _is_dispensable(group, topic_partition[0]) and _is_past(group, committed, now_ms, settings):
            yield topic_partition


def all_expire(group: Group, request: ExpireOffsets, now_ms: int, settings: GroupSettings) -> bool:
    """Returns whether the group is empty and has no offset that stays."""
    if group.state is not GroupState.EMPTY or group.pending:
        return False
    return sum(1 for _ in expired_offsets(group, request, now_ms, settings)) == len(request.committed)


def _is_dispensable(group: Group, topic: str) -> bool:
    if group.state is GroupState.EMPTY:
        return True
    knows_topics = group.subscribed_topics is not None
    return group.state is GroupState.STABLE and knows_topics and not group.is_subscribed_to(topic)


def _is_past(group: Group, committed: CommittedOffset, now_ms: int, settings: GroupSettings) -> bool:
    if committed.expires_ms is not None:
        return now_ms >= committed.expires_ms
    since_ms = committed.committed_ms
    if group.state is GroupState.EMPTY and not group.is_simple:
        since_ms = max(since_ms, group.state_since_ms)
    return now_ms - since_ms >= settings.offsets_retention_ms
