"""ShareFetch: a member of a share group acknowledges what it has, and acquires more, in a session.

The first request of a session names the partitions, later ones what changes. A member that only renews its locks
acquires nothing, and neither does one that is above its quota: the acknowledgements of such a request are done. What is
acquired is always sent, and is charged afterwards: an answer without it would leave the records locked.
"""

from collections.abc import Iterable, Sequence

from siltstone.broker.apis.share_leaders import Hints, hints_of
from siltstone.broker.deliveries.steps import AcknowledgeType
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import AnswerInPieces, RequestContext
from siltstone.broker.shares.acknowledging import acknowledge_batches
from siltstone.broker.shares.fetching import AcquiredBatches, SharedIndex, ShareFetching, ShareWish
from siltstone.broker.shares.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SharedPartition,
    ShareSession,
    ShareSessionRefused,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.share_fetch import (
    AcquiredRecords,
    PiggybackAcknowledgement,
    ShareFetchedPartition,
    ShareFetchedTopic,
    ShareFetchEndpoint,
    ShareFetchLeader,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
)
from siltstone.model.acls import AclOperation, AclResourceType
from siltstone.runtime.turns import side_by_side

STRICT_MODE = 1
"""share.acquire.mode=record_limit."""


async def handle_share_fetch(
    parts: BrokerParts, context: RequestContext, request: ShareFetchRequest
) -> AnswerInPieces:
    try:
        session = _session(parts, context, request)
    except ShareSessionRefused as refused:
        return AnswerInPieces(ShareFetchResponse(error_code=refused.code, error_message=str(refused)))
    if isinstance(session, ErrorCode):
        return AnswerInPieces(ShareFetchResponse(error_code=session))
    group_id, member_id = request.group_id or "", request.member_id or ""
    acknowledged = await _acknowledged(parts, context, request)
    found: dict[SharedPartition, AcquiredBatches | ErrorCode] = {}
    if request.share_session_epoch == FINAL_EPOCH:
        parts.shares.end_session((group_id, member_id))
    elif not request.is_renew_ack and not parts.throttling.is_above_fetched(context.connection):
        wish = ShareWish(
            group_id,
            member_id,
            max(request.max_records, 1),
            _bytes_max(parts, context, request),
            request.share_acquire_mode == STRICT_MODE,
        )
        wait_ms = 0 if acknowledged else request.max_wait_ms
        found = await _fetched(parts, context, wish, session, wait_ms)
        acquired = (row for row in found.values() if isinstance(row, AcquiredBatches))
        parts.throttling.fetched(context.connection, sum(row.size_bytes for row in acquired))
    lock_ms = parts.shares.config_of(group_id).lock_ms
    return AnswerInPieces(_response(hints_of(parts, context), lock_ms, acknowledged, found))


def _bytes_max(parts: BrokerParts, context: RequestContext, request: ShareFetchRequest) -> int:
    bytes_max = min(request.max_bytes, parts.settings.fetch_max_bytes)
    return int(min(bytes_max, parts.throttling.fetch_bytes_max(context.connection)))


def _session(
    parts: BrokerParts, context: RequestContext, request: ShareFetchRequest
) -> ShareSession | ErrorCode:
    """Returns the session of the request, changed as it says. Raises ShareSessionRefused."""
    if not request.group_id or not request.member_id:
        return ErrorCode.INVALID_REQUEST
    member, epoch, sessions = (
        (request.group_id, request.member_id),
        request.share_session_epoch,
        parts.shares.sessions,
    )
    if epoch == INITIAL_EPOCH:
        if any(partition.acknowledgement_batches for _, partition in _partitions(request)):
            return ErrorCode.INVALID_REQUEST  # nothing can be acquired yet
        parts.shares.end_session(member)
        session = sessions.begin(member, context.connection.connection_id)
    else:
        session = sessions.resume(member, epoch)
    if epoch != FINAL_EPOCH:
        forgotten = [
            (topic.topic_id, index) for topic in request.forgotten_topics for index in topic.partitions
        ]
        named = [(topic_id, partition.index) for topic_id, partition in _partitions(request)]
        sessions.change(session, named, forgotten)
    return session


def _partitions(request: ShareFetchRequest) -> Iterable[tuple[bytes, ShareFetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic.topic_id, partition


def place_of(
    parts: BrokerParts, context: RequestContext, partition: SharedPartition
) -> SharedIndex | ErrorCode:
    """Returns the partition of a topic that exists and that the client may read, or the error."""
    topic = parts.topics.by_id(partition[0])
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not context.may_topic(AclOperation.READ, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return SharedIndex(topic, partition[1]) if parts.cluster.serves else ErrorCode.NOT_LEADER_OR_FOLLOWER


async def _acknowledged(
    parts: BrokerParts, context: RequestContext, request: ShareFetchRequest
) -> dict[SharedPartition, ErrorCode]:
    async def outcome(asked: tuple[bytes, ShareFetchPartition]) -> ErrorCode:
        topic_id, partition = asked
        place = place_of(parts, context, (topic_id, partition.index))
        if isinstance(place, ErrorCode):
            return place
        return await acknowledge_batches(
            parts.shares, request.group_id or "", request.member_id or "", place.topic, place.index,
            context.api_version, partition.acknowledgement_batches,
        )  # fmt: skip

    asked = [each for each in _partitions(request) if each[1].acknowledgement_batches]
    outcomes = await side_by_side(outcome, asked)
    return {(topic_id, each.index): code for (topic_id, each), code in zip(asked, outcomes, strict=True)}


async def _fetched(
    parts: BrokerParts, context: RequestContext, wish: ShareWish, session: ShareSession, wait_ms: int
) -> dict[SharedPartition, AcquiredBatches | ErrorCode]:
    """Returns the partitions with records or errors; one with records is looked at last next time."""
    rights = context.rights.version
    places: list[SharedIndex] = []
    found: dict[SharedPartition, AcquiredBatches | ErrorCode] = {}
    for partition in session.partitions:
        place = place_of(parts, context, partition)
        if isinstance(place, ErrorCode):
            found[partition] = place
        else:
            places.append(place)
    fetching = ShareFetching(parts.shares, parts.partitions, parts.clock)
    rows = await fetching.fetch(wish, places, 0 if found else wait_ms)
    if context.rights.version != rights:  # they may have changed while the fetch waited
        rows = await _still_allowed(parts, context, wish, rows)
    for row in rows:
        partition = (row.place.topic.topic_id, row.place.index)
        if not parts.cluster.serves:  # looked at last: the node may have been stopped while it read (N22)
            found[partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            continue
        found[partition] = row
        if row.batches:
            parts.partitions.count_fetched(row.place.topic.id, row.place.index, row.size_bytes)
            if partition in session.partitions:
                session.partitions.move_to_end(partition)
    return found


async def _still_allowed(
    parts: BrokerParts, context: RequestContext, wish: ShareWish, rows: Sequence[AcquiredBatches]
) -> list[AcquiredBatches]:
    """Returns the rows that the client may read still, and errors for topics that it may not read any more. What was
    acquired of the others is released, for other members. Without the group, the next request says why."""
    has_group = context.may(AclOperation.READ, AclResourceType.GROUP, wish.group_id)
    allowed = []
    for row in rows:
        has_topic = context.may_topic(AclOperation.READ, row.place.topic.name)
        if has_group and has_topic:
            allowed.append(row)
            continue
        released = [
            PiggybackAcknowledgement(
                first_offset=each.first, last_offset=each.end - 1, acknowledge_types=[AcknowledgeType.RELEASE]
            )
            for each in row.ranges
        ]
        await acknowledge_batches(
            parts.shares,
            wish.group_id,
            wish.member_id,
            row.place.topic,
            row.place.index,
            context.api_version,
            released,
        )
        if not has_topic:
            allowed.append(AcquiredBatches(row.place, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return allowed


def _response(
    hints: Hints,
    lock_ms: int,
    acknowledged: dict[SharedPartition, ErrorCode],
    found: dict[SharedPartition, AcquiredBatches | ErrorCode],
) -> ShareFetchResponse:
    topics: dict[bytes, ShareFetchedTopic] = {}
    for partition in dict.fromkeys((*found, *acknowledged)):
        topic_id = partition[0]
        topic = topics.setdefault(topic_id, ShareFetchedTopic(topic_id=topic_id, partitions=[]))
        topic.partitions.append(_row(hints, partition, acknowledged.get(partition), found.get(partition)))
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=lock_ms,
        topics=list(topics.values()),
        node_endpoints=[
            ShareFetchEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in hints.endpoints
        ],
    )


def _row(
    hints: Hints,
    partition: SharedPartition,
    acknowledged: ErrorCode | None,
    found: AcquiredBatches | ErrorCode | None,
) -> ShareFetchedPartition:
    code = found if isinstance(found, ErrorCode) else ErrorCode.NONE if found is None else found.error
    acknowledge_code = acknowledged or ErrorCode.NONE
    leader_id, leader_epoch = hints.leader(partition, code, acknowledge_code)
    rows: Sequence[AcquiredRecords] = ()
    if isinstance(found, AcquiredBatches):
        rows = [
            AcquiredRecords(first_offset=each.first, last_offset=each.end - 1, delivery_count=each.count)
            for each in found.ranges
        ]
    return ShareFetchedPartition(
        index=partition[1],
        error_code=code,
        acknowledge_error_code=acknowledge_code,
        current_leader=ShareFetchLeader(leader_id=leader_id, leader_epoch=leader_epoch),
        records=list(found.batches) if isinstance(found, AcquiredBatches) else [],
        acquired_records=list(rows),
    )
