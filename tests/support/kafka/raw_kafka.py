"""A client of bytes: one blocking TCP connection, on which a test says exactly what is sent and looks at what comes.

Messages are written and read by our own codec. A fault of that could hide here, so tests of the bytes themselves use
``receive_frame`` and ``OracleCheckedConnection``, whose every answer is read by kio as well.
"""

import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from struct import pack, unpack
from typing import Any, TypeVar

from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.headers import RequestHeader, decode_response_header, encode_request_header
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message
from support.kafka.message_oracles import plain

ANSWER_S_MAX = 60.0
"""Nothing here takes that long: a test that waits for it has found something."""

A = TypeVar("A")
Address = tuple[str, int]


def address_of(bootstrap_servers: str) -> Address:
    host, _, port = bootstrap_servers.rpartition(":")
    return host, int(port)


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def request_bytes(
    request: Message, version: int, correlation_id: int = 1, client_id: str | None = "raw"
) -> bytes:
    """Header and body, without the size."""
    header = RequestHeader(request.api_key, version, correlation_id, client_id)
    return encode_request_header(header) + encode(request, version)


class ConnectionClosed(Exception):
    """The broker closed the connection where a test expected an answer."""


class RawConnection:
    """``asked``: (response class, version, correlation id) of the requests whose answers are still to come. ``host``:
    that of the client, such as 127.0.0.2."""

    def __init__(self, address: Address, *, timeout_s: float = ANSWER_S_MAX, host: str = "") -> None:
        self._socket = socket.create_connection(address, timeout_s, (host, 0) if host else None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked: deque[tuple[type[Message], int, int]] = deque()
        self._correlation_id = 100

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # -- out ---------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send_bytes(framed(body))

    def send(self, request: Message, version: int, *, client_id: str | None = "raw") -> None:
        """``receive`` gives the answer."""
        self.send_frame(self.prepared(request, version, client_id=client_id))

    def prepared(
        self, request: Message, version: int, *, client_id: str | None = "raw", has_answer: bool = True
    ) -> bytes:
        """A request's frame without its size, to be sent by hand."""
        self._correlation_id += 1
        if has_answer:
            self.asked.append((CATALOGUE[request.api_key][1], version, self._correlation_id))
        return request_bytes(request, version, self._correlation_id, client_id)

    # -- in ----------------------------------------------------------------------------------------------

    def receive_frame(self) -> bytes:
        """Returns an answer without its size, with its header. Raises ConnectionClosed."""
        (size,) = unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                piece = self._socket.recv(min(size - len(received), 1 << 20))
            except ConnectionError as reset:
                raise ConnectionClosed(f"after {len(received)} of {size} bytes") from reset
            if not piece:
                raise ConnectionClosed(f"after {len(received)} of {size} bytes")
            received += piece
        return bytes(received)

    def receive(self) -> Any:
        """The answer to the oldest request that has none: answers come in the order of requests (item 8)."""
        response_class, version, correlation_id = self.asked.popleft()
        answered, body = decode_response_header(response_class.api_key, version, self.receive_frame())
        assert answered == correlation_id, f"answer {answered} where {correlation_id} is next"
        return self.read(response_class, version, bytes(body))

    def read(self, response_class: type[Message], version: int, body: bytes) -> Any:
        return decode(response_class, version, body)

    def ask(self, request: Message, version: int, *, client_id: str | None = "raw") -> Any:
        self.send(request, version, client_id=client_id)
        return self.receive()

    def has_answer_within(self, seconds: float) -> bool:
        """Returns whether anything arrives, also the end of the connection; it is not consumed."""
        before = self._socket.gettimeout()
        self._socket.settimeout(seconds)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        finally:
            self._socket.settimeout(before)
        return True

    # -- whether it lives --------------------------------------------------------------------------------

    def assert_closed(self) -> None:
        """Asserts that the broker closes the connection, and sends nothing before."""
        with suppress(ConnectionError):
            assert self._socket.recv(1) == b"", "an answer where the connection had to be closed"

    def assert_alive(self) -> None:
        assert isinstance(self.ask(ApiVersionsRequest(), 0), ApiVersionsResponse)


class OracleCheckedConnection(RawConnection):
    """A connection whose every answer is also read by another library, ``reads`` (kio's reader, or kafka-python's),
    which has to find the same and to write the same bytes."""

    def __init__(
        self, address: Address, reads: Callable[[type[Message], int, bytes], tuple[Any, bytes]], **more: Any
    ) -> None:
        super().__init__(address, **more)
        self._reads = reads

    def read(self, response_class: type[Message], version: int, body: bytes) -> Any:
        response = super().read(response_class, version, body)
        values, written = self._reads(response_class, version, body)
        assert values == plain(response, version)
        assert written == body
        return response
