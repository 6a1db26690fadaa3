"""JoinGroup. The answer may take as long as a rebalance."""

from siltstone.broker.context import RequestContext
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.rules.actions import Answer, Joined, MemberIdGiven
from siltstone.broker.groups.rules.member import Protocol
from siltstone.broker.groups.rules.requests import Join
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

TAKES_MEMBER_ID_SINCE = 4
NULL_PROTOCOL_SINCE = 7
CAN_SKIP_ASSIGNMENT_SINCE = 9


async def handle_join_group(
    groups: Groups, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse:
    version = context.api_version
    refusal = _refusal(groups, request)
    if refusal is not None:
        return _refused(version, request.member_id, refusal)
    answer = await groups.ask(request.group_id, _join(groups, context, request))
    return _response(version, request.member_id, answer)


def _refusal(groups: Groups, request: JoinGroupRequest) -> ErrorCode | None:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    settings = groups.settings
    least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    return None if least <= request.session_timeout_ms <= most else ErrorCode.INVALID_SESSION_TIMEOUT


def _join(groups: Groups, context: RequestContext, request: JoinGroupRequest) -> Join:
    """Version 0 has no rebalance timeout: the session timeout was both."""
    client_id = context.client_id or ""
    rebalance_timeout_ms = request.rebalance_timeout_ms
    return Join(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=f"/{context.client_host}",  # as Java writes addresses: tools show it
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        new_member_id=groups.new_member_id(request.group_instance_id or client_id),
        takes_member_id=context.api_version >= TAKES_MEMBER_ID_SINCE,
        can_skip_assignment=context.api_version >= CAN_SKIP_ASSIGNMENT_SINCE,
    )


def _response(version: int, member_id: str, answer: Answer) -> JoinGroupResponse:
    if isinstance(answer, MemberIdGiven):
        return _refused(version, answer.member_id, ErrorCode.MEMBER_ID_REQUIRED)
    if isinstance(answer, ErrorCode):
        return _refused(version, member_id, answer)
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


def _refused(version: int, member_id: str, refusal: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=refusal,
        member_id=member_id,
        protocol_name=None if version >= NULL_PROTOCOL_SINCE else "",
    )
