"""The errors when there is no Kafka broker at the address, and the first requests when there is one."""

import re
import socket
from collections.abc import Iterable

import pytest

from siltstone.kafka_client import connection as connection_module
from siltstone.kafka_client.connection import Address, Connection, open_connection, parse_bootstrap
from siltstone.kafka_client.failures import (
    BrokerGone,
    BrokerNotThere,
    BrokerSilent,
    NotKafka,
    RequestNotSpoken,
)
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsResponse
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.runtime.clock import ManualClock, SystemClock
from support.kafka.scripted_broker import EVERYTHING, framed, listening, scripted_broker, spoken


def opened(address: str) -> Connection:
    return open_connection(parse_bootstrap(address)[0], SystemClock())


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(
        BrokerNotThere, match=rf"127\.0\.0\.1:{port} \(connection refused\): start one with siltstone serve"
    ):
        open_connection(Address("127.0.0.1", port), SystemClock())


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64, "a..b", "a\udcff"])
def test_a_host_that_nobody_knows(host: str) -> None:
    with pytest.raises(BrokerNotThere, match=f"the host {re.escape(repr(host))} is not known"):
        open_connection(Address(host, 9092), SystemClock())


@pytest.mark.parametrize(
    ("greeting", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
        (b"\x14\x03\x03\x00\x01\x01", "speaks TLS"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS"),
        (b"\x16\x03\x03\x00\x7a", "speaks TLS"),
        (b"\x15\x02\x01\x00\x02", "begins with"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "begins with b'SSH-'"),
        (b"\x00\x00\x00\x03abc", "begins with"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x09\x00\x00", "it answered request 9"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x7f\xff", "ApiVersionsResponse"),
    ],
)
def test_somebody_who_speaks_something_else(greeting: bytes, told: str) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(greeting)
        connection.recv(1)

    with listening(serve) as address, pytest.raises(NotKafka, match="is not a Kafka broker") as raised:
        opened(address)
    assert told in str(raised.value)


def test_somebody_who_hangs_up() -> None:
    with (
        listening(lambda connection: None) as address,
        pytest.raises(BrokerGone, match="closed the connection"),
    ):
        opened(address)


def test_somebody_who_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "CONNECT_TIME_LIMIT_MS", 50)
    with (
        listening(lambda connection: connection.recv(1000) and connection.recv(1)) as address,
        pytest.raises(BrokerSilent, match="does not answer"),
    ):
        opened(address)


def test_a_broker_is_asked_in_the_highest_version_of_both() -> None:
    asked: list[int] = []

    def answer(header, request: Message) -> Message:
        if header.api_key is ApiKey.API_VERSIONS:
            assert request.client_software_name == "siltstone"
            return spoken(METADATA=(0, 11), API_VERSIONS=(0, 4))
        asked.append(header.api_version)
        return MetadataResponse(cluster_id="c")

    with scripted_broker(answer) as address:
        connection = opened(address)
        assert connection.call(MetadataRequest(topics=[]), MetadataResponse).cluster_id == "c"
        connection.close()
    assert asked == [11]


def test_a_broker_that_is_older_than_the_question_is_asked_again() -> None:
    """An older broker answers in version 0 with the versions that it speaks (KIP-511)."""
    asked: list[int] = []

    def answer(header, request: Message) -> Message | bytes:
        asked.append(header.api_version)
        if header.api_version > 2:
            old = spoken(API_VERSIONS=(0, 2))
            refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=old.api_keys)
            return framed(header, refused, version=0)
        return spoken(METADATA=(0, 10), API_VERSIONS=(0, 2))

    with scripted_broker(answer) as address:
        connection = opened(address)
        assert connection.version_for(MetadataRequest) == 10
        connection.close()
    assert asked == [3, 2]


def test_a_broker_that_refuses_the_first_question() -> None:
    refused = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with (
        scripted_broker(lambda *_: refused) as address,
        pytest.raises(RequestNotSpoken, match="does not say which versions it supports"),
    ):
        opened(address)


def test_answers_belong_to_requests_in_their_order() -> None:
    ids = iter("abc")

    def answer(header, _: Message) -> Message:
        return EVERYTHING if header.api_key is ApiKey.API_VERSIONS else MetadataResponse(cluster_id=next(ids))

    with scripted_broker(answer) as address:
        connection = opened(address)
        for _ in range(3):
            connection.send(MetadataRequest(topics=[]))
        assert connection.under_way == 3
        assert [connection.receive(MetadataResponse).cluster_id for _ in range(3)] == ["a", "b", "c"]
        assert connection.under_way == 0
        connection.close()


def test_a_broker_that_goes_away_in_the_middle() -> None:
    def answer(header, _: Message) -> Message | None:
        return EVERYTHING if header.api_key is ApiKey.API_VERSIONS else None

    with scripted_broker(answer) as address:
        connection = opened(address)
        with pytest.raises(BrokerGone):
            connection.call(MetadataRequest(topics=[]), MetadataResponse)
        with pytest.raises(BrokerGone):
            connection.send(MetadataRequest(topics=[]))


def test_somebody_who_sends_a_byte_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and all of them never would."""
    monkeypatch.setattr(connection_module, "CONNECT_TIME_LIMIT_MS", 100)

    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.settimeout(0.02)
        for byte in b"\x00\x00\x10\x00" + bytes(4096):
            connection.sendall(bytes([byte]))
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                pass

    with listening(serve) as address, pytest.raises(BrokerSilent, match="accepts connections and does not"):
        opened(address)


class NotedSocket:
    """Answers with ``chunks``, each after a time; notes what it received, in order."""

    def __init__(self, clock: ManualClock, chunks: Iterable[tuple[int, bytes]] = ()) -> None:
        self.clock = clock
        self.chunks = iter(chunks)
        self.told: list[object] = []

    def settimeout(self, seconds: float) -> None:
        self.told.append(round(seconds, 3))

    def sendall(self, data: bytes) -> None:
        self.told.append("sent")

    def recv_into(self, buffer: memoryview) -> int:
        after_ms, chunk = next(self.chunks, (0, b""))
        if not chunk:
            raise TimeoutError
        self.clock.advance_ms(after_ms)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self.told.append("closed")


def test_a_send_and_each_wait_have_a_time_limit() -> None:
    noted = NotedSocket(clock := ManualClock())
    connection = Connection(Address("h", 1), noted, clock)
    connection._send(MetadataRequest(), 9)
    assert (noted.told, connection.under_way) == ([30.0, "sent"], 1)
    with pytest.raises(BrokerSilent, match="h:1 did not answer in time"):
        connection.receive(MetadataResponse, 1_500)
    assert noted.told == [30.0, "sent", 1.5, "closed"] and connection.under_way == 0


def test_the_time_limit_is_of_a_whole_response_and_bytes_that_arrive_lengthen_it() -> None:
    size = (1 << 20).to_bytes(4, "big")
    noted = NotedSocket(
        clock := ManualClock(), [(900, size), (500, bytes(64 << 10)), (1500, b"1"), (90, b"2")]
    )
    connection = Connection(Address("h", 1), noted, clock)
    connection._send(MetadataRequest(), 9)
    with pytest.raises(BrokerSilent):
        connection.receive(MetadataResponse, 2_000)
    assert noted.told == [30.0, "sent", 2.0, 1.1, 1.6, 0.1, 0.01, "closed"]
    assert next(noted.chunks, None) is None
