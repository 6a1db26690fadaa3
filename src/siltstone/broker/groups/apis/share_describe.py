"""ShareGroupDescribe: share groups, with what each member has. Other groups have the answer GROUP_ID_NOT_FOUND."""

from typing import Any

from siltstone.broker.groups.apis.describe_groups import described_by_kind, described_each, named_partitions
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.share_protocol.group import ShareGroup, ShareMember
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.messages.share_group_describe import (
    DescribedShareAssignment,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedSharePartitions,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

ASSIGNOR = "simple"
"""The name of Kafka's only assignor of share groups."""


async def handle_share_group_describe(
    groups: Groups, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    def fields_of(group: ShareGroup) -> dict[str, Any]:
        return {
            "assignor_name": ASSIGNOR,
            "members": [_member(groups, member) for member in group.members.values()],
        }

    described = await described_each(
        context,
        request.group_ids,
        described_by_kind(groups, ShareGroup, DescribedShareGroup, fields_of),
        with_operations=request.include_authorized_operations,
    )
    return ShareGroupDescribeResponse(groups=described)


def _member(groups: Groups, member: ShareMember) -> DescribedShareMember:
    assigned = named_partitions(groups, DescribedSharePartitions, member.assigned)
    return DescribedShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=DescribedShareAssignment(topic_partitions=assigned),
    )
