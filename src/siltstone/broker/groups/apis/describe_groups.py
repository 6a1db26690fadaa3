"""DescribeGroups: state and members. An unknown group is described as Dead, and from version 6 on with an error (item
47). ConsumerGroupDescribe and ShareGroupDescribe share what is here with it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup
from siltstone.broker.groups.group_kinds import name_of_kind
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.keyed_values import PartitionOfId, by_topic
from siltstone.broker.groups.rules.group import Group, Member
from siltstone.broker.groups.rules.states import GroupState
from siltstone.broker.groups.share_protocol.group import ShareGroup
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from siltstone.model.acls import AclOperation, AclResourceType
from siltstone.runtime.turns import side_by_side

A = TypeVar("A", ConsumerGroup, ShareGroup)
D = TypeVar("D")
R = TypeVar("R")

NOT_FOUND_SINCE = 6
GROUP_OPERATIONS = (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE)
"""An answer with bits says which of these operations the client may do."""


async def handle_describe_groups(
    groups: Groups, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    described = await described_each(
        context,
        request.groups,
        lambda group_id: _describe(groups, context.api_version, group_id),
        with_operations=request.include_authorized_operations,
    )
    return DescribeGroupsResponse(groups=described)


async def described_each(
    context: RequestContext,
    group_ids: Iterable[str],
    describe: Callable[[str], Awaitable[D]],
    *,
    with_operations: bool,
) -> list[D]:
    """Returns the description of each group once; ``with_operations``: with the operations that the client may do."""
    described = await side_by_side(describe, dict.fromkeys(group_ids))
    return [_with_operations(context, group) for group in described] if with_operations else described


def described_by_kind(
    groups: Groups, kind: type[A], row: Callable[..., D], fields_of: Callable[[A], Mapping[str, Any]]
) -> Callable[[str], Awaitable[D]]:
    """Returns what describes one group of this kind as a ``row``; any other group has the answer GROUP_ID_NOT_FOUND.
    ``fields_of``: what the row says of it beyond its state and epochs."""

    def described(group_id: str, known: KnownGroup | None) -> D:
        group = None if known is None else known.group
        if isinstance(group, kind):
            return row(
                group_id=group_id,
                group_state=group.state.value,
                group_epoch=group.epoch,
                assignment_epoch=group.assignment_epoch,
                **fields_of(group),
            )
        text = (
            f"Group {group_id} is not a {name_of_kind(kind)} group."
            if group
            else f"Group {group_id} not found."
        )
        return row(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)

    async def describe(group_id: str) -> D:
        if not group_id:
            return row(error_code=ErrorCode.INVALID_GROUP_ID)
        found = await groups.look(group_id, lambda known: described(group_id, known))
        return row(group_id=group_id, error_code=found) if isinstance(found, ErrorCode) else found

    return describe


def named_partitions(groups: Groups, row: Callable[..., R], partitions: Iterable[PartitionOfId]) -> list[R]:
    """Returns a row for each topic. Partitions of deleted topics are left out: they have no name."""
    return [
        row(topic_id=topic_id, topic_name=topic.name, partitions=numbers)
        for topic_id, numbers in by_topic(partitions).items()
        if (topic := groups.topics.by_id(topic_id)) is not None
    ]


async def _describe(groups: Groups, version: int, group_id: str) -> DescribedGroup:
    described = await groups.look(group_id, _described)
    if isinstance(described, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=described)
    return _unknown(version, group_id) if described is None else described


def _described(known: KnownGroup | None) -> DescribedGroup | None:
    """Returns None if the group is not known, or follows another protocol than clients of this API expect."""
    if known is None or not isinstance(known.group, Group):
        return None
    group = known.group
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=group.protocol_name or "" if is_stable else "",
        members=[_described_member(group, member, is_stable) for member in group.members.values()],
    )


def _described_member(group: Group, member: Member, is_stable: bool) -> DescribedGroupMember:
    """A subscription belongs to a protocol, and no protocol is elected during a rebalance: the metadata is then
    empty."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata_of(group.protocol_name) if is_stable else b"",
        member_assignment=member.assignment,
    )


def _unknown(version: int, group_id: str) -> DescribedGroup:
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version < NOT_FOUND_SINCE:
        return dead
    message = f"Group {group_id} not found."
    return msgspec.structs.replace(dead, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)


def _with_operations(context: RequestContext, group: Any) -> Any:
    if group.error_code != ErrorCode.NONE:
        return group
    operations = context.bits(GROUP_OPERATIONS, AclResourceType.GROUP, group.group_id)
    return msgspec.structs.replace(group, authorized_operations=operations)
