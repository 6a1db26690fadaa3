"""OffsetFetch: one group up to version 7, several from version 8 on, by topic id from version 10 on.

A partition without a committed offset is no error and has offset -1 (item 46). A client that requires stable offsets is
refused the offsets that a transaction may still change (UNSTABLE_OFFSET_COMMIT), and asks again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.record import CommittedOffset
from siltstone.broker.groups.ports import KnownTopics
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.runtime.turns import side_by_side

TOP_LEVEL_ERROR_SINCE = 2
SEVERAL_SINCE = 8
MEMBERS_SINCE = 9
TOPIC_IDS_SINCE = 10
NOTHING_COMMITTED = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", committed_ms=-1)


class _Asked(msgspec.Struct, frozen=True):
    """A topic of the request. ``name``: the name under which its offsets are committed; None when no topic has the
    id."""

    name: str | None
    topic_id: bytes
    partitions: list[int]


async def handle_offset_fetch(
    groups: Groups, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    version = context.api_version
    if version >= SEVERAL_SINCE:
        named = {group.group_id: group for group in request.groups}  # a group named twice is answered once
        fetched = await side_by_side(
            lambda group: _fetch(groups, version, group, request.require_stable), named.values()
        )
        return OffsetFetchResponse(groups=fetched)
    single = _as_one_of_several(request)
    return _single_response(version, await _fetch(groups, version, single, request.require_stable))


async def _fetch(
    groups: Groups, version: int, request: OffsetFetchRequestGroup, requires_stable: bool
) -> OffsetFetchResponseGroup:
    by_id = version >= TOPIC_IDS_SINCE
    asked = (
        None if request.topics is None else [_asked(groups.topics, topic, by_id) for topic in request.topics]
    )

    def take(known: KnownGroup | None) -> list[OffsetFetchResponseTopics] | ErrorCode:
        if version >= MEMBERS_SINCE and (refusal := _membership_refusal(known, request)) is not None:
            return refusal
        topics = _everything(groups.topics, known, by_id) if asked is None else asked
        return [_topic_response(known, topic, requires_stable) for topic in topics]

    found = await groups.look(request.group_id, take)
    if isinstance(found, ErrorCode):
        topics = [_refused_topic(topic, found) for topic in asked or ()] if version < SEVERAL_SINCE else []
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics, error_code=found)
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=found)


def _membership_refusal(known: KnownGroup | None, request: OffsetFetchRequestGroup) -> ErrorCode | None:
    """A member of a group of KIP-848 that is in another epoch may have lost the partition meanwhile."""
    group = None if known is None else known.group
    if not isinstance(group, ConsumerGroup) or (request.member_id is None and request.member_epoch < 0):
        return None
    member = group.members.get(request.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None if request.member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def _asked(topics: KnownTopics, asked: OffsetFetchRequestTopics, by_id: bool) -> _Asked:
    """By name the topic need not exist: offsets may outlive their topic for a while."""
    if not by_id:
        return _Asked(asked.name, NO_UUID, asked.partition_indexes)
    topic = topics.by_id(asked.topic_id)
    return _Asked(None if topic is None else topic.name, asked.topic_id, asked.partition_indexes)


def _everything(topics: KnownTopics, known: KnownGroup | None, by_id: bool) -> Iterator[_Asked]:
    """Yields all topics with committed offsets; by id without the deleted topics, whose ids are not known."""
    partitions: dict[str, list[int]] = defaultdict(list)
    for topic, partition in () if known is None else known.offsets:
        partitions[topic].append(partition)
    for name, numbers in partitions.items():
        if not by_id:
            yield _Asked(name, NO_UUID, numbers)
        elif (existing := topics.by_name(name)) is not None:
            yield _Asked(name, existing.topic_id, numbers)


def _topic_response(
    known: KnownGroup | None, asked: _Asked, requires_stable: bool
) -> OffsetFetchResponseTopics:
    if asked.name is None:
        return _refused_topic(asked, ErrorCode.UNKNOWN_TOPIC_ID)
    return OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            _partition_response(partition, NOTHING_COMMITTED, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if requires_stable and _is_unstable(known, asked.name, partition)
            else _partition_response(partition, _committed(known, asked.name, partition))
            for partition in asked.partitions
        ],
    )


def _refused_topic(asked: _Asked, refusal: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=asked.name or "",
        topic_id=asked.topic_id,
        partitions=[
            _partition_response(partition, NOTHING_COMMITTED, refusal) for partition in asked.partitions
        ],
    )


def _is_unstable(known: KnownGroup | None, topic: str, partition: int) -> bool:
    return known is not None and (topic, partition) in known.pending.partitions


def _committed(known: KnownGroup | None, topic: str, partition: int) -> CommittedOffset:
    return NOTHING_COMMITTED if known is None else known.offsets.get((topic, partition), NOTHING_COMMITTED)


def _partition_response(
    partition: int, committed: CommittedOffset, error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )


# -- up to version 7 -------------------------------------------------------------------------------------


def _as_one_of_several(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


def _single_response(version: int, group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Version 1 has no error of the group: each partition gets the group's error (KAFKA-19439)."""
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(name=topic.name, partitions=list(_older_partitions(topic.partitions)))
            for topic in group.topics
        ],
        error_code=group.error_code if version >= TOP_LEVEL_ERROR_SINCE else ErrorCode.NONE,
    )


def _older_partitions(
    partitions: Iterable[OffsetFetchResponsePartitions],
) -> Iterator[OffsetFetchResponsePartition]:
    for partition in partitions:
        yield OffsetFetchResponsePartition(
            partition_index=partition.partition_index,
            committed_offset=partition.committed_offset,
            committed_leader_epoch=partition.committed_leader_epoch,
            metadata=partition.metadata,
            error_code=partition.error_code,
        )
