"""A connection to another node, against a server that answers as a node does, or as none should."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from siltstone.broker.peers import PeerUnreachable
from siltstone.broker.security.sasl.node import NodeExchange
from siltstone.broker.security.sasl.plain import TokenRefused
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.headers import decode_request_header, response_prefix
from siltstone.kafka_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataResponse
from siltstone.kafka_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeResponse
from siltstone.kafka_protocol.messages.write_txn_markers import (
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.entities import NodeLife
from siltstone.model.secret import Secret
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.peers.connection import (
    ANSWER_BYTES_MAX,
    PeerAddress,
    PeerConnection,
    in_time,
    open_peer,
)
from support.scenarios import in_loop

CALLER, ANSWERER = NodeLife(1, 7, "a life"), NodeLife(2, 9, "its life")
SECRET = Secret("ab" * 32)
MARKERS = WriteTxnMarkersRequest(markers=[])


class FakeNode:
    """Answers the login, and whatever ``answers`` has for other requests. ``known``: the secret that it knows."""

    def __init__(self, known: Secret | None = SECRET, offer_code: int = 0) -> None:
        self.known = known
        self.offer_code = offer_code
        self.announced = ANNOUNCED
        self.answers: Callable[[int], list[bytes]] = lambda _: []
        self.asked = 0
        self._exchange = NodeExchange(ANSWERER, lambda _: self.known, b"c" * 32, b"")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header, body = decode_request_header(memoryview(await reader.readexactly(size)))
                answer = self._answer(header.api_key, header.api_version, body)
                if answer is None:
                    self.asked += 1
                    writer.writelines(self.answers(header.correlation_id))
                    continue
                encoded = encode(answer, header.api_version)
                prefix = response_prefix(
                    header.api_key, header.api_version, header.correlation_id, len(encoded)
                )
                writer.writelines((prefix, encoded))
        except asyncio.IncompleteReadError:
            writer.close()

    def _answer(self, key: int, version: int, body: memoryview) -> Message | None:
        if key == ApiKey.API_VERSIONS:
            rows = [
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.announced.items()
            ]
            return ApiVersionsResponse(api_keys=rows)
        if key == ApiKey.SASL_HANDSHAKE:
            return SaslHandshakeResponse(error_code=self.offer_code)
        if key != ApiKey.SASL_AUTHENTICATE:
            return None
        said = bytes(decode(SaslAuthenticateRequest, version, body).auth_bytes)
        if self._exchange.caller is None:
            self._exchange.claimed(said)
            return SaslAuthenticateResponse(error_message=None, auth_bytes=self._exchange.challenge)
        try:
            return SaslAuthenticateResponse(error_message=None, auth_bytes=self._exchange.final(said))
        except TokenRefused:
            return SaslAuthenticateResponse(error_code=58, error_message="no")


NO_MARKERS = WriteTxnMarkersResponse(markers=[])


def answered(correlation_id: int, message: Message = NO_MARKERS) -> list[bytes]:
    key, version = ApiKey.WRITE_TXN_MARKERS, ANNOUNCED[ApiKey.WRITE_TXN_MARKERS][1]
    body = encode(message, version)
    return [response_prefix(key, version, correlation_id, len(body)), body]


@asynccontextmanager
async def reached(node: FakeNode) -> AsyncIterator[PeerConnection]:
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    tasks = TaskGroup("test", lambda _: None)
    address = PeerAddress("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield await open_peer(address, CALLER, SECRET, ANSWERER, b"n" * 32, tasks)
    finally:
        await tasks.cancel()
        server.close()


@in_loop
async def test_answers_reach_those_who_asked_in_their_order() -> None:
    node = FakeNode()
    node.answers = lambda number: answered(
        number, WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=number, topics=[])])
    )
    async with reached(node) as connection:
        got = await asyncio.gather(*(connection.ask(MARKERS, WriteTxnMarkersResponse) for _ in range(20)))
    ids = [answer.markers[0].producer_id for answer in got]
    assert ids == sorted(ids)
    assert node.asked == len(set(ids)) == 20


@in_loop
async def test_answers_reach_those_who_asked_in_any_order() -> None:
    node, held = FakeNode(), []

    def answers(number: int) -> list[bytes]:
        rows = [WritableTxnMarkerResult(producer_id=number, topics=[])]
        held.insert(0, answered(number, WriteTxnMarkersResponse(markers=rows)))
        return [piece for answer in held for piece in answer] if len(held) == 3 else []

    node.answers = answers
    async with reached(node) as connection:
        got = await asyncio.gather(*(connection.ask(MARKERS, WriteTxnMarkersResponse) for _ in range(3)))
    ids = [answer.markers[0].producer_id for answer in got]
    assert ids == sorted(ids)


@in_loop
async def test_nd06_a_server_that_does_not_know_the_secret_is_asked_nothing() -> None:
    node = FakeNode(known=None)
    node._exchange.final = lambda _: b"x" * 32  # it lets everybody in, to hear what they say
    with pytest.raises(PeerUnreachable, match="its proof is wrong: it is no node of this store"):
        async with reached(node):
            pass
    assert node.asked == 0


@in_loop
async def test_a_refused_proof_and_a_listener_without_nodes_say_so() -> None:
    for node, words in (
        (FakeNode(known=Secret("cd" * 32)), "it refuses the proof of this node"),
        (FakeNode(offer_code=33), r"takes no login of nodes \(code 33\)"),
    ):
        with pytest.raises(PeerUnreachable, match=words) as refused:
            async with reached(node):
                pass
        assert refused.value.node_id == 2
        assert SECRET.revealed() not in str(refused.value)


@in_loop
async def test_an_api_that_the_other_node_does_not_speak_is_not_sent() -> None:
    node = FakeNode()
    node.announced = {key: versions for key, versions in ANNOUNCED.items() if key != ApiKey.WRITE_TXN_MARKERS}
    async with reached(node) as connection:
        with pytest.raises(PeerUnreachable, match="does not support WRITE_TXN_MARKERS"):
            await connection.ask(MARKERS, WriteTxnMarkersResponse)
        assert connection.is_open
    assert node.asked == 0


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (lambda number: answered(number + 5), "its answer is to a request that was not sent"),
        (lambda number: [(ANSWER_BYTES_MAX + 1).to_bytes(4, "big")], "what was not asked for"),
        (lambda number: [b"\xff\xff\xff\xff"], "what was not asked for"),
        (lambda number: [(8).to_bytes(4, "big"), number.to_bytes(4, "big"), b"\0\xff\xff\xff"], "malformed"),
    ],
)
@in_loop
async def test_a_broken_answer_ends_the_connection(sent: Any, words: str) -> None:
    node = FakeNode()
    node.answers = sent
    async with reached(node) as connection:
        asking = [asyncio.ensure_future(connection.ask(MARKERS, WriteTxnMarkersResponse)) for _ in range(2)]
        done = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(each, PeerUnreachable) for each in done), done
        assert words in str(done[0])
        assert not connection.is_open
        with pytest.raises(PeerUnreachable, match="was closed"):
            await connection.ask(MARKERS, WriteTxnMarkersResponse)


@in_loop
async def test_a_node_that_is_not_there_is_unreachable() -> None:
    tasks = TaskGroup("test", lambda _: None)
    with pytest.raises(PeerUnreachable, match=r"node 2 cannot be asked: 127.0.0.1:1: .*refused"):
        await open_peer(PeerAddress("127.0.0.1", 1), CALLER, SECRET, ANSWERER, b"n" * 32, tasks)


@in_loop
async def test_a_node_that_is_silent_is_unreachable_after_the_time_limit() -> None:
    node = FakeNode()
    async with reached(node) as connection:
        with pytest.raises(PeerUnreachable, match=r"did not answer in 0\.05 s"):
            await in_time(connection.ask(MetadataRequest(topics=[]), MetadataResponse), SystemClock(), 50, 2)
