"""DescribeGroups: state and members. An unknown group is described as Dead, and from version 6 on with an error (item
47)."""

import msgspec

from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.rules.group import Group, Member
from siltstone.broker.groups.rules.states import GroupState
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

NOT_FOUND_SINCE = 6
GROUP_OPERATIONS = (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE)
"""An answer with bits says which of these operations the client may do."""


async def handle_describe_groups(
    groups: Groups, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    named = dict.fromkeys(request.groups)
    described = await side_by_side(lambda group_id: _describe(groups, context.api_version, group_id), named)
    if request.include_authorized_operations:
        described = [_with_operations(context, group) for group in described]
    return DescribeGroupsResponse(groups=described)


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


def _with_operations(context: RequestContext, group: DescribedGroup) -> DescribedGroup:
    if group.error_code != ErrorCode.NONE:
        return group
    operations = context.bits(GROUP_OPERATIONS, AclResourceType.GROUP, group.group_id)
    return msgspec.structs.replace(group, authorized_operations=operations)
