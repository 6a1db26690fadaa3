"""ConsumerGroupDescribe: groups of KIP-848, with what each member has and what it is to have. Other groups have the
answer GROUP_ID_NOT_FOUND, and clients ask by DescribeGroups."""

from collections.abc import Iterable

from msgspec.structs import replace

from siltstone.broker.groups.apis.describe_groups import GROUP_OPERATIONS
from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup, ConsumerMember, PartitionOfId
from siltstone.broker.groups.consumer_protocol.heartbeats import preferred_assignor
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.consumer_records import by_topic
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedPartitions,
)
from siltstone.model.acls import AclResourceType
from siltstone.runtime.turns import side_by_side

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""How a member joined."""


async def handle_consumer_group_describe(
    groups: Groups, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    named = dict.fromkeys(request.group_ids)
    described = await side_by_side(lambda group_id: _describe(groups, group_id), named)
    if request.include_authorized_operations:
        described = [_with_operations(context, group) for group in described]
    return ConsumerGroupDescribeResponse(groups=described)


async def _describe(groups: Groups, group_id: str) -> DescribedConsumerGroup:
    if not group_id:
        return DescribedConsumerGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    described = await groups.look(group_id, lambda known: _described(groups, group_id, known))
    if isinstance(described, ErrorCode):
        return DescribedConsumerGroup(group_id=group_id, error_code=described)
    return described


def _described(groups: Groups, group_id: str, known: KnownGroup | None) -> DescribedConsumerGroup:
    group = None if known is None else known.group
    if not isinstance(group, ConsumerGroup):
        text = f"Group {group_id} is not a consumer group." if group else f"Group {group_id} not found."
        code = ErrorCode.GROUP_ID_NOT_FOUND
        return DescribedConsumerGroup(group_id=group_id, error_code=code, error_message=text)
    return DescribedConsumerGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group),
        members=[_member(groups, group, member) for member in group.members.values()],
    )


def _member(groups: Groups, group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumerMember:
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex or "",
        assignment=_assignment(groups, member.assigned),
        target_assignment=_assignment(groups, group.targets.get(member.member_id, ())),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(groups: Groups, partitions: Iterable[PartitionOfId]) -> DescribedAssignment:
    """Partitions of deleted topics are left out: they have no name."""
    return DescribedAssignment(
        topic_partitions=[
            DescribedPartitions(topic_id=topic_id, topic_name=topic.name, partitions=numbers)
            for topic_id, numbers in by_topic(partitions).items()
            if (topic := groups.topics.by_id(topic_id)) is not None
        ]
    )


def _with_operations(context: RequestContext, group: DescribedConsumerGroup) -> DescribedConsumerGroup:
    if group.error_code != ErrorCode.NONE:
        return group
    operations = context.bits(GROUP_OPERATIONS, AclResourceType.GROUP, group.group_id)
    return replace(group, authorized_operations=operations)
