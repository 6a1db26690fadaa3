"""ShareGroupDescribe: share groups, with what each member has. Other groups have the answer GROUP_ID_NOT_FOUND."""

from msgspec.structs import replace

from siltstone.broker.groups.apis.describe_groups import GROUP_OPERATIONS
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.consumer_records import by_topic
from siltstone.broker.groups.share_protocol.group import ShareGroup, ShareMember
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.share_group_describe import (
    DescribedShareAssignment,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedSharePartitions,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from siltstone.model.acls import AclResourceType
from siltstone.runtime.turns import side_by_side

ASSIGNOR = "simple"
"""The name of Kafka's only assignor of share groups."""


async def handle_share_group_describe(
    groups: Groups, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    named = dict.fromkeys(request.group_ids)
    described = await side_by_side(lambda group_id: _describe(groups, group_id), named)
    if request.include_authorized_operations:
        described = [_with_operations(context, group) for group in described]
    return ShareGroupDescribeResponse(groups=described)


async def _describe(groups: Groups, group_id: str) -> DescribedShareGroup:
    if not group_id:
        return DescribedShareGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    described = await groups.look(group_id, lambda known: _described(groups, group_id, known))
    if isinstance(described, ErrorCode):
        return DescribedShareGroup(group_id=group_id, error_code=described)
    return described


def _described(groups: Groups, group_id: str, known: KnownGroup | None) -> DescribedShareGroup:
    group = None if known is None else known.group
    if not isinstance(group, ShareGroup):
        text = f"Group {group_id} is not a share group." if group else f"Group {group_id} not found."
        code = ErrorCode.GROUP_ID_NOT_FOUND
        return DescribedShareGroup(group_id=group_id, error_code=code, error_message=text)
    return DescribedShareGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(groups, member) for member in group.members.values()],
    )


def _member(groups: Groups, member: ShareMember) -> DescribedShareMember:
    """Partitions of deleted topics are left out: they have no name."""
    assigned = [
        DescribedSharePartitions(topic_id=topic_id, topic_name=topic.name, partitions=numbers)
        for topic_id, numbers in by_topic(member.assigned).items()
        if (topic := groups.topics.by_id(topic_id)) is not None
    ]
    return DescribedShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=DescribedShareAssignment(topic_partitions=assigned),
    )


def _with_operations(context: RequestContext, group: DescribedShareGroup) -> DescribedShareGroup:
    if group.error_code != ErrorCode.NONE:
        return group
    operations = context.bits(GROUP_OPERATIONS, AclResourceType.GROUP, group.group_id)
    return replace(group, authorized_operations=operations)
