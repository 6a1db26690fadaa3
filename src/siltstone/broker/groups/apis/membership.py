"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the life of a member.

A JoinGroup is answered at the end of the join phase, which may take as long as the group's rebalance timeout. A
follower's SyncGroup is answered when the leader has sent the assignment. LeaveGroup names one member up to version 2,
several from version 3 on. The rules for all four are in ``rules.states``.
"""

from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.rules.group import Protocol
from siltstone.broker.groups.rules.requests import (
    Answer,
    Assigned,
    Heartbeat,
    Join,
    Joined,
    Leave,
    LeavingMember,
    Left,
    MemberIdGiven,
    Sync,
)
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from siltstone.kafka_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from siltstone.kafka_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

TAKES_MEMBER_ID_SINCE = 4
NULL_PROTOCOL_SINCE = 7
CAN_SKIP_ASSIGNMENT_SINCE = 9
PROTOCOL_REQUIRED_SINCE = 5
SEVERAL_SINCE = 3

# -- JoinGroup -------------------------------------------------------------------------------------------


async def handle_join_group(
    groups: Groups, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse:
    version = context.api_version
    refusal = _join_refusal(groups, request)
    if refusal is not None:
        return _join_refused(version, request.member_id, refusal)
    answer = await groups.ask(request.group_id, _join(groups, context, request))
    return _join_response(version, request.member_id, answer)


def _join_refusal(groups: Groups, request: JoinGroupRequest) -> ErrorCode | None:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    settings = groups.settings
    least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    return None if least <= request.session_timeout_ms <= most else ErrorCode.INVALID_SESSION_TIMEOUT


def _join(groups: Groups, context: RequestContext, request: JoinGroupRequest) -> Join:
    """Version 0 has no rebalance timeout: the session timeout is used for both."""
    client_id = context.client_id or ""
    rebalance_timeout_ms = request.rebalance_timeout_ms
    return Join(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=f"/{context.client_host}",  # as Java writes addresses, and tools show them
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        new_member_id=groups.new_member_id(request.group_instance_id or client_id),
        takes_member_id=context.api_version >= TAKES_MEMBER_ID_SINCE,
        can_skip_assignment=context.api_version >= CAN_SKIP_ASSIGNMENT_SINCE,
    )


def _join_response(version: int, member_id: str, answer: Answer) -> JoinGroupResponse:
    if isinstance(answer, MemberIdGiven):
        return _join_refused(version, answer.member_id, ErrorCode.MEMBER_ID_REQUIRED)
    if isinstance(answer, ErrorCode):
        return _join_refused(version, member_id, answer)
    assert isinstance(answer, Joined)
    return JoinGroupResponse(
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader_id,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in answer.members
        ],
    )


def _join_refused(version: int, member_id: str, refusal: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=refusal,
        member_id=member_id,
        protocol_name=None if version >= NULL_PROTOCOL_SINCE else "",
    )


# -- SyncGroup -------------------------------------------------------------------------------------------


async def handle_sync_group(
    groups: Groups, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse:
    refusal = _sync_refusal(context.api_version, request)
    if refusal is not None:
        return SyncGroupResponse(error_code=refusal)
    answer = await groups.ask(request.group_id, _sync(request))
    if isinstance(answer, ErrorCode):
        return SyncGroupResponse(error_code=_known_to_clients(answer))
    assert isinstance(answer, Assigned)
    return SyncGroupResponse(
        protocol_type=answer.protocol_type, protocol_name=answer.protocol_name, assignment=answer.assignment
    )


def _sync_refusal(version: int, request: SyncGroupRequest) -> ErrorCode | None:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if version >= PROTOCOL_REQUIRED_SINCE and not names_protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _sync(request: SyncGroupRequest) -> Sync:
    return Sync(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={assigned.member_id: bytes(assigned.assignment) for assigned in request.assignments},
    )


def _known_to_clients(refusal: ErrorCode) -> ErrorCode:
    """Java's consumer fails for good when SyncGroup gets COORDINATOR_LOAD_IN_PROGRESS. REBALANCE_IN_PROGRESS makes it
    join again, which it has to do anyway: the rebalance is not in the log."""
    is_loading = refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.REBALANCE_IN_PROGRESS if is_loading else refusal


# -- Heartbeat -------------------------------------------------------------------------------------------


async def handle_heartbeat(groups: Groups, _: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    beat = Heartbeat(request.member_id, request.group_instance_id, request.generation_id)
    answer = await groups.ask(request.group_id, beat)
    assert isinstance(answer, ErrorCode)
    # While groups are loaded the member is not known yet, and its session starts again afterwards: it may just
    # continue.
    is_loading = answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else answer)


# -- LeaveGroup ------------------------------------------------------------------------------------------


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
