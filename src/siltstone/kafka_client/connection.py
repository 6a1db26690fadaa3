"""One socket to one broker: requests go out, answers come back in the order of the requests.

Several requests may be under way (``send``, then ``receive`` for each). After a failure the connection is of no use any
more and is closed; whoever had requests under way does not know what became of them.

Where brokers are, as people write it: ``host``, ``host:9093``, ``[::1]:9093``, several with commas between them.

In which version each request is written: the highest that both sides speak.

We write the versions of Apache Kafka 3.0 and later (``LOWEST``), whose shapes are the same to this day, and leave out
those that name topics by id (``HIGHEST``): people name them by name.
"""

import re
import socket
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from struct import Struct
from typing import TypeVar

import msgspec

from siltstone.kafka_client.failures import (
    BrokerGone,
    BrokerNotThere,
    BrokerSilent,
    InvalidAddress,
    NotKafka,
    RequestNotSpoken,
)
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode_in_place, encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.headers import RequestHeader, decode_response_header, encode_request_header
from siltstone.kafka_protocol.malformed import MalformedMessage
from siltstone.kafka_protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.model.limits import MIB
from siltstone.model.version import VERSION

DEFAULT_PORT = 9092
PORT_MAX = 65_535

_ADDRESS = re.compile(
    r"(?:[A-Za-z0-9_-]+://)?(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:\[\]/,]+))(?::(?P<port>\d{1,5}))?"
)


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """At least one. Raises InvalidAddress."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InvalidAddress("--bootstrap is empty: write HOST:PORT, such as 127.0.0.1:9092")
    return tuple(_parsed(part) for part in parts)


def _parsed(part: str) -> Address:
    match = _ADDRESS.fullmatch(part)
    port = int(match["port"] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port <= PORT_MAX:
        raise InvalidAddress(f"--bootstrap: {part!r} is no address: write HOST:PORT, such as 127.0.0.1:9092")
    return Address(match["ipv6"] or match["host"], port)


LOWEST: Mapping[ApiKey, int] = {
    ApiKey.METADATA: 10,  # topic ids
    ApiKey.LIST_OFFSETS: 7,  # the offset of the newest time
    ApiKey.OFFSET_FETCH: 8,  # several groups at once
    ApiKey.FIND_COORDINATOR: 4,  # the same
    ApiKey.DELETE_TOPICS: 6,  # one shape for names and ids
    ApiKey.LIST_GROUPS: 4,  # the state of a group
    ApiKey.PRODUCE: 7,  # zstd
    ApiKey.FETCH: 10,  # zstd
}
HIGHEST: Mapping[ApiKey, int] = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}
ASKED_IN = 3
"""The version of ApiVersions in which a broker is asked: since Kafka 2.4 one that does not know it answers in version 0
which ones it does."""


class SpokenVersions:
    """What one broker has said that it speaks."""

    def __init__(self, where: str, rows: Iterable[ApiVersion]) -> None:
        self._where = where
        self._ranges = {row.api_key: (row.min_version, row.max_version) for row in rows}

    def version_for(self, request: type[Message]) -> int:
        """Raises RequestNotSpoken."""
        key = request.api_key
        if key not in self._ranges:
            raise RequestNotSpoken(
                f"the broker at {self._where} does not know {key.name}: this needs another broker"
            )
        theirs_lowest, theirs_highest = self._ranges[key]
        lowest = max(LOWEST.get(key, request.versions[0]), theirs_lowest)
        highest = min(HIGHEST.get(key, ANNOUNCED[key][1]), request.versions[1], theirs_highest)
        if lowest > highest:
            raise RequestNotSpoken(
                f"the broker at {self._where} speaks {key.name} {theirs_lowest} to {theirs_highest}, which is not what "
                "this program writes: Apache Kafka 3.0 or later does"
            )
        return highest


M = TypeVar("M", bound=Message)

CLIENT_ID = "siltstone-cli"
CONNECT_TIME_LIMIT_MS = 5_000
ANSWER_TIME_LIMIT_MS = 30_000
ANSWER_BYTES_MAX = 256 * MIB
"""More than a broker answers, unless the records are that large; less than the first letters of other protocols make
when they are read as a size."""

_SIZE = Struct(">i")
_CODE = Struct(">h")
_CORRELATION_ID_BYTES = 4
_TLS_RECORD_TYPES = (0x14, 0x15, 0x16)


class Connection:
    """Made by ``open_connection``, which has asked what the broker speaks."""

    def __init__(self, address: Address, connected: socket.socket) -> None:
        self.address = address
        self._socket = connected
        self._under_way: deque[tuple[int, ApiKey, int]] = deque()
        self._next_correlation_id = 0
        self._spoken = SpokenVersions(str(address), ())

    @property
    def under_way(self) -> int:
        """Requests sent and not answered."""
        return len(self._under_way)

    def call(self, request: Message, answer: type[M], time_limit_ms: float = ANSWER_TIME_LIMIT_MS) -> M:
        """The answer to a request, of the class that belongs to it. Raises RequestNotSpoken, BrokerGone, BrokerSilent,
        NotKafka."""
        assert not self._under_way
        self.send(request)
        return self.receive(answer, time_limit_ms)

    def version_for(self, request: type[Message]) -> int:
        return self._spoken.version_for(request)

    def send(self, request: Message) -> None:
        self._send(request, self._spoken.version_for(type(request)))

    def _send(self, request: Message, version: int) -> None:
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        header = encode_request_header(RequestHeader(request.api_key, version, correlation_id, CLIENT_ID))
        body = encode(request, version)
        try:
            self._socket.settimeout(ANSWER_TIME_LIMIT_MS / 1000)
            self._socket.sendall(b"".join((_SIZE.pack(len(header) + len(body)), header, body)))
        except OSError as failure:
            raise self._broken(failure) from failure
        self._under_way.append((correlation_id, request.api_key, version))

    def receive(self, answer: type[M], time_limit_ms: float = ANSWER_TIME_LIMIT_MS) -> M:
        """The answer to the oldest request under way. The limit is for each silence of the broker."""
        version, body = self._receive_body(answer.api_key, time_limit_ms)
        return self._decoded(answer, version, body)

    def _receive_body(self, awaited: ApiKey, time_limit_ms: float) -> tuple[int, memoryview]:
        expected, api_key, version = self._under_way.popleft()
        assert api_key == awaited
        frame = self._receive_frame(time_limit_ms)
        try:
            correlation_id, body = decode_response_header(api_key, version, frame)
        except MalformedMessage as failure:
            raise self._not_kafka(str(failure)) from failure
        if correlation_id != expected:
            raise self._not_kafka(f"an answer to request {correlation_id} instead of {expected}")
        return version, body

    def _decoded(self, message: type[M], version: int, body: memoryview) -> M:
        try:
            return decode_in_place(message, version, body)
        except MalformedMessage as failure:
            raise self._not_kafka(str(failure)) from failure

    def _receive_frame(self, time_limit_ms: float) -> memoryview:
        try:
            self._socket.settimeout(time_limit_ms / 1000)
            head = self._receive_bytes(_SIZE.size)
            (size_bytes,) = _SIZE.unpack(head)
            if not _CORRELATION_ID_BYTES <= size_bytes <= ANSWER_BYTES_MAX:
                raise self._foreign(bytes(head))
            return self._receive_bytes(size_bytes)
        except OSError as failure:
            raise self._broken(failure) from failure

    def _receive_bytes(self, count: int) -> memoryview:
        received = memoryview(bytearray(count))
        position = 0
        while position < count:
            read = self._socket.recv_into(received[position:])
            if read == 0:
                raise ConnectionResetError("closed by the broker")
            position += read
        return received

    def _broken(self, failure: OSError) -> BrokerGone | BrokerSilent:
        self.close()
        if isinstance(failure, TimeoutError):
            return BrokerSilent(
                f"the broker at {self.address} does not answer: try again, or look at its log"
            )
        return BrokerGone(
            f"the broker at {self.address} closed the connection: try again, or look at its log"
        )

    def _foreign(self, head: bytes) -> NotKafka:
        if head[0] in _TLS_RECORD_TYPES and head[1] == 3:
            return self._not_kafka("it speaks TLS, which is not supported yet")
        if head == b"HTTP":
            return self._not_kafka("it speaks HTTP")
        return self._not_kafka(f"its answer begins with {head!r}")

    def _not_kafka(self, reason: str) -> NotKafka:
        self.close()
        return NotKafka(f"what listens at {self.address} is no Kafka broker ({reason}): correct --bootstrap")

    def ask_versions(self) -> None:
        """The first request of a connection. Raises what ``call`` does."""
        asked = ApiVersionsRequest(client_software_name="siltstone", client_software_version=VERSION)
        answer = self._asked(asked, ASKED_IN)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = [row.max_version for row in answer.api_keys if row.api_key == ApiKey.API_VERSIONS]
            answer = self._asked(asked, min(ASKED_IN - 1, *offered, ASKED_IN - 1))
        if answer.error_code:
            raise RequestNotSpoken(
                f"the broker at {self.address} refuses to say what it speaks: {answer.error_code}"
            )
        self._spoken = SpokenVersions(str(self.address), answer.api_keys)

    def _asked(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """A broker that does not know the version answers in version 0."""
        self._send(request, version)
        _, body = self._receive_body(ApiKey.API_VERSIONS, CONNECT_TIME_LIMIT_MS)
        is_refused = len(body) >= _CODE.size and _CODE.unpack_from(body)[0] == ErrorCode.UNSUPPORTED_VERSION
        return self._decoded(ApiVersionsResponse, 0 if is_refused else version, body)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()


def open_connection(address: Address) -> Connection:
    """Raises BrokerNotThere, BrokerGone, BrokerSilent, NotKafka, RequestNotSpoken."""
    connection = Connection(address, _connected(address))
    try:
        connection.ask_versions()
    except BrokerSilent as silent:
        raise BrokerSilent(
            f"what listens at {address} does not answer: is it a Kafka broker, and is it well? Correct --bootstrap, or "
            "look at its log"
        ) from silent
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(address: Address) -> socket.socket:
    try:
        connected = socket.create_connection((address.host, address.port), CONNECT_TIME_LIMIT_MS / 1000)
    except socket.gaierror as failure:
        raise BrokerNotThere(f"the host {address.host!r} is not known: correct --bootstrap") from failure
    except TimeoutError as failure:
        raise BrokerNotThere(f"nobody answers at {address}: correct --bootstrap") from failure
    except OSError as failure:
        reason = (failure.strerror or str(failure)).lower()
        raise BrokerNotThere(
            f"no broker at {address} ({reason}): start one with siltstone serve, or name another with --bootstrap"
        ) from failure
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
