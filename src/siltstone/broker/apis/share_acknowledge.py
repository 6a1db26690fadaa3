"""ShareAcknowledge: a member of a share group acknowledges records without fetching others."""

from siltstone.broker.apis.share_fetch import place_of
from siltstone.broker.apis.share_leaders import Hints, hints_of
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.shares.acknowledging import acknowledge_batches
from siltstone.broker.shares.sessions import FINAL_EPOCH, INITIAL_EPOCH, SharedPartition, ShareSessionRefused
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.share_acknowledge import (
    AcknowledgedPartition,
    AcknowledgedTopic,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeEndpoint,
    ShareAcknowledgeLeader,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from siltstone.runtime.turns import side_by_side


async def handle_share_acknowledge(
    parts: BrokerParts, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    if not request.group_id or not request.member_id:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    member, epoch = (request.group_id, request.member_id), request.share_session_epoch
    try:
        if epoch == INITIAL_EPOCH:
            raise ShareSessionRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        parts.shares.sessions.resume(member, epoch)
    except ShareSessionRefused as refused:
        return ShareAcknowledgeResponse(error_code=refused.code, error_message=str(refused))
    hints = hints_of(parts, context)
    topics = [await _topic(parts, context, request, topic, hints) for topic in request.topics]
    if epoch == FINAL_EPOCH:
        parts.shares.end_session(member)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=parts.shares.config_of(request.group_id).lock_ms,
        topics=topics,
        node_endpoints=[
            ShareAcknowledgeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in hints.endpoints
        ],
    )


async def _topic(
    parts: BrokerParts,
    context: RequestContext,
    request: ShareAcknowledgeRequest,
    topic: AcknowledgeTopic,
    hints: Hints,
) -> AcknowledgedTopic:
    async def row(asked: AcknowledgePartition) -> AcknowledgedPartition:
        partition = (topic.topic_id, asked.index)
        code = await _outcome(parts, context, request, partition, asked)
        leader_id, leader_epoch = hints.leader(partition, code)
        leader = ShareAcknowledgeLeader(leader_id=leader_id, leader_epoch=leader_epoch)
        return AcknowledgedPartition(index=asked.index, error_code=code, current_leader=leader)

    return AcknowledgedTopic(topic_id=topic.topic_id, partitions=await side_by_side(row, topic.partitions))


async def _outcome(
    parts: BrokerParts,
    context: RequestContext,
    request: ShareAcknowledgeRequest,
    partition: SharedPartition,
    asked: AcknowledgePartition,
) -> ErrorCode:
    place = place_of(parts, context, partition)
    if isinstance(place, ErrorCode):
        return place
    return await acknowledge_batches(
        parts.shares, request.group_id or "", request.member_id or "", place.topic, place.index,
        context.api_version, asked.acknowledgement_batches,
    )  # fmt: skip
