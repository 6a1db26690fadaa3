"""Handles OffsetCommit: by topic name, from version 10 on by topic id. Each partition gets its own error."""

from collections.abc import Iterator

from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.ports import KnownTopic
from siltstone.broker.groups.rules.requests import Commit, OffsetErrors, OffsetToCommit
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10
NO_SUCH_GROUP_SINCE = 9
MEMBER_EPOCHS_SINCE = 9


async def handle_offset_commit(
    groups: Groups, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    checked = list(_checked(groups, context, request))
    offsets = [offset for offset in checked if isinstance(offset, OffsetToCommit)]
    errors = iter(await _commit(groups, context, request, offsets) if offsets else ())
    outcomes = iter([next(errors) if isinstance(offset, OffsetToCommit) else offset for offset in checked])
    return OffsetCommitResponse(topics=[_topic_response(topic, outcomes) for topic in request.topics])


def _checked(
    groups: Groups, context: RequestContext, request: OffsetCommitRequest
) -> Iterator[OffsetToCommit | ErrorCode]:
    """Yields for each partition, in the request's order, the offset to commit, or the error."""
    by_id = context.api_version >= TOPIC_IDS_SINCE
    for asked in request.topics:
        topic = groups.topics.by_id(asked.topic_id) if by_id else groups.topics.by_name(asked.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in asked.partitions:
            yield unknown if topic is None else _offset(topic, partition)


def _offset(topic: KnownTopic, partition: OffsetCommitRequestPartition) -> OffsetToCommit | ErrorCode:
    if not 0 <= partition.partition_index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetToCommit(
        topic=topic.name,
        partition=partition.partition_index,
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
    )


async def _commit(
    groups: Groups, context: RequestContext, request: OffsetCommitRequest, offsets: list[OffsetToCommit]
) -> tuple[ErrorCode, ...]:
    commit = Commit(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        offsets=offsets,
        retention_ms=None if request.retention_time_ms < 0 else request.retention_time_ms,
        knows_epochs=context.api_version >= MEMBER_EPOCHS_SINCE,
    )
    knows_no_such_group = context.api_version >= NO_SUCH_GROUP_SINCE

    def if_known(known: KnownGroup | None) -> Commit | ErrorCode:
        """Returns the commit, or the error for an unknown group: a commit creates a group only if it names no
        generation, and so no member."""
        if known is not None or commit.generation < 0:
            return commit
        return ErrorCode.GROUP_ID_NOT_FOUND if knows_no_such_group else ErrorCode.ILLEGAL_GENERATION

    targets = {(offset.topic, offset.partition): offset.offset for offset in offsets}
    answer = await groups.commit(request.group_id, targets, if_known)
    if isinstance(answer, OffsetErrors):
        return answer.errors
    assert isinstance(answer, ErrorCode)
    return (answer,) * len(offsets)


def _topic_response(
    topic: OffsetCommitRequestTopic, outcomes: Iterator[ErrorCode]
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=next(outcomes)
            )
            for partition in topic.partitions
        ],
    )
