"""Heartbeat."""

from siltstone.broker.context import RequestContext
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.rules.requests import Heartbeat
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


async def handle_heartbeat(groups: Groups, _: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    beat = Heartbeat(request.member_id, request.group_instance_id, request.generation_id)
    answer = await groups.ask(request.group_id, beat)
    assert isinstance(answer, ErrorCode)
    # Whether it is a member is not known yet, and sessions begin anew after loading: it need not do anything.
    is_loading = answer is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else answer)
