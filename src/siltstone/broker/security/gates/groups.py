"""The gates of requests about consumer groups: a group that is denied has the code of its whole answer, or of its row;
a topic that is denied has a row of its own."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.security.gates.gate import (
    DENIED,
    DENIED_TEXT,
    GROUP_DENIED,
    TOPIC_DENIED,
    Gate,
    Handle,
    may_on_cluster,
    parted,
    topic_name,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages import delete_groups, describe_groups, offset_delete, offset_fetch
from siltstone.kafka_protocol.messages.consumer_group_describe import DescribedConsumerGroup
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from siltstone.kafka_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatResponse
from siltstone.kafka_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from siltstone.kafka_protocol.messages.leave_group import LeaveGroupResponse
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from siltstone.kafka_protocol.messages.sync_group import SyncGroupResponse
from siltstone.model.acls import AclOperation, AclResourceType

SEVERAL_SINCE = 4
"""FindCoordinator names several keys from this version on."""

GROUPS_SINCE = 8
"""OffsetFetch names several groups from this version on."""

CODE_SINCE = 2
"""From this version on the answer to OffsetFetch has a code of its own."""

NULL_PROTOCOL_SINCE = 7

KEY_TYPES = {0: AclResourceType.GROUP, 1: AclResourceType.TRANSACTIONAL_ID}
"""What FindCoordinator is asked for. Share groups, which the handler refuses, need no right."""


def of_member(refusal: Callable[[RequestContext, Any], Any]) -> Gate:
    """Returns the gate of an API of group members."""

    async def gate(parts: BrokerParts, context: RequestContext, request: Any, handle: Handle) -> Any:
        if context.may(AclOperation.READ, AclResourceType.GROUP, request.group_id):
            return await handle(request)
        return refusal(context, request)

    return gate


def _not_joined(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    has_null = context.api_version >= NULL_PROTOCOL_SINCE
    return JoinGroupResponse(
        error_code=GROUP_DENIED, member_id=request.member_id, protocol_name=None if has_null else ""
    )


join_group = of_member(_not_joined)
sync_group = of_member(lambda *_: SyncGroupResponse(error_code=GROUP_DENIED))
heartbeat = of_member(lambda *_: HeartbeatResponse(error_code=GROUP_DENIED))
leave_group = of_member(lambda *_: LeaveGroupResponse(error_code=GROUP_DENIED))


def of_beat(response: Callable[..., Any]) -> Gate:
    """Returns the gate of a heartbeat with a subscription: a topic that the client may not see fails it, as a
    subscription in Metadata would."""

    async def gate(parts: BrokerParts, context: RequestContext, request: Any, handle: Handle) -> Any:
        code = GROUP_DENIED
        if context.may(AclOperation.READ, AclResourceType.GROUP, request.group_id):
            _, denied = await parted(
                lambda name: context.may_topic(AclOperation.DESCRIBE, name),
                request.subscribed_topic_names or (),
            )
            if not denied:
                return await handle(request)
            code = TOPIC_DENIED
        return response(error_code=code, error_message=DENIED_TEXT[code])

    return gate


consumer_heartbeat = of_beat(ConsumerGroupHeartbeatResponse)


def by_group(operation: AclOperation, named: str, answered: str, denied_row: Callable[[str], Any]) -> Gate:
    """Returns the gate of an API that names groups; ``named`` and ``answered`` are the fields with the groups of the
    request and their rows in the response."""

    async def gate(parts: BrokerParts, context: RequestContext, request: Any, handle: Handle) -> Any:
        allowed, denied = await parted(
            lambda group_id: context.may(operation, AclResourceType.GROUP, group_id), getattr(request, named)
        )
        response = await handle(replace(request, **{named: allowed}))
        rows = [denied_row(group_id) for group_id in dict.fromkeys(denied)]
        return replace(response, **{answered: [*getattr(response, answered), *rows]})

    return gate


describe = by_group(
    AclOperation.DESCRIBE,
    "groups",
    "groups",
    lambda group_id: describe_groups.DescribedGroup(group_id=group_id, error_code=GROUP_DENIED),
)


def of_described(row: Callable[..., Any]) -> Gate:
    """Returns the gate of an API that describes groups of one kind. A group with a topic that the client may not see is
    not shown, without the names of its topics."""
    describe_all = by_group(
        AclOperation.DESCRIBE,
        "group_ids",
        "groups",
        lambda group_id: row(group_id=group_id, error_code=GROUP_DENIED),
    )

    async def gate(parts: BrokerParts, context: RequestContext, request: Any, handle: Handle) -> Any:
        response = await describe_all(parts, context, request, handle)
        _, hidden = await parted(lambda group: _sees_topics_of(context, group), response.groups)
        code, hidden_ids = TOPIC_DENIED, {group.group_id for group in hidden}
        rows = [
            row(group_id=group.group_id, error_code=code, error_message=DENIED_TEXT[code])
            if group.group_id in hidden_ids
            else group
            for group in response.groups
        ]
        return replace(response, groups=rows)

    return gate


def _sees_topics_of(context: RequestContext, group: Any) -> bool:
    names: set[str] = set()
    for member in group.members:
        names.update(member.subscribed_topic_names)
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            names.update(topic.topic_name for topic in (assignment.topic_partitions if assignment else ()))
    return all(context.may_topic(AclOperation.DESCRIBE, name) for name in names)


describe_consumers = of_described(DescribedConsumerGroup)


delete = by_group(
    AclOperation.DELETE,
    "groups_names",
    "results",
    lambda group_id: delete_groups.DeletableGroupResult(group_id=group_id, error_code=GROUP_DENIED),
)


async def list_groups(
    parts: BrokerParts, context: RequestContext, request: ListGroupsRequest, handle: Handle
) -> Any:
    response = await handle(request)
    assert isinstance(response, ListGroupsResponse)
    if may_on_cluster(context, AclOperation.DESCRIBE, is_named=False):
        return response
    seen, _ = await parted(
        lambda group: context.may(
            AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id, is_named=False
        ),
        response.groups,
    )
    return replace(response, groups=seen)


async def find_coordinator(
    parts: BrokerParts, context: RequestContext, request: FindCoordinatorRequest, handle: Handle
) -> Any:
    kind = KEY_TYPES.get(request.key_type)
    is_old = context.api_version < SEVERAL_SINCE
    if kind is None or (is_old and context.may(AclOperation.DESCRIBE, kind, request.key)):
        return await handle(request)
    code = DENIED[kind]
    if is_old:
        text = DENIED_TEXT[code]
        return FindCoordinatorResponse(error_code=code, error_message=text, node_id=-1, host="", port=-1)
    allowed, denied = await parted(
        lambda key: context.may(AclOperation.DESCRIBE, kind, key), request.coordinator_keys
    )
    response = await handle(replace(request, coordinator_keys=allowed))
    rows = [
        Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=DENIED_TEXT[code])
        for key in denied
    ]
    return replace(response, coordinators=[*response.coordinators, *rows])


# -- offsets ---------------------------------------------------------------------------------------------


def _not_committed(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )


async def offset_commit(
    parts: BrokerParts, context: RequestContext, request: OffsetCommitRequest, handle: Handle
) -> Any:
    if not context.may(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return OffsetCommitResponse(topics=[_not_committed(topic, GROUP_DENIED) for topic in request.topics])

    def may_read(topic: OffsetCommitRequestTopic) -> bool:
        name = topic_name(parts, topic.name, topic.topic_id)
        return name is None or context.may(AclOperation.READ, AclResourceType.TOPIC, name)

    allowed, denied = await parted(may_read, request.topics)
    if denied and not allowed:
        return OffsetCommitResponse(topics=[_not_committed(topic, TOPIC_DENIED) for topic in denied])
    response = await handle(replace(request, topics=allowed) if denied else request)
    rows = [_not_committed(topic, TOPIC_DENIED) for topic in denied]
    return replace(response, topics=[*response.topics, *rows])


async def delete_offsets(
    parts: BrokerParts, context: RequestContext, request: offset_delete.OffsetDeleteRequest, handle: Handle
) -> Any:
    if not context.may(AclOperation.DELETE, AclResourceType.GROUP, request.group_id):
        return offset_delete.OffsetDeleteResponse(error_code=GROUP_DENIED)
    allowed, denied = await parted(
        lambda topic: context.may(AclOperation.READ, AclResourceType.TOPIC, topic.name), request.topics
    )
    response = await handle(replace(request, topics=allowed))
    assert isinstance(response, offset_delete.OffsetDeleteResponse)
    if response.error_code:
        return response
    rows = [
        offset_delete.OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                offset_delete.OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=TOPIC_DENIED
                )
                for each in topic.partitions
            ],
        )
        for topic in denied
    ]
    return replace(response, topics=[*response.topics, *rows])


async def fetch_offsets(
    parts: BrokerParts, context: RequestContext, request: offset_fetch.OffsetFetchRequest, handle: Handle
) -> Any:
    if context.api_version < GROUPS_SINCE:
        return await _fetch_offsets_of_one(context, request, handle)
    named = {group.group_id: group for group in request.groups}  # a group named twice is answered once
    allowed, denied = await parted(
        lambda group: context.may(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id),
        named.values(),
    )
    asked: list[offset_fetch.OffsetFetchRequestGroup] = []
    hidden: list[list[offset_fetch.OffsetFetchRequestTopics]] = []
    for group in allowed:
        seen, unseen = await parted(
            lambda topic: _sees(parts, context, topic.name, topic.topic_id, is_named=True),
            group.topics or (),
        )
        asked.append(group if group.topics is None else replace(group, topics=seen))
        hidden.append(unseen)
    response = await handle(replace(request, groups=asked))
    rows = [
        _with_hidden(parts, context, row, unseen, names_topics=group.topics is not None)
        for row, unseen, group in zip(response.groups, hidden, asked, strict=True)
    ]
    rows += [
        offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id, error_code=GROUP_DENIED)
        for group in denied
    ]
    return replace(response, groups=rows)


def _sees(parts: BrokerParts, context: RequestContext, name: str, topic_id: bytes, *, is_named: bool) -> bool:
    found = topic_name(parts, name, topic_id)
    return found is None or context.may(
        AclOperation.DESCRIBE, AclResourceType.TOPIC, found, is_named=is_named
    )


def _with_hidden(
    parts: BrokerParts,
    context: RequestContext,
    row: offset_fetch.OffsetFetchResponseGroup,
    hidden: list[offset_fetch.OffsetFetchRequestTopics],
    *,
    names_topics: bool,
) -> offset_fetch.OffsetFetchResponseGroup:
    """Returns the row of a group with the topics that the client named and may not see. If it named none, the topics
    that it may not see are left out."""
    if row.error_code:
        return row
    if not names_topics:
        seen = [
            each for each in row.topics if _sees(parts, context, each.name, each.topic_id, is_named=False)
        ]
        return replace(row, topics=seen)
    refused = [
        offset_fetch.OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                offset_fetch.OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=-1, error_code=TOPIC_DENIED
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in hidden
    ]
    return replace(row, topics=[*row.topics, *refused])


async def _fetch_offsets_of_one(
    context: RequestContext, request: offset_fetch.OffsetFetchRequest, handle: Handle
) -> Any:
    topics = request.topics
    if not context.may(AclOperation.DESCRIBE, AclResourceType.GROUP, request.group_id):
        rows = (
            [] if context.api_version >= CODE_SINCE else [_not_shown(e, GROUP_DENIED) for e in topics or ()]
        )
        return offset_fetch.OffsetFetchResponse(topics=rows, error_code=GROUP_DENIED)
    if topics is None:
        response = await handle(request)
        assert isinstance(response, offset_fetch.OffsetFetchResponse)
        seen, _ = await parted(
            lambda topic: context.may(
                AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name, is_named=False
            ),
            response.topics,
        )
        return replace(response, topics=seen)
    allowed, denied = await parted(
        lambda topic: context.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name), topics
    )
    response = await handle(replace(request, topics=allowed))
    return replace(
        response, topics=[*response.topics, *(_not_shown(topic, TOPIC_DENIED) for topic in denied)]
    )


def _not_shown(
    topic: offset_fetch.OffsetFetchRequestTopic, code: ErrorCode
) -> offset_fetch.OffsetFetchResponseTopic:
    return offset_fetch.OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            offset_fetch.OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, error_code=code
            )
            for index in topic.partition_indexes
        ],
    )
