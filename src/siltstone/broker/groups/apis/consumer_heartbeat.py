"""ConsumerGroupHeartbeat: a member of a group of KIP-848 joins, stays, says what it owns and hears what it gets, or
leaves. The rules are in ``consumer_protocol``; here are the checks of the request by itself."""

from collections.abc import Iterable

from siltstone.broker.groups.assigned.group import JOINS, LEAVES, LEAVES_FOR_A_WHILE
from siltstone.broker.groups.consumer_protocol.assignors import ASSIGNORS
from siltstone.broker.groups.consumer_protocol.group import PartitionOfId
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.keyed_values import by_topic
from siltstone.broker.groups.rules.requests import BeatAnswer, ConsumerBeat
from siltstone.broker.name_patterns import NamePattern, PatternRefused
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    AssignedPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    NewAssignment,
)
from siltstone.model.acls import AclOperation

MEMBER_ID_OF_CLIENT_SINCE = 1
"""From this version on a client makes its own member id, so that a repeated request makes no second member."""

TEXTS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group of the consumer protocol here.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The member is not in the group: it has left, or its session has ended. Join again.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The group is in another epoch. Give all partitions up and join again.",
    ErrorCode.UNRELEASED_INSTANCE_ID: "Another member has this group.instance.id, and has not left.",
    ErrorCode.FENCED_INSTANCE_ID: "Another member has taken over this group.instance.id.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members as it may have.",
    ErrorCode.UNSUPPORTED_ASSIGNOR: f"There is no such assignor; there are {', '.join(ASSIGNORS)}.",
}
"""What clients show beside the code."""


async def handle_consumer_group_heartbeat(
    groups: Groups, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    if (wrong := _what_is_wrong(context.api_version, request)) is not None:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=wrong)
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        return _refused(ErrorCode.UNSUPPORTED_ASSIGNOR)
    try:
        if request.subscribed_topic_regex:
            NamePattern(request.subscribed_topic_regex)
    except PatternRefused as refused:
        code = ErrorCode.INVALID_REGULAR_EXPRESSION
        return ConsumerGroupHeartbeatResponse(error_code=code, error_message=str(refused))
    beat = _beat(groups, context, request)

    def if_known(known: KnownGroup | None) -> ConsumerBeat | ErrorCode:
        return beat if known is not None or beat.epoch == JOINS else ErrorCode.GROUP_ID_NOT_FOUND

    answer = await groups.ask(request.group_id, if_known)
    if isinstance(answer, ErrorCode):
        return _refused(answer)
    assert isinstance(answer, BeatAnswer)
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=groups.heartbeat_interval_ms(request.group_id),
        assignment=None if answer.assigned is None else _assignment(answer.assigned),
    )


def _refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=TEXTS.get(code))


def _what_is_wrong(version: int, request: ConsumerGroupHeartbeatRequest) -> str | None:
    """Returns the reason for INVALID_REQUEST, in Kafka's order."""
    epoch = request.member_epoch
    for name in ("group_id", "instance_id", "rack_id"):
        if (text := getattr(request, name)) is not None and not text.strip():
            return f"{name} is empty."
    if not request.member_id.strip() and (
        version >= MEMBER_ID_OF_CLIENT_SINCE or epoch > 0 or epoch == LEAVES
    ):
        return "member_id is empty."
    if epoch == JOINS:
        return _what_is_missing(request)
    if epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        return "Only a member with an instance_id leaves for a while."
    return f"member_epoch is {epoch}." if epoch < LEAVES_FOR_A_WHILE else None


def _what_is_missing(request: ConsumerGroupHeartbeatRequest) -> str | None:
    """A member that joins says everything."""
    if request.rebalance_timeout_ms == -1:
        return "rebalance_timeout_ms is missing in the heartbeat that joins."
    if request.topic_partitions is None or request.topic_partitions:
        return "topic_partitions has to be there and empty in the heartbeat that joins."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Neither names nor a pattern of topics are in the heartbeat that joins."
    return None


def _beat(groups: Groups, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> ConsumerBeat:
    client_id, owned = context.client_id or "", request.topic_partitions
    names = request.subscribed_topic_names
    return ConsumerBeat(
        member_id=request.member_id or groups.new_member_id(request.instance_id or client_id),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else tuple(names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset((each.topic_id, n) for each in owned for n in each.partitions),
        client_id=client_id,
        client_host=f"/{context.client_host}",  # as Java writes addresses, and tools show them
        sees=lambda name: context.may_topic(AclOperation.DESCRIBE, name, is_named=False),
    )


def _assignment(assigned: Iterable[PartitionOfId]) -> NewAssignment:
    return NewAssignment(
        topic_partitions=[
            AssignedPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(assigned).items()
        ]
    )
