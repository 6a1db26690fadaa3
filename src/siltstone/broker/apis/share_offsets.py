"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets: where share groups begin in partitions.

An administrator asks the coordinator of the group, which asks the leaders of the partitions by the same requests. A
request that another node sends is therefore about the partitions that this node leads, and nobody is asked further.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from siltstone.broker.deliveries.progress import DeliveryState
from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.share_records import SharedTopic, SharedTopics
from siltstone.broker.groups.rules.requests import ChangeShared
from siltstone.broker.groups.share_protocol.group import ShareGroup
from siltstone.broker.parts import BrokerParts
from siltstone.broker.peers import PeerUnreachable
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from siltstone.kafka_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from siltstone.kafka_protocol.notation import Message
from siltstone.model.access import NODE
from siltstone.model.errors import SiltstoneError
from siltstone.runtime.turns import side_by_side

NOT_USED = -1
"""The start of a group in a partition that no member has fetched from yet."""

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNANSWERED = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The leader of a partition cannot be asked now."""

DescribedPartition: TypeAlias = DescribeShareGroupOffsetsResponsePartition
Outcome: TypeAlias = tuple[ErrorCode, str | None]


def _is_of_node(context: RequestContext) -> bool:
    return context.connection.principal is NODE


def _leader(parts: BrokerParts, topic: Topic, index: int) -> int:
    partition = topic.metadata.partitions[index]
    return parts.node_id if parts.cluster.leads(partition) else partition.leader


async def _look(parts: BrokerParts, group_id: str, *, empty: bool) -> ShareGroup | ErrorCode:
    """Returns the share group; with ``empty`` only one without members."""

    def take(known: KnownGroup | None) -> ShareGroup | ErrorCode:
        if known is None or not isinstance(known.group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NON_EMPTY_GROUP if empty and known.group.members else known.group

    return await parts.groups.look(group_id, take)


# -- describe --------------------------------------------------------------------------------------------


async def handle_describe_share_group_offsets(
    parts: BrokerParts, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    async def row(
        asked: DescribeShareGroupOffsetsRequestGroup,
    ) -> DescribeShareGroupOffsetsResponseGroup:
        if _is_of_node(context):
            return await _described(parts, asked.group_id, asked.topics or (), is_of_node=True)
        group = await _look(parts, asked.group_id, empty=False)
        if (
            group is ErrorCode.GROUP_ID_NOT_FOUND
        ):  # it has begun nowhere, which is no error [Kafka 4.3.1: asked]
            shared: SharedTopics = {}
        elif isinstance(group, ErrorCode):
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=asked.group_id, error_code=group, error_message=group.name
            )
        else:
            shared = group.shared
        topics = _all_of(shared) if asked.topics is None else asked.topics
        return await _described(parts, asked.group_id, topics, is_of_node=False)

    return DescribeShareGroupOffsetsResponse(groups=await side_by_side(row, request.groups))


def _all_of(shared: SharedTopics) -> list[DescribeShareGroupOffsetsRequestTopic]:
    return [
        DescribeShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=list(topic.partitions))
        for topic in shared.values()
    ]


async def _described(
    parts: BrokerParts,
    group_id: str,
    topics: Iterable[DescribeShareGroupOffsetsRequestTopic],
    *,
    is_of_node: bool,
) -> DescribeShareGroupOffsetsResponseGroup:
    async def row(asked: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
        topic = parts.topics.by_name(asked.topic_name)
        if topic is None:
            nowhere = (  # no error for clients; a node asks only for what exists [Kafka 4.3.1: asked]
                DescribedPartition(error_code=UNKNOWN)
                if is_of_node
                else DescribedPartition(start_offset=NOT_USED)
            )
            rows = [replace(nowhere, partition_index=index) for index in asked.partitions]
            return DescribeShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, partitions=rows)
        rows = await side_by_side(
            lambda index: _described_partition(parts, group_id, topic, index, is_of_node=is_of_node),
            asked.partitions,
        )
        return DescribeShareGroupOffsetsResponseTopic(
            topic_name=topic.name, topic_id=topic.topic_id, partitions=rows
        )

    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=await side_by_side(row, topics))


async def _described_partition(
    parts: BrokerParts, group_id: str, topic: Topic, index: int, *, is_of_node: bool
) -> DescribedPartition:
    if not 0 <= index < topic.partition_count:
        return DescribedPartition(partition_index=index, error_code=UNKNOWN)
    leader = _leader(parts, topic, index)
    if leader != parts.node_id and not is_of_node:
        return await _described_elsewhere(parts, leader, group_id, topic, index)
    try:
        partition = await parts.partitions.open(topic, index)
    except SiltstoneError as failure:
        code, text = error_code(failure), error_message(failure)
        return DescribedPartition(partition_index=index, error_code=code, error_message=text)
    if partition.shares.get(group_id) is None:
        return DescribedPartition(partition_index=index, start_offset=NOT_USED)
    progress = parts.shares.progress(group_id, partition)
    return DescribedPartition(
        partition_index=index,
        start_offset=progress.start_offset,
        leader_epoch=partition.leader_epoch,
        lag=max(0, partition.high_watermark - progress.start_offset - progress.completed),
        acquired=progress.count_of(DeliveryState.ACQUIRED),
        available=progress.count_of(DeliveryState.AVAILABLE),
        acknowledged=progress.count_of(DeliveryState.ACKNOWLEDGED),
        archived=progress.count_of(DeliveryState.ARCHIVED),
        deliveries_max=progress.deliveries_max,
    )


async def _described_elsewhere(
    parts: BrokerParts, leader: int, group_id: str, topic: Topic, index: int
) -> DescribedPartition:
    named = DescribeShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=[index])
    group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=[named])
    request = DescribeShareGroupOffsetsRequest(groups=[group])
    try:
        answer = await parts.peers.ask(leader, request, DescribeShareGroupOffsetsResponse)
        return answer.groups[0].topics[0].partitions[0]
    except PeerUnreachable as trouble:
        return DescribedPartition(partition_index=index, error_code=UNANSWERED, error_message=str(trouble))
    except IndexError:
        return DescribedPartition(partition_index=index, error_code=UNANSWERED)


async def share_starts(parts: BrokerParts, request: Message) -> dict[str, dict[tuple[str, int], int]]:
    """Returns where groups begin in the partitions whose beginning the request changes or deletes: group → topic and
    index → offset. A partition that the group has not used, or whose leader does not answer, is left out."""
    asked: dict[str, list[DescribeShareGroupOffsetsRequestTopic]] = {}
    if isinstance(request, AlterShareGroupOffsetsRequest):
        asked[request.group_id] = [
            DescribeShareGroupOffsetsRequestTopic(
                topic_name=topic.topic_name, partitions=[each.partition_index for each in topic.partitions]
            )
            for topic in request.topics
        ]
    elif isinstance(request, DeleteShareGroupOffsetsRequest):
        asked[request.group_id] = _whole_topics(parts, (topic.topic_name for topic in request.topics))
    elif isinstance(request, DeleteGroupsRequest):
        for group_id in request.groups_names:
            group = await _look(parts, group_id, empty=True)
            if isinstance(group, ShareGroup):
                asked[group_id] = _whole_topics(parts, (topic.name for topic in group.shared.values()))
    starts: dict[str, dict[tuple[str, int], int]] = {}
    for group_id, topics in asked.items():
        if isinstance(await _look(parts, group_id, empty=True), ErrorCode):
            continue  # refused
        told = await _described(parts, group_id, topics, is_of_node=False)
        starts[group_id] = {
            (topic.topic_name, each.partition_index): each.start_offset
            for topic in told.topics
            for each in topic.partitions
            if not each.error_code and each.start_offset != NOT_USED
        }
    return starts


def _whole_topics(parts: BrokerParts, names: Iterable[str]) -> list[DescribeShareGroupOffsetsRequestTopic]:
    topics = (parts.topics.by_name(name) for name in dict.fromkeys(names))
    return [
        DescribeShareGroupOffsetsRequestTopic(
            topic_name=topic.name, partitions=list(range(topic.partition_count))
        )
        for topic in topics
        if topic is not None
    ]


# -- alter -----------------------------------------------------------------------------------------------


async def handle_alter_share_group_offsets(
    parts: BrokerParts, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """The group has to be empty: members would keep what they have acquired. A group that does not exist is made, if
    one of the topics exists."""
    is_of_node, change = _is_of_node(context), _added(parts, request)
    if not is_of_node and change.added:
        refusal = await parts.groups.ask(request.group_id, change)
        if refusal is not ErrorCode.NONE:
            assert isinstance(refusal, ErrorCode)
            return AlterShareGroupOffsetsResponse(error_code=refusal, error_message=refusal.name)

    async def row(asked: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
        topic = parts.topics.by_name(asked.topic_name)

        async def outcome(
            each: AlterShareGroupOffsetsRequestPartition,
        ) -> AlterShareGroupOffsetsResponsePartition:
            index = each.partition_index
            code, text = UNKNOWN, None
            if topic is not None and 0 <= index < topic.partition_count:
                code, text = await _altered(
                    parts, request.group_id, topic, index, each.start_offset, is_of_node=is_of_node
                )
            return AlterShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=code, error_message=text
            )

        return AlterShareGroupOffsetsResponseTopic(
            topic_name=asked.topic_name,
            topic_id=bytes(16) if topic is None else topic.topic_id,
            partitions=await side_by_side(outcome, asked.partitions),
        )

    return AlterShareGroupOffsetsResponse(responses=await side_by_side(row, request.topics))


def _added(parts: BrokerParts, request: AlterShareGroupOffsetsRequest) -> ChangeShared:
    topics = (parts.topics.by_name(asked.topic_name) for asked in request.topics)
    return ChangeShared(
        added={
            topic.topic_id: SharedTopic(topic.name, tuple(range(topic.partition_count)))
            for topic in topics
            if topic is not None
        }
    )


def _if_share_group(change: ChangeShared) -> Callable[[KnownGroup | None], ChangeShared | ErrorCode]:
    return lambda known: (
        ErrorCode.GROUP_ID_NOT_FOUND if known is None or not isinstance(known.group, ShareGroup) else change
    )


async def _altered(
    parts: BrokerParts, group_id: str, topic: Topic, index: int, start_offset: int, *, is_of_node: bool
) -> Outcome:
    leader = _leader(parts, topic, index)
    if leader == parts.node_id or is_of_node:

        async def set_start() -> None:
            partition = await parts.partitions.open(topic, index)
            await _durable(parts.shares.set_start((group_id, topic.id, index), partition, start_offset))

        return await _outcome(set_start)
    named = AlterShareGroupOffsetsRequestTopic(
        topic_name=topic.name,
        partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start_offset)],
    )
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=[named])
    try:
        answer = await parts.peers.ask(leader, request, AlterShareGroupOffsetsResponse)
    except PeerUnreachable as trouble:
        return UNANSWERED, str(trouble)
    rows = [row for each in answer.responses for row in each.partitions]
    return (ErrorCode(rows[0].error_code), rows[0].error_message) if rows else (UNANSWERED, None)


# -- delete ----------------------------------------------------------------------------------------------


async def handle_delete_share_group_offsets(
    parts: BrokerParts, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    names = dict.fromkeys(topic.topic_name for topic in request.topics)
    is_of_node = _is_of_node(context)
    if not is_of_node and isinstance(group := await _look(parts, request.group_id, empty=True), ErrorCode):
        return DeleteShareGroupOffsetsResponse(error_code=group, error_message=group.name)
    outcomes = {
        name: await _forgotten(parts, request.group_id, parts.topics.by_name(name), is_of_node=is_of_node)
        for name in names
    }
    if not is_of_node:
        gone = frozenset(name for name, (code, _) in outcomes.items() if code is ErrorCode.NONE)
        await parts.groups.ask(request.group_id, _if_share_group(ChangeShared(removed=gone)))
    rows = []
    for name, (code, text) in outcomes.items():
        topic_id = bytes(16) if (topic := parts.topics.by_name(name)) is None else topic.topic_id
        rows.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=topic_id, error_code=code, error_message=text
            )
        )
    return DeleteShareGroupOffsetsResponse(responses=rows)


async def forget_shares_of(parts: BrokerParts, group_id: str) -> ErrorCode:
    """Deletes what the leaders of all partitions know of a group that is about to be deleted. Nothing to do for other
    groups."""
    group = await _look(parts, group_id, empty=True)
    if isinstance(group, ErrorCode):
        return group if group is ErrorCode.NON_EMPTY_GROUP else ErrorCode.NONE
    for topic_id in group.shared:
        if (topic := parts.topics.by_id(topic_id)) is not None:
            code, _ = await _forgotten(parts, group_id, topic, is_of_node=False)
            if code is not ErrorCode.NONE:
                return code
    return ErrorCode.NONE


async def _forgotten(parts: BrokerParts, group_id: str, topic: Topic | None, *, is_of_node: bool) -> Outcome:
    """Deletes the group's state in the topic: for a client everywhere, for another node where this node leads."""
    if topic is None:
        return UNKNOWN, None
    leaders: dict[int, list[int]] = {}
    for index in range(topic.partition_count):
        leaders.setdefault(_leader(parts, topic, index), []).append(index)

    async def forget() -> None:
        for index in leaders.get(parts.node_id, ()):
            partition = await parts.partitions.open(topic, index)
            await _durable(partition.forget_share(group_id))

    code, text = await _outcome(forget)
    others = () if is_of_node else sorted(leaders.keys() - {parts.node_id})
    for leader in others:
        if code is ErrorCode.NONE:
            code, text = await _forgotten_elsewhere(parts, leader, group_id, topic)
    return code, text


async def _forgotten_elsewhere(parts: BrokerParts, leader: int, group_id: str, topic: Topic) -> Outcome:
    named = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic.name)]
    request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=named)
    try:
        answer = await parts.peers.ask(leader, request, DeleteShareGroupOffsetsResponse)
    except PeerUnreachable as trouble:
        return UNANSWERED, str(trouble)
    rows = answer.responses
    return (ErrorCode(rows[0].error_code), rows[0].error_message) if rows else (UNANSWERED, None)


async def _outcome(work: Callable[[], Awaitable[None]]) -> Outcome:
    try:
        await work()
    except SiltstoneError as failure:
        return error_code(failure), error_message(failure)
    return ErrorCode.NONE, None


async def _durable(written: "asyncio.Future[int] | None") -> None:
    if written is not None:
        await written
