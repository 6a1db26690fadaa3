"""LeaveGroup: one member up to version 2, several from version 3 on."""

from siltstone.broker.context import RequestContext
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.rules.actions import Left
from siltstone.broker.groups.rules.requests import Leave, LeavingMember
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

SEVERAL_SINCE = 3


async def handle_leave_group(
    groups: Groups, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    is_single = context.api_version < SEVERAL_SINCE
    members = [MemberIdentity(member_id=request.member_id)] if is_single else request.members
    leaving = tuple(LeavingMember(member.member_id, member.group_instance_id) for member in members)
    answer = await groups.ask(request.group_id, Leave(leaving))
    if isinstance(answer, ErrorCode):
        return LeaveGroupResponse(error_code=answer)
    assert isinstance(answer, Left)
    if is_single:
        return LeaveGroupResponse(error_code=answer.errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error
            )
            for member, error in zip(members, answer.errors, strict=True)
        ]
    )
