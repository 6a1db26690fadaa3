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

from collections.abc import Iterable, Iterator
from typing import Any

from siltstone.broker.groups.offsets_log.record import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    OffsetKey,
    OffsetRecord,
)
from siltstone.broker.groups.rules.decision import Draft, GroupDraft
from siltstone.broker.groups.rules.group import OwnerOfOffsets
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
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.topic_configs.values import LONG_MAX

# -- steps -----------------------------------------------------------------------------------------------


def accept_offsets(draft: GroupDraft[Any], commit: Commit) -> None:
    draft.answer(OffsetErrors(tuple(accept(draft, draft.records, commit.offsets, commit.retention_ms))))


def accept_pending_offsets(draft: GroupDraft[Any], commit: CommitInTransaction) -> None:
    draft.answer(OffsetErrors(tuple(accept(draft, draft.pending, commit.offsets, None))))


def accept(
    draft: GroupDraft[Any], accepted: list[Any], offsets: Iterable[OffsetToCommit], retention_ms: int | None
) -> list[ErrorCode]:
    """Accepts or refuses each offset by itself: one with too much metadata does not stop the others."""
    expires_ms = None if retention_ms is None else min(draft.now_ms + retention_ms, LONG_MAX)
    return [_accept_offset(draft, accepted, offset, expires_ms) for offset in offsets]


def delete_offsets(draft: GroupDraft[Any], request: DeleteOffsets) -> None:
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


def drop_expired_offsets(draft: GroupDraft[Any], request: ExpireOffsets) -> None:
    for topic_partition in expired_offsets(draft.group, request, draft.now_ms, draft.settings):
        _delete_offset(draft, topic_partition)


def forget_offsets(draft: GroupDraft[Any], request: ForgetOffsets) -> None:
    delete_offsets_of(draft, request.committed)


def delete_offsets_of(draft: GroupDraft[Any], partitions: Iterable[TopicPartition]) -> None:
    for topic_partition in partitions:
        _delete_offset(draft, topic_partition)


def move_offsets(draft: GroupDraft[Any], request: MoveOffsets) -> None:
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
    delete_offsets_of(draft, request.committed)
    if draft.group.is_saved:
        draft.records.append(GroupRecord(GroupKey(draft.group.group_id), None))
    for member_id in draft.group.pending:
        draft.end_session(member_id)
    draft.change(pending=frozenset())
    if isinstance(request, DeleteGroup):
        draft.answer(ErrorCode.NONE)


def _accept_offset(
    draft: GroupDraft[Any], accepted: list[Any], offset: OffsetToCommit, expires_ms: int | None
) -> ErrorCode:
    if len(offset.metadata.encode()) > draft.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = CommittedOffset(offset.offset, offset.leader_epoch, offset.metadata, draft.now_ms, expires_ms)
    key = OffsetKey(draft.group.group_id, offset.topic, offset.partition)
    accepted.append(OffsetRecord(key, committed))
    return ErrorCode.NONE


def _delete_offset(draft: GroupDraft[Any], topic_partition: TopicPartition) -> None:
    draft.records.append(OffsetRecord(OffsetKey(draft.group.group_id, *topic_partition), None))


# -- expiry ----------------------------------------------------------------------------------------------


def expired_offsets(
    group: OwnerOfOffsets, request: ExpireOffsets, now_ms: int, settings: GroupSettings
) -> Iterator[TopicPartition]:
    for topic_partition, committed in request.committed.items():
        if topic_partition[0] in request.kept_topics:
            continue
        if not group.keeps_offsets_of(topic_partition[0]) and _is_past(group, committed, now_ms, settings):
            yield topic_partition


def all_expire(group: OwnerOfOffsets, request: ExpireOffsets, now_ms: int, settings: GroupSettings) -> bool:
    """Returns whether the group is empty and has no offset that stays."""
    if not group.is_empty or group.pending:
        return False
    return sum(1 for _ in expired_offsets(group, request, now_ms, settings)) == len(request.committed)


def _is_past(group: OwnerOfOffsets, committed: CommittedOffset, now_ms: int, settings: GroupSettings) -> bool:
    if committed.expires_ms is not None:
        return now_ms >= committed.expires_ms
    return now_ms - group.offset_age_begins_ms(committed) >= settings.offsets_retention_ms
