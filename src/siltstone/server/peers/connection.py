"""One connection to another node: it proves both ends, and then sends requests and matches their answers.

    ApiVersions      which versions the other node speaks
    SaslHandshake    SILTSTONE-NODE
    SaslAuthenticate claim, then proof (``broker.security.sasl.node``)

Answers come in any order: a node that answers may have to ask this one first, and what it asks must not wait behind the
request that waits for it. After a failure the connection is closed, and the outcome of its requests is unknown.
"""

import asyncio
import os
import ssl
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from siltstone.broker.peers import M, PeerUnreachable
from siltstone.broker.security.sasl.node import AnswererNotProved, NodeCall
from siltstone.kafka_client.connection import ASKED_IN, SpokenVersions
from siltstone.kafka_client.failures import RequestNotSpoken
from siltstone.kafka_protocol.codec import decode, decode_in_place, encode
from siltstone.kafka_protocol.headers import RequestHeader, decode_response_header, encode_request_header
from siltstone.kafka_protocol.malformed import MalformedMessage
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from siltstone.kafka_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.entities import NodeLife
from siltstone.model.access import NodeMechanism
from siltstone.model.limits import MIB, SECOND_MS
from siltstone.model.secret import Secret
from siltstone.model.version import VERSION
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup, ends_in_time
from siltstone.server.network.tls import channel_of

OPENING_MS_MAX = 5 * SECOND_MS
"""A node of the same network answers within milliseconds. It may wait two seconds until it knows the secret of a node
that has only started."""

ANSWER_BYTES_MAX = 16 * MIB
"""Answers between nodes name partitions and error codes."""

CLIENT_NAME = "siltstone-node"
_VERSION_OF_LOGINS = 1
_SIZE_BYTES = 4

T = TypeVar("T")


class PeerAddress(msgspec.Struct, frozen=True):
    """Where a node is reached. ``context``: of TLS; None: the listener does not encrypt."""

    host: str
    port: int
    context: ssl.SSLContext | None = None


async def in_time(work: Coroutine[Any, Any, T], clock: Clock, limit_ms: float, node_id: int) -> T:
    """Returns what ``work`` returns. Raises PeerUnreachable after the time limit."""
    results: list[T] = []

    async def worked() -> None:
        results.append(await work)

    if not await ends_in_time(worked(), clock, limit_ms):
        raise PeerUnreachable(node_id, f"it did not answer in {limit_ms / SECOND_MS:g} s")
    return results[0]


async def open_peer(
    address: PeerAddress, caller: NodeLife, secret: Secret, answerer: NodeLife, nonce: bytes, tasks: TaskGroup
) -> "PeerConnection":
    """Connects to another node, and has both ends prove who they are. Raises PeerUnreachable."""
    node_id = answerer.node_id
    try:
        reader, writer = await asyncio.open_connection(
            address.host,
            address.port,
            ssl=address.context,
            server_hostname=None if address.context is None else address.host,
        )
    except OSError as trouble:  # an ssl.SSLError, too
        raise PeerUnreachable(node_id, f"{address.host}:{address.port}: {_words(trouble)}") from trouble
    connection = PeerConnection(node_id, reader, writer, tasks)
    try:
        await connection.prove(caller, secret, answerer, nonce)
    except BaseException:
        connection.close("the proof was not completed")
        raise
    return connection


def _words(trouble: OSError) -> str:
    if isinstance(trouble, ssl.SSLError):
        return f"the handshake of TLS failed ({trouble.reason or trouble})"
    if trouble.errno:  # asyncio has words of its own, which name no reason
        return os.strerror(trouble.errno).lower()
    return str(trouble) or type(trouble).__name__


class PeerConnection:
    """``open_peer`` makes it."""

    def __init__(
        self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tasks: TaskGroup
    ) -> None:
        self._node_id = node_id
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        """By correlation id."""
        self.answered_count = 0
        self._correlation_id = 0
        self._spoken = SpokenVersions(f"node {node_id}", ())
        self._reading = tasks.start(f"read node {node_id}", self._read_for_ever())
        self.is_open = True

    # -- the proof ---------------------------------------------------------------------------------------

    async def prove(self, caller: NodeLife, secret: Secret, answerer: NodeLife, nonce: bytes) -> None:
        """Raises PeerUnreachable."""
        encrypted = self._writer.get_extra_info("ssl_object")
        shown = None if encrypted is None else encrypted.getpeercert(binary_form=True)
        call = NodeCall(caller, secret, answerer.node_id, answerer.node_epoch, nonce, channel_of(shown))
        asked = ApiVersionsRequest(client_software_name=CLIENT_NAME, client_software_version=VERSION)
        known = await self._call(asked, ASKED_IN, ApiVersionsResponse)
        self._spoken = SpokenVersions(f"node {self._node_id}", known.api_keys)
        offer = await self._call(
            SaslHandshakeRequest(mechanism=NodeMechanism.SILTSTONE_NODE),
            _VERSION_OF_LOGINS,
            SaslHandshakeResponse,
        )
        if offer.error_code:
            raise self._failure(
                f"its listener takes no login of nodes (code {offer.error_code}): it is of an older version, or does "
                "not know yet by which listener the nodes reach each other"
            )
        try:
            challenge = await self._authenticate(call.claim)
            call.check(await self._authenticate(call.proof(challenge)))
        except AnswererNotProved as refusal:
            raise self._failure(str(refusal)) from refusal

    async def _authenticate(self, token: bytes) -> bytes:
        answer = await self._call(
            SaslAuthenticateRequest(auth_bytes=token), _VERSION_OF_LOGINS, SaslAuthenticateResponse
        )
        if answer.error_code:
            raise self._failure("it refuses the proof of this node")
        return bytes(answer.auth_bytes)

    # -- requests ----------------------------------------------------------------------------------------

    async def ask(self, request: Message, answer: type[M]) -> M:
        """Raises PeerUnreachable."""
        try:
            version = self._spoken.version_for(type(request))
        except RequestNotSpoken as refusal:
            raise self._failure(str(refusal)) from refusal
        return await self._call(request, version, answer)

    async def _call(self, request: Message, version: int, answer: type[M]) -> M:
        key = type(request).api_key
        self._correlation_id += 1
        header = encode_request_header(RequestHeader(key, version, self._correlation_id, CLIENT_NAME))
        body = encode(request, version)
        if not self.is_open:
            raise self._failure("the connection was closed")
        waiting = self._waiting[self._correlation_id] = asyncio.get_running_loop().create_future()
        try:
            size = (len(header) + len(body)).to_bytes(_SIZE_BYTES, "big")
            self._writer.writelines((size, header, body))
            await self._writer.drain()
            frame = await waiting
            _, answered = decode_response_header(key, version, frame)
            if (
                answer is ApiVersionsResponse and bytes(answered[:2]) != b"\0\0"
            ):  # in version 0, whose layout begins alike
                return decode(answer, 0, answered)
            return decode_in_place(answer, version, answered)
        except OSError as trouble:
            self.close(_words(trouble))
            raise self._failure(_words(trouble)) from trouble
        except MalformedMessage as malformed:
            self.close("its answer is malformed")
            raise self._failure(f"its answer is malformed: {malformed}") from malformed

    async def _read_for_ever(self) -> None:
        reason = "the connection was closed"
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(_SIZE_BYTES), "big", signed=True)
                if not _SIZE_BYTES <= size <= ANSWER_BYTES_MAX or not self._waiting:
                    reason = "it sent what was not asked for"
                    return
                frame = await self._reader.readexactly(size)
                waiting = self._waiting.pop(int.from_bytes(frame[:4], "big"), None)
                if waiting is None:
                    reason = "its answer is to a request that was not sent"
                    return
                self.answered_count += 1
                if not waiting.done():
                    waiting.set_result(frame)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            self.close(reason)

    def close(self, reason: str = "the connection was closed") -> None:
        """Closes the connection; requests that wait fail. Idempotent."""
        self.is_open = False
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if not each.done():
                each.set_exception(self._failure(reason))
                each.exception()  # nobody may wait any more
        with suppress(RuntimeError):  # the loop has ended
            self._writer.transport.abort()
        if self._reading is not asyncio.current_task():
            self._reading.cancel()

    def _failure(self, reason: str) -> PeerUnreachable:
        return PeerUnreachable(self._node_id, reason)
