"""ConsumerGroupDescribe: groups of KIP-848, with what each member has and what it is to have. Other groups have the
answer GROUP_ID_NOT_FOUND, and clients ask by DescribeGroups."""

from collections.abc import Iterable
from typing import Any

from siltstone.broker.groups.apis.describe_groups import described_by_kind, described_each, named_partitions
from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup, ConsumerMember, PartitionOfId
from siltstone.broker.groups.consumer_protocol.heartbeats import preferred_assignor
from siltstone.broker.groups.groups import Groups
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""How a member joined."""


async def handle_consumer_group_describe(
    groups: Groups, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    def fields_of(group: ConsumerGroup) -> dict[str, Any]:
        return {
            "assignor_name": preferred_assignor(group),
            "members": [_member(groups, group, member) for member in group.members.values()],
        }

    described = await described_each(
        context,
        request.group_ids,
        described_by_kind(groups, ConsumerGroup, DescribedConsumerGroup, fields_of),
        with_operations=request.include_authorized_operations,
    )
    return ConsumerGroupDescribeResponse(groups=described)


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
    return DescribedAssignment(topic_partitions=named_partitions(groups, DescribedPartitions, partitions))
