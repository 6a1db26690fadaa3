"""SyncGroup. A follower's answer comes when the leader has assigned."""

from siltstone.broker.context import RequestContext
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.rules.actions import Assigned
from siltstone.broker.groups.rules.requests import Sync
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_REQUIRED_SINCE = 5


async def handle_sync_group(
    groups: Groups, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse:
    refusal = _refusal(context.api_version, request)
    if refusal is not None:
        return SyncGroupResponse(error_code=refusal)
    answer = await groups.ask(request.group_id, _sync(request))
    if isinstance(answer, ErrorCode):
        return SyncGroupResponse(error_code=_known_to_clients(answer))
    assert isinstance(answer, Assigned)
    return SyncGroupResponse(
        protocol_type=answer.protocol_type, protocol_name=answer.protocol_name, assignment=answer.assignment
    )


def _refusal(version: int, request: SyncGroupRequest) -> ErrorCode | None:
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
    """Java's consumer takes COORDINATOR_LOAD_IN_PROGRESS here for a fault it cannot survive. The rebalance it takes
    part in is lost anyway."""
    is_loading = refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.REBALANCE_IN_PROGRESS if is_loading else refusal
