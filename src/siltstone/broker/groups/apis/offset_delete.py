"""OffsetDelete: deletes committed offsets; those in topics that members of the group subscribe to are refused."""

from collections.abc import Iterator

from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.ports import NO_OFFSET
from siltstone.broker.groups.rules.requests import DeleteOffsets, OffsetErrors, TopicPartition
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle_offset_delete(
    groups: Groups, _: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    named = [
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    existing = [topic_partition for topic_partition in named if _exists(groups, topic_partition)]

    def if_known(known: KnownGroup | None) -> DeleteOffsets | ErrorCode:
        if known is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return DeleteOffsets(existing, frozenset(existing) & known.partitions)

    answer = await groups.commit(request.group_id, dict.fromkeys(existing, NO_OFFSET), if_known)
    if isinstance(answer, ErrorCode):
        return OffsetDeleteResponse(error_code=answer)
    assert isinstance(answer, OffsetErrors)
    errors = dict(zip(existing, answer.errors, strict=True))
    return OffsetDeleteResponse(topics=[_topic_response(topic, errors) for topic in request.topics])


def _exists(groups: Groups, topic_partition: TopicPartition) -> bool:
    name, partition = topic_partition
    topic = groups.topics.by_name(name)
    return topic is not None and 0 <= partition < topic.partition_count


def _topic_response(
    topic: OffsetDeleteRequestTopic, errors: dict[TopicPartition, ErrorCode]
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(name=topic.name, partitions=list(_partition_responses(topic, errors)))


def _partition_responses(
    topic: OffsetDeleteRequestTopic, errors: dict[TopicPartition, ErrorCode]
) -> Iterator[OffsetDeleteResponsePartition]:
    for partition in topic.partitions:
        error = errors.get((topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        yield OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
