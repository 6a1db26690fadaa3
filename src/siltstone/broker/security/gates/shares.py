"""The gates of requests about share groups. ShareFetch and ShareAcknowledge ask for each topic by themselves: a session
names topics that a request does not."""

from typing import Any

from msgspec.structs import replace

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import AnswerInPieces, RequestContext
from siltstone.broker.security.gates.gate import (
    DENIED_TEXT,
    GROUP_DENIED,
    TOPIC_DENIED,
    Handle,
    parted,
)
from siltstone.broker.security.gates.groups import of_beat, of_described, of_member
from siltstone.kafka_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from siltstone.kafka_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from siltstone.kafka_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from siltstone.kafka_protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from siltstone.kafka_protocol.messages.share_fetch import ShareFetchResponse
from siltstone.kafka_protocol.messages.share_group_describe import DescribedShareGroup
from siltstone.kafka_protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from siltstone.model.acls import AclOperation, AclResourceType

share_heartbeat = of_beat(ShareGroupHeartbeatResponse)
share_fetch = of_member(
    lambda *_: AnswerInPieces(
        ShareFetchResponse(error_code=GROUP_DENIED, error_message=DENIED_TEXT[GROUP_DENIED])
    )
)
share_acknowledge = of_member(
    lambda *_: ShareAcknowledgeResponse(error_code=GROUP_DENIED, error_message=DENIED_TEXT[GROUP_DENIED])
)

describe_shares = of_described(DescribedShareGroup)


async def describe_share_offsets(
    parts: BrokerParts, context: RequestContext, request: Any, handle: Handle
) -> Any:
    """Topics that were not named, and that the client may not see, are left out."""
    allowed, denied = await parted(
        lambda group: context.may(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id),
        request.groups,
    )
    hidden: dict[str, list[DescribeShareGroupOffsetsRequestTopic]] = {}
    asked = []
    for group in allowed:
        if group.topics is not None:
            seen, hidden[group.group_id] = await parted(
                lambda topic: context.may_topic(AclOperation.DESCRIBE, topic.topic_name), group.topics
            )
            group = replace(group, topics=seen)  # noqa: PLW2901
        asked.append(group)
    response = await handle(replace(request, groups=asked))
    rows = [
        replace(
            group,
            topics=[
                *(
                    topic
                    for topic in group.topics
                    if context.may_topic(AclOperation.DESCRIBE, topic.topic_name, is_named=False)
                ),
                *map(_hidden_offsets, hidden.get(group.group_id, ())),
            ],
        )
        for group in response.groups
    ]
    refused = [
        DescribeShareGroupOffsetsResponseGroup(
            group_id=group.group_id, error_code=GROUP_DENIED, error_message=DENIED_TEXT[GROUP_DENIED]
        )
        for group in denied
    ]
    return replace(response, groups=[*rows, *refused])


def _hidden_offsets(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=TOPIC_DENIED, error_message=DENIED_TEXT[TOPIC_DENIED]
            )
            for index in topic.partitions
        ],
    )


async def alter_share_offsets(
    parts: BrokerParts, context: RequestContext, request: AlterShareGroupOffsetsRequest, handle: Handle
) -> Any:
    if not context.may(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return AlterShareGroupOffsetsResponse(
            error_code=GROUP_DENIED, error_message=DENIED_TEXT[GROUP_DENIED]
        )
    allowed, denied = await parted(
        lambda topic: context.may_topic(AclOperation.READ, topic.topic_name), request.topics
    )
    response = await handle(replace(request, topics=allowed))
    return replace(response, responses=[*response.responses, *map(_unaltered, denied)])


def _unaltered(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index,
                error_code=TOPIC_DENIED,
                error_message=DENIED_TEXT[TOPIC_DENIED],
            )
            for each in topic.partitions
        ],
    )


async def delete_share_offsets(
    parts: BrokerParts, context: RequestContext, request: DeleteShareGroupOffsetsRequest, handle: Handle
) -> Any:
    if not context.may(AclOperation.DELETE, AclResourceType.GROUP, request.group_id):
        return DeleteShareGroupOffsetsResponse(
            error_code=GROUP_DENIED, error_message=DENIED_TEXT[GROUP_DENIED]
        )
    allowed, denied = await parted(
        lambda topic: context.may_topic(AclOperation.READ, topic.topic_name), request.topics
    )
    response = await handle(replace(request, topics=allowed))
    rows = [
        DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, error_code=TOPIC_DENIED, error_message=DENIED_TEXT[TOPIC_DENIED]
        )
        for topic in denied
    ]
    return replace(response, responses=[*response.responses, *rows])
