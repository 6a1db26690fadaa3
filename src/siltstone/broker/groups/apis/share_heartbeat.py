"""ShareGroupHeartbeat: a member of a share group joins, stays and hears what it gets, or leaves. The rules are in
``share_protocol``; here are the checks of the request by itself."""

from siltstone.broker.groups.assigned.group import JOINS, LEAVES
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.keyed_values import by_topic
from siltstone.broker.groups.rules.requests import BeatAnswer, ShareBeat
from siltstone.broker.groups.share_protocol.group import ShareGroup
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.share_group_heartbeat import (
    AssignedSharePartitions,
    NewShareAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

TEXTS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such share group here.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The member is not in the group: it has left, or its session has ended. Join again.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The group is in another epoch. Join again.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members as it may have.",
}
"""What clients show beside the code."""


async def handle_share_group_heartbeat(
    groups: Groups, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    if (wrong := _what_is_wrong(request)) is not None:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=wrong)
    names = request.subscribed_topic_names
    beat = ShareBeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=None if names is None else tuple(names),
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",  # as Java writes addresses, and tools show them
    )

    def if_known(known: KnownGroup | None) -> ShareBeat | ErrorCode:
        if known is None:
            return beat if beat.epoch == JOINS else ErrorCode.GROUP_ID_NOT_FOUND
        return beat if isinstance(known.group, ShareGroup) else ErrorCode.GROUP_ID_NOT_FOUND

    answer = await groups.ask(request.group_id, if_known)
    if isinstance(answer, ErrorCode):
        return ShareGroupHeartbeatResponse(error_code=answer, error_message=TEXTS.get(answer))
    assert isinstance(answer, BeatAnswer)
    return ShareGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=groups.settings_of(request.group_id).group_share_heartbeat_interval_ms,
        assignment=None if answer.assigned is None else _assignment(answer.assigned),
    )


def _what_is_wrong(request: ShareGroupHeartbeatRequest) -> str | None:
    """Returns the reason for INVALID_REQUEST, in Kafka's order."""
    for name in ("group_id", "member_id", "rack_id"):
        if (text := getattr(request, name)) is not None and not text.strip():
            return f"{name} is empty."
    if request.member_epoch == JOINS and not request.subscribed_topic_names:
        return "subscribed_topic_names is missing in the heartbeat that joins."
    return f"member_epoch is {request.member_epoch}." if request.member_epoch < LEAVES else None


def _assignment(assigned: frozenset[tuple[bytes, int]]) -> NewShareAssignment:
    return NewShareAssignment(
        topic_partitions=[
            AssignedSharePartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(assigned).items()
        ]
    )
