"""The broker: takes a request frame, returns the answer. It chooses the handler by the API of the request, and refuses
malformed requests and versions that are not supported before any handler sees them.

The semantics of each API are in ``apis``; ``server.network`` reads and writes the sockets.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from siltstone.broker.apis.fetch import FetchApi
from siltstone.broker.apis.named_topics import know_named_topics
from siltstone.broker.apis.produce import ProduceApi
from siltstone.broker.apis.share_offsets import share_starts
from siltstone.broker.apis.table import APIS, Api
from siltstone.broker.backlog.backlog import BacklogWatch
from siltstone.broker.features import promise_later, wants_features
from siltstone.broker.partitions.handing_over import HandingOver
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import (
    Answer,
    AnswerInPieces,
    CloseConnection,
    ConnectionContext,
    EncodedBody,
    Independent,
    Overtakable,
    RequestContext,
    frame_of,
)
from siltstone.broker.security.audit.offsets import Known, groups_changed, known_offsets, offset_events
from siltstone.broker.security.audit.records import deletion_events, log_starts
from siltstone.broker.security.audit.trail import REQUEST, AuditTrail
from siltstone.broker.security.audit.writing import AuditWriter
from siltstone.broker.security.authenticator import Authenticator, LoginStatistics
from siltstone.broker.security.authorizer import Authorizer
from siltstone.broker.security.gates.table import GATES
from siltstone.broker.security.node_rights import NODE_RIGHTS
from siltstone.broker.security.staleness import ANSWERED_WHEN_STALE, Staleness
from siltstone.broker.topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from siltstone.broker.transactions.hidden_markers import HiddenMarkers
from siltstone.broker.unsupported import UnsupportedRequests
from siltstone.kafka_protocol.announced import ANNOUNCED, unsupported_version_body
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode, encode, encode_pieces
from siltstone.kafka_protocol.headers import RequestHeader, decode_request_header
from siltstone.kafka_protocol.malformed import MalformedMessage, UnknownApi
from siltstone.kafka_protocol.messages.delete_records import DeleteRecordsRequest
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.image import MetadataImage
from siltstone.model.access import NODE
from siltstone.model.buffers import Buffer
from siltstone.runtime.tasks import TaskGroup

PRODUCE_VERSION_MIN = 3
"""Versions 0 to 2 are announced but refused: librdkafka before 2.11.1 compresses only if they are announced, and never
sends them (KAFKA-18659)."""


class KafkaBroker:
    """The ``RequestHandler`` of a node; ``starting.start_broker`` makes it."""

    def __init__(
        self,
        parts: BrokerParts,
        backlog: BacklogWatch,
        moves: HandingOver,
        authenticator: Authenticator,
        authorizer: Authorizer,
        staleness: Staleness,
        trail: AuditTrail,
    ) -> None:
        self.staleness = staleness
        self.trail = trail
        self._tells_logins = trail.has_all
        self._audit = AuditWriter(trail, parts)
        self.moves = moves
        self.authorizer = authorizer
        self.parts = parts
        self.backlog = backlog
        self._clock = parts.clock
        self._measures = parts.measures
        self._throttling = parts.throttling
        self._produce = ProduceApi(parts)
        self._fetch = FetchApi(parts)
        self.authenticator = authenticator
        self._unsupported = UnsupportedRequests(parts.clock)
        self.hidden_markers = HiddenMarkers(
            parts.partitions, parts.topics.name_of, parts.transactions.open_anywhere, parts.markers, parts.clock,
            parts.settings.transaction_max_timeout_ms,
        )  # fmt: skip
        self._tasks = TaskGroup("broker", lambda _: None)
        self._image = parts.metadata.image
        self._stop_following: Callable[[], None] = lambda: None

    async def start(self) -> None:
        self._stop_following = self.parts.metadata.add_listener(self._follow)
        self._tasks.start("produce-time-limits", self._produce.sweep())
        if self.trail.is_on:
            self.parts.metadata.add_execution_listener(self.trail.executed)
            self._tasks.start("audit", self._audit.run())
        self.backlog.start()
        self.moves.start()
        if self.parts.topics.by_name(OFFSETS_TOPIC) is not None:
            self._tasks.start("load-groups", self.parts.groups.start())
        has_transactions = self.parts.topics.by_name(TRANSACTIONS_TOPIC) is not None
        expiration_ms = self.parts.settings.transactional_id_expiration_ms
        self._tasks.start(
            "load-transactions", self.parts.transactions.start(expiration_ms, loads=has_transactions)
        )
        self._tasks.start("hidden-markers", self.hidden_markers.watch())

    def _follow(self, image: MetadataImage) -> None:
        """Hands groups and transactions what has changed: leaders, and topics that other nodes have deleted."""
        before, self._image = self._image, image
        is_same = image.nodes.is_unchanged_from(before.nodes) and image.topics.is_unchanged_from(
            before.topics
        )
        if not is_same and wants_features(image):
            self._tasks.start("features", promise_later(self.parts.metadata, self.parts.node_id))
        if not is_same and OFFSETS_TOPIC in image.topic_ids:
            self.parts.groups.follow_leaders()
        if not is_same and TRANSACTIONS_TOPIC in image.topic_ids:
            self.parts.transactions.follow_leaders()
        if not self.parts.cluster.has_others or image.topic_ids.is_unchanged_from(before.topic_ids):
            return
        gone = [
            name
            for name, topic_id in before.topic_ids.changed_from(image.topic_ids)
            if image.topic_ids.get(name) != topic_id
        ]
        if gone and OFFSETS_TOPIC in image.topic_ids:
            self._tasks.start("forget-topics", self._forget_topics(gone))

    async def _forget_topics(self, names: list[str]) -> None:
        """These topics are gone; there may be others of their names."""
        for name in names:
            successor = self.parts.topics.by_name(name)
            await self.parts.groups.forget_topic(name, None if successor is None else successor.created_ms)

    @property
    def wants_pause(self) -> bool:
        return self.parts.engine.has_waiting_appends

    def handle(
        self, connection: ConnectionContext, frame: memoryview
    ) -> "Answer | asyncio.Future[Answer] | Coroutine[Any, Any, Answer] | Overtakable | Independent":
        """See RequestHandler. Raises CloseConnection."""
        try:
            header, body = decode_request_header(frame)
            context = RequestContext(
                connection, header.api_key, header.api_version, header.correlation_id, header.client_id,
                self._clock.monotonic_ms(), self.authorizer,
            )  # fmt: skip
            connection.client_id = header.client_id or ""
            if self._tells_logins and not connection.is_told:
                self.trail.came(connection)
            if header.api_key not in ANSWERED_WHEN_STALE and self.staleness.is_over:
                raise CloseConnection(self.staleness.reason)
            if self.authenticator.is_wanted(context):
                return self.authenticator.handle(context, body)
            if not _is_announced(header):
                return self._refused_version(context)
            if connection.principal is NODE and header.api_key not in NODE_RIGHTS:
                raise CloseConnection(f"a node may not ask for {header.api_key.name} of another node")
            self._measures.begin(header.api_key)
            if header.api_key == ApiKey.PRODUCE:
                return self._produce.handle(context, body)
            if header.api_key == ApiKey.FETCH:
                return self._answer_fetch(context, body)
            answering = self._answer(APIS[header.api_key], context, body)
            return Independent(answering) if connection.principal is NODE else answering
        except UnknownApi as unknown:
            raise self._unsupported.refusal(connection, unknown.number, unknown.version) from unknown
        except MalformedMessage as malformed:
            raise CloseConnection(str(malformed)) from malformed

    def _refused_version(self, context: RequestContext) -> Answer:
        """ApiVersions is answered in version 0 with the versions of all APIs (item 1). Any other API has no answer for
        a version that is not announced, so the connection is closed (item 6). Raises CloseConnection."""
        if context.api_key == ApiKey.API_VERSIONS:
            return frame_of(context, unsupported_version_body())
        raise self._unsupported.refusal(context.connection, context.api_key, context.api_version)

    def connection_closed(self, connection: ConnectionContext) -> None:
        """Ends the share sessions of the connection, whose records other members may have now. No other state belongs
        to a connection: group members leave by missing heartbeats, fetch sessions expire by age."""
        self.parts.shares.connection_closed(connection.connection_id)

    def certificate_refused(self, listener: str, host: str, reason: str) -> None:
        self.trail.certificate_refused(listener, host, reason)

    async def _answer(self, api: Api, context: RequestContext, body: memoryview) -> Answer:
        request = _decoded(api, context, body)
        response = await self._throttling.timed(context.connection, self._response(api, context, request))
        if isinstance(response, EncodedBody):
            return self._answered(context, response.body)
        is_large = isinstance(response, AnswerInPieces)
        message = response.message if isinstance(response, AnswerInPieces) else response
        self._measures.count_errors(context.api_key, message)
        if throttle_ms := self._throttling.told_ms(context.connection):
            message = _with_throttle_time(message, throttle_ms)
        if is_large:
            return self._answered(context, *encode_pieces(message, context.api_version))
        return self._answered(context, encode(message, context.api_version))

    async def _response(
        self, api: Api, context: RequestContext, request: Message
    ) -> Message | EncodedBody | AnswerInPieces:
        if not self.trail.is_on:
            return await self._gated(api, context, request)
        under_way = REQUEST.set(context)
        try:
            if isinstance(request, DeleteRecordsRequest):
                starts = log_starts(self.parts, request)
                response = await self._gated(api, context, request)
                events = deletion_events(response, starts)
            elif context.connection.principal is not NODE and (changed := groups_changed(request)):
                before = await known_offsets(self.parts.groups, changed)
                response = await self._gated(_noting_shares(api, before), context, request)
                after = await known_offsets(self.parts.groups, changed)
                events = offset_events(request, response, before, after)
            else:
                return await self._gated(api, context, request)
            for event in events:
                self.trail.changed(context, event)
            return response
        finally:
            REQUEST.reset(under_way)

    async def _gated(
        self, api: Api, context: RequestContext, request: Message
    ) -> Message | EncodedBody | AnswerInPieces:
        await know_named_topics(self.parts, context, request)
        if self.authorizer.is_open:
            return await api.handle(self.parts, context, request)
        handle = partial(api.handle, self.parts, context)
        response: Message | EncodedBody | AnswerInPieces = await GATES[context.api_key](
            self.parts, context, request, handle
        )
        return response

    async def _answer_fetch(self, context: RequestContext, body: memoryview) -> Answer:
        try:
            pieces = await self._fetch.handle(context, body)
        except MalformedMessage as malformed:
            raise CloseConnection(str(malformed)) from malformed
        return self._answered(context, *pieces)

    def _answered(self, context: RequestContext, *body: Buffer) -> Answer:
        seconds = (self._clock.monotonic_ms() - context.begun_ms) / 1000
        self._measures.answered(context.api_key, seconds)
        return frame_of(context, *body)

    def logins(self) -> LoginStatistics:
        return self.authenticator.statistics()

    def end_waits(self) -> None:
        """See RequestHandler. Waiting group members are answered NOT_COORDINATOR, waiting fetches with the batches
        there are."""
        self.authenticator.end_waits()
        self.backlog.end_waits()
        self.parts.groups.end_waits()
        self.parts.transactions.end_waits()
        self._fetch.end_waits()
        self.parts.shares.end_waits()

    async def close(self) -> None:
        self._stop_following()
        await self.moves.close()
        await self._tasks.cancel()
        await self._audit.end()
        await self.backlog.close()
        await self.parts.transactions.close()
        await self.parts.groups.close()
        self.parts.shares.close()
        await self.parts.partitions.close()


def _decoded(api: Api, context: RequestContext, body: memoryview) -> Any:
    try:
        return decode(api.request, context.api_version, body)
    except MalformedMessage as malformed:
        raise CloseConnection(str(malformed)) from malformed


def _noting_shares(api: Api, known: Known) -> Api:
    """Returns the API with a handler that first notes where the share groups begin which the request changes. That asks
    other nodes, so it is done behind the gate, for what the client may change."""

    async def handle(
        parts: BrokerParts, context: RequestContext, request: Any
    ) -> Message | EncodedBody | AnswerInPieces:
        for group_id, starts in (await share_starts(parts, request)).items():
            known.setdefault(group_id, {}).update(starts)
        return await api.handle(parts, context, request)

    return msgspec.structs.replace(api, handle=handle)


def _with_throttle_time(response: Message, throttle_ms: int) -> Message:
    """Returns the response with the time for which its client is throttled, where it has a field for it."""
    if "throttle_time_ms" not in response.__struct_fields__:
        return response
    return msgspec.structs.replace(response, throttle_time_ms=throttle_ms)


def _is_announced(header: RequestHeader) -> bool:
    versions = ANNOUNCED.get(header.api_key)
    if versions is None or not versions[0] <= header.api_version <= versions[1]:
        return False
    return header.api_key != ApiKey.PRODUCE or header.api_version >= PRODUCE_VERSION_MIN
