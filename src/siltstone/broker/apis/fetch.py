"""Fetch: returns record batches of partitions, with sessions (KIP-227) for clients that fetch many partitions.

Without a session a request names all partitions, and the response has a row for each of them. With a session a request
names only what changed since the last one, and the response has only the partitions with news. Batches are sent as
they lie in memory and never joined into one buffer. Items 27 to 34 of docs/scenarios.md. Read next: ``fetching``.
"""

from collections.abc import Iterable, Mapping, Sequence

from siltstone.broker.cluster_view import LeaderHint
from siltstone.broker.fetching.damaged_reads import DamagedReads
from siltstone.broker.fetching.long_poll import OpenWaits, long_poll
from siltstone.broker.fetching.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    PartitionKey,
    SentState,
    SessionPartition,
    SessionRefused,
)
from siltstone.broker.fetching.wanted import FoundPartition, WantedPartition
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import Listener, RequestContext
from siltstone.broker.request_measures import RequestStage
from siltstone.kafka_protocol.codec import decode, encode_pieces
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.fetch import (
    AbortedTransaction,
    CurrentLeader,
    EpochEndOffset,
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
)
from siltstone.model.acls import CLUSTER_NAME, AclOperation, AclResourceType
from siltstone.model.buffers import Buffer

TOPIC_ID_VERSION = 13
REPLICA_STATE_VERSION = 15
CURRENT_LEADER_VERSION = 16

LEADERSHIP_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
READ_COMMITTED = 1


class FetchApi:
    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._sessions = FetchSessions(parts.settings.fetch_sessions_max)
        self._reads = DamagedReads(parts.partitions.damage)
        self._measures = parts.measures
        self._waits = OpenWaits()

    async def handle(self, context: RequestContext, body: memoryview) -> list[Buffer]:
        """Returns the encoded body of the response, in pieces. Raises MalformedMessage."""
        request = decode(FetchRequest, context.api_version, body)
        try:
            session, asked = self._asked(context.api_version, request)
        except SessionRefused as refused:
            self._measures.failed(context.api_key, refused.code)
            return encode_pieces(FetchResponse(error_code=refused.code), context.api_version)
        reads_committed = request.isolation_level == READ_COMMITTED
        rights = context.rights.version
        wanted, denied = _parted(
            context, request, [self._wanted(partition, reads_committed) for partition in asked]
        )
        cluster, clock, throttling = self._parts.cluster, self._parts.clock, self._parts.throttling
        found: list[FoundPartition] = []
        if cluster.serves and (wanted or not denied):
            bytes_max = self._bytes_max(context, request)
            polling = long_poll(
                self._parts.partitions,
                self._reads,
                clock,
                self._waits,
                wanted,
                bytes_min=min(request.min_bytes, bytes_max),
                bytes_max=bytes_max,
                wait_ms_max=request.max_wait_ms,
            )
            polled = await throttling.timed(context.connection, polling)
            found = polled.found
            read_ms = clock.monotonic_ms() - context.begun_ms - polled.waited_ms
            self._measures.staged(RequestStage.FETCH_READ, read_ms / 1000)
            if polled.has_waited:
                self._measures.staged(RequestStage.FETCH_WAIT, polled.waited_ms / 1000)
        if not cluster.serves:  # looked at last: the node may have been stopped while it read (N22)
            found = [FoundPartition(one, ErrorCode.NOT_LEADER_OR_FOLLOWER) for one in wanted]
        elif cluster.has_others:
            found = [self._without_old_end(row) for row in found]
        if context.rights.version != rights:  # they may have changed while the fetch waited
            found = _still_allowed(context, request, found)
        found += [FoundPartition(one, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for one in denied]
        if throttling.refuses_fetched(context.connection, sum(row.size_bytes for row in found)):
            return self._throttled(context, request, session)
        polled_ms = clock.monotonic_ms()
        if session is not None:  # everything is news to a new one
            found = [row for row in found if _is_news(session, row)]
        leaders = self._leaders(context, found) if context.api_version >= CURRENT_LEADER_VERSION else {}
        endpoints = {hint.endpoint.node_id: hint.endpoint for hint in leaders.values()}
        response = FetchResponse(
            session_id=session.session_id if session is not None else NO_SESSION,
            throttle_time_ms=throttling.told_ms(context.connection),
            topics=self._topics(found, leaders),
            node_endpoints=[
                NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
                for each in endpoints.values()
            ],
        )
        self._count(context, found)
        pieces = encode_pieces(response, context.api_version)
        self._measures.staged(
            RequestStage.FETCH_ENCODE, (self._parts.clock.monotonic_ms() - polled_ms) / 1000
        )
        return pieces

    def _bytes_max(self, context: RequestContext, request: FetchRequest) -> int:
        bytes_max = min(request.max_bytes, self._parts.settings.fetch_max_bytes)
        return int(min(bytes_max, self._parts.throttling.fetch_bytes_max(context.connection)))

    def _throttled(
        self, context: RequestContext, request: FetchRequest, session: FetchSession | None
    ) -> list[Buffer]:
        """Returns an answer without rows, with the time for which the client waits. A session continues, and one that
        would begin does not, as in Kafka."""
        if session is not None and request.session_epoch == INITIAL_EPOCH:
            self._sessions.end(session.session_id)
            session = None
        response = FetchResponse(
            session_id=NO_SESSION if session is None else session.session_id,
            throttle_time_ms=self._parts.throttling.told_ms(context.connection),
        )
        return encode_pieces(response, context.api_version)

    def _without_old_end(self, row: FoundPartition) -> FoundPartition:
        """Refuses a row that has nothing but the end of a partition which another node may lead by now (M24)."""
        topic = row.wanted.topic
        if row.ends_the_wait or row.batches or topic is None:
            return row
        partition = self._parts.partitions.opened(topic.id, row.wanted.index)
        if partition is not None and partition.knows_its_end:
            return row
        return FoundPartition(row.wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _count(self, context: RequestContext, found: Iterable[FoundPartition]) -> None:
        for row in found:
            if row.error is not ErrorCode.NONE:
                self._measures.failed(context.api_key, row.error)
            elif row.size_bytes and row.wanted.topic is not None:
                self._parts.partitions.count_fetched(row.wanted.topic.id, row.wanted.index, row.size_bytes)

    def end_waits(self) -> None:
        """Answers every waiting fetch with the batches there are. Later fetches do not wait."""
        self._waits.end()

    def _asked(
        self, version: int, request: FetchRequest
    ) -> tuple[FetchSession | None, list[SessionPartition]]:
        """Returns the session of the request, if it has one, and the partitions to be fetched. Where the request names
        a partition twice, the last naming counts. Raises SessionRefused."""
        named = {partition.key: partition for partition in _asked_partitions(request)}
        asked = list(named.values())
        now_ms = self._parts.clock.monotonic_ms()
        if request.session_epoch == FINAL_EPOCH:
            self._sessions.end(request.session_id)
            return None, asked
        uses_topic_ids = version >= TOPIC_ID_VERSION
        if request.session_epoch == INITIAL_EPOCH:
            self._sessions.end(request.session_id)
            new_id = self._parts.rng.randrange(1, 2**31)
            return self._sessions.begin(new_id, asked, uses_topic_ids, now_ms), asked
        session = self._sessions.resume(request.session_id, request.session_epoch, uses_topic_ids, now_ms)
        self._sessions.change(session, asked, _forgotten_partitions(request))
        if not session.partitions:
            return None, []
        return session, list(session.partitions.values())

    def _wanted(self, asked: SessionPartition, reads_committed: bool) -> WantedPartition:
        name, topic_id, index = asked.key
        topics = self._parts.topics
        return WantedPartition(
            topics.by_name(name) if name else topics.by_id(topic_id),
            name, topic_id, index, asked.fetch_offset, asked.bytes_max,
            asked.current_leader_epoch, asked.last_fetched_epoch, asked.log_start_offset, reads_committed,
        )  # fmt: skip

    def _topics(
        self, found: Sequence[FoundPartition], leaders: Mapping[int, LeaderHint]
    ) -> list[FetchedTopic]:
        """Returns the rows in the order of ``found``. Neighbours of the same topic share a topic row."""
        topics: list[FetchedTopic] = []
        for number, row in enumerate(found):
            wanted = row.wanted
            last = topics[-1] if topics else None
            if last is None or (last.name, last.topic_id) != (wanted.topic_name, wanted.topic_id):
                last = FetchedTopic(name=wanted.topic_name, topic_id=wanted.topic_id, partitions=[])
                topics.append(last)
            last.partitions.append(self._partition_row(row, leaders.get(number)))
        return topics

    def _partition_row(self, row: FoundPartition, leader: LeaderHint | None) -> FetchedPartition:
        return FetchedPartition(
            index=row.wanted.index,
            error_code=row.error,
            high_watermark=row.high_watermark,
            last_stable_offset=row.last_stable_offset,
            log_start_offset=row.log_start_offset,
            aborted_transactions=_aborted(row) if row.wanted.reads_committed else None,
            records=list(row.batches),
            diverging_epoch=_diverging(row),
            current_leader=CurrentLeader()
            if leader is None
            else CurrentLeader(leader_id=leader.endpoint.node_id, leader_epoch=leader.leader_epoch),
        )

    def _leaders(self, context: RequestContext, found: Sequence[FoundPartition]) -> dict[int, LeaderHint]:
        """Returns the leaders of the rows, by number, whose client has the wrong one, so that it need not request
        metadata (KIP-951)."""
        leaders: dict[int, LeaderHint] = {}
        for number, row in enumerate(found):
            if row.error not in LEADERSHIP_ERRORS or row.wanted.topic is None:
                continue
            hint = self._leader(context.connection.listener, row, row.wanted.topic.id)
            if hint is not None:
                leaders[number] = hint
        return leaders

    def _leader(self, listener: Listener, row: FoundPartition, topic_id: str) -> LeaderHint | None:
        cluster = self._parts.cluster
        if row.leader_epoch < 0:
            return cluster.hint(topic_id, row.wanted.index, listener)
        itself = cluster.endpoint_of(cluster.node_id, listener)
        return None if itself is None else LeaderHint(row.leader_epoch, itself)


def _parted(
    context: RequestContext, request: FetchRequest, wanted: list[WantedPartition]
) -> tuple[list[WantedPartition], list[WantedPartition]]:
    """Returns the partitions that the client may read, and the others. Each fetch asks, in sessions too. A topic
    that does not exist is denied by its name, but not by its id: that the handler does not know it is answered."""
    if context.rights.is_open:
        return wanted, []
    replica_id = (
        request.replica.replica_id if context.api_version >= REPLICA_STATE_VERSION else request.replica_id
    )
    if replica_id >= 0 and not context.may(
        AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        return [], wanted
    parted: tuple[list[WantedPartition], list[WantedPartition]] = ([], [])
    for one in wanted:
        parted[not _may_read(context, one)].append(one)
    return parted


def _may_read(context: RequestContext, wanted: WantedPartition) -> bool:
    name = wanted.topic.name if wanted.topic is not None else wanted.topic_name
    return not name or context.may_topic(AclOperation.READ, name)


def _still_allowed(
    context: RequestContext, request: FetchRequest, found: list[FoundPartition]
) -> list[FoundPartition]:
    _, denied = _parted(context, request, [row.wanted for row in found])
    numbers = {id(one) for one in denied}
    return [
        FoundPartition(row.wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED) if id(row.wanted) in numbers else row
        for row in found
    ]


def _aborted(row: FoundPartition) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in row.aborted
    ]


def _diverging(row: FoundPartition) -> EpochEndOffset:
    end = row.diverging
    return EpochEndOffset(epoch=end.leader_epoch, end_offset=end.end_offset) if end else EpochEndOffset()


def _asked_partitions(request: FetchRequest) -> Iterable[SessionPartition]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield SessionPartition(
                (topic.name, topic.topic_id, partition.index), partition.fetch_offset, partition.bytes_max,
                partition.current_leader_epoch, partition.last_fetched_epoch, partition.log_start_offset,
            )  # fmt: skip


def _forgotten_partitions(request: FetchRequest) -> Iterable[PartitionKey]:
    for topic in request.forgotten_topics:
        for index in topic.partitions:
            yield topic.name, topic.topic_id, index


def _is_news(session: FetchSession, row: FoundPartition) -> bool:
    key = (row.wanted.topic_name, row.wanted.topic_id, row.wanted.index)
    if row.ends_the_wait:
        session.forget_state(key)
        return True
    state = SentState(row.high_watermark, row.log_start_offset, row.last_stable_offset)
    return session.is_news(key, state, has_data=bool(row.batches))
