"""One connection to one broker: its address, the versions of its requests, and its socket.

A broker's address is written as ``host``, ``host:9093`` or ``[::1]:9093``; commas separate several addresses. A
connection first asks the broker which versions it speaks. Each request is then written in the highest version that both
sides speak, between the versions of Apache Kafka 3.0 (``LOWEST``) and the last versions that identify topics by name
instead of id (``HIGHEST``).

Responses arrive in the order of the requests. Several requests may be in flight: ``send`` each, then ``receive`` each.
After a failure the connection closes, and the outcome of its requests in flight is unknown.
"""

import re
import socket
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from struct import Struct
from typing import Any, Protocol, TypeVar

import msgspec

from siltstone.kafka_client.client_settings import CONFIG_VARIABLE, PLAIN, ClientSettings, settings_of_process
from siltstone.kafka_client.failures import (
    BrokerGone,
    BrokerNotThere,
    BrokerSilent,
    BrokerWantsTls,
    InvalidAddress,
    NotKafka,
    RequestNotSpoken,
    TlsFailed,
)
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode_in_place, encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.headers import RequestHeader, decode_response_header, encode_request_header
from siltstone.kafka_protocol.malformed import MalformedMessage
from siltstone.kafka_protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.model.access import SecurityProtocol
from siltstone.model.limits import KIB, MIB, SECOND_MS
from siltstone.model.version import VERSION
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, system_randomness

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


def parse_bootstrap(text: str, name: str = "--bootstrap") -> tuple[Address, ...]:
    """Returns the addresses in the value of the option or argument ``name``, at least one. Raises InvalidAddress."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InvalidAddress(f"{name} is empty: write HOST:PORT, such as 127.0.0.1:9092")
    return tuple(_parsed(part, name) for part in parts)


def _parsed(part: str, name: str) -> Address:
    match = _ADDRESS.fullmatch(part)
    port = int(match["port"] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port <= PORT_MAX:
        raise InvalidAddress(f"{name}: {part!r} is not an address: write HOST:PORT, such as 127.0.0.1:9092")
    return Address(match["ipv6"] or match["host"], port)


LOWEST: Mapping[ApiKey, int] = {
    ApiKey.METADATA: 10,  # topic ids
    ApiKey.LIST_OFFSETS: 7,  # the offset of the largest timestamp
    ApiKey.OFFSET_FETCH: 8,  # several groups in one request
    ApiKey.FIND_COORDINATOR: 4,  # several groups in one request
    ApiKey.DELETE_TOPICS: 6,  # one structure for names and ids
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
"""The version of the ApiVersions request. Since Kafka 2.4, a broker that does not know this version responds in
version 0 with the versions that it knows."""


class SpokenVersions:
    """The versions of each API that one broker has announced."""

    def __init__(self, where: str, rows: Iterable[ApiVersion]) -> None:
        self._where = where
        self._ranges = {row.api_key: (row.min_version, row.max_version) for row in rows}

    def version_for(self, request: type[Message]) -> int:
        """Returns the highest version of ``request`` that both sides speak. Raises RequestNotSpoken."""
        key = request.api_key
        if key not in self._ranges:
            raise RequestNotSpoken(
                f"the broker at {self._where} does not support {key.name}: use another broker"
            )
        theirs_lowest, theirs_highest = self._ranges[key]
        lowest = max(LOWEST.get(key, request.versions[0]), theirs_lowest)
        highest = min(HIGHEST.get(key, ANNOUNCED[key][1]), request.versions[1], theirs_highest)
        if lowest > highest:
            raise RequestNotSpoken(
                f"the broker at {self._where} supports versions {theirs_lowest} to {theirs_highest} of {key.name}, "
                "and this program writes none of them: use Apache Kafka 3.0 or later, or siltstone serve"
            )
        return highest


M = TypeVar("M", bound=Message)

CLIENT_ID = "siltstone-cli"
CONNECT_TIME_LIMIT_MS = 5_000
ANSWER_TIME_LIMIT_MS = 30_000
ANSWER_BYTES_MAX = 256 * MIB
"""The largest response that is accepted. A broker's responses are smaller unless single records are that large; the
first bytes of other protocols, read as a size, are larger."""

SESSION_SHARE = 0.8
"""The part of a session after which another connection takes its place."""

ANSWER_BYTES_PER_SECOND_MIN = 64 * KIB
"""Each second in which so many bytes of a response arrive lengthens its time limit by a second: a slow network is not a
server that sends a byte now and then, for which a command would wait for days."""

_SIZE = Struct(">i")
_CODE = Struct(">h")
_CORRELATION_ID_BYTES = 4
_TLS_RECORD_TYPES = (0x14, 0x15, 0x16)


class TimeLimit:
    """The time limit of one response: it has to arrive whole within ``time_limit_ms``, and longer only by the time
    that its bytes take at ANSWER_BYTES_PER_SECOND_MIN."""

    def __init__(self, clock: Clock, time_limit_ms: float) -> None:
        self._clock = clock
        self._ends_ms = clock.monotonic_ms() + time_limit_ms

    def seconds_left(self) -> float:
        """Raises TimeoutError when none is left."""
        left_ms = self._ends_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            raise TimeoutError
        return left_ms / SECOND_MS

    def received(self, count: int) -> None:
        self._ends_ms += count * SECOND_MS / ANSWER_BYTES_PER_SECOND_MIN


class Channel(Protocol):
    """What a connection needs of its socket. The console of a broker has another one, which asks that broker without a
    network."""

    def settimeout(self, seconds: float | None, /) -> None: ...
    def sendall(self, data: bytes, /) -> None: ...
    def recv_into(self, buffer: memoryview, /) -> int: ...
    def close(self) -> None: ...


class Connection:
    """A connection to one broker; ``open_connection`` makes it and asks for the broker's versions."""

    def __init__(
        self, address: Address, connected: Channel, clock: Clock, security: "Security | None" = None
    ) -> None:
        self.address = address
        self._security = security or Security()
        self._clock = clock
        self._socket = connected
        self._under_way: deque[tuple[int, ApiKey, int]] = deque()
        self._next_correlation_id = 0
        self._answer_count = 0
        self._renewed_ms = float("inf")
        self._spoken = SpokenVersions(str(address), ())

    @property
    def is_to_be_renewed(self) -> bool:
        """Whether the session ends soon, and no request is in flight: another connection is opened then, instead of a
        second login on this one."""
        return not self._under_way and self._clock.monotonic_ms() >= self._renewed_ms

    @property
    def under_way(self) -> int:
        """The number of requests that were sent and have no response yet."""
        return len(self._under_way)

    def call(self, request: Message, answer: type[M], time_limit_ms: float = ANSWER_TIME_LIMIT_MS) -> M:
        """Sends ``request`` and returns the response, a message of class ``answer``. Raises RequestNotSpoken,
        BrokerGone, BrokerSilent, NotKafka."""
        assert not self._under_way
        self.send(request)
        return self.receive(answer, time_limit_ms)

    def call_in(self, version: int, request: Message, answer: type[M]) -> M:
        """Like ``call``, in a version that the caller has chosen, because it needs a field of that version."""
        assert not self._under_way
        self._send(request, version)
        return self.receive(answer)

    def version_for(self, request: type[Message]) -> int:
        return self._spoken.version_for(request)

    def send(self, request: Message) -> None:
        self._send(request, self._spoken.version_for(type(request)))

    def send_in(self, version: int, request: Message) -> None:
        """Like ``send``, in a version that the caller has chosen."""
        self._send(request, version)

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
        """Returns the response to the oldest request in flight. The time limit is that of ``TimeLimit``."""
        version, body = self._receive_body(answer.api_key, time_limit_ms)
        return self._decoded(answer, version, body)

    def _receive_body(self, awaited: ApiKey, time_limit_ms: float) -> tuple[int, memoryview]:
        expected, api_key, version = self._under_way.popleft()
        assert api_key == awaited
        frame = self._receive_frame(time_limit_ms)
        self._answer_count += 1
        try:
            correlation_id, body = decode_response_header(api_key, version, frame)
        except MalformedMessage as failure:
            raise self._not_kafka(str(failure)) from failure
        if correlation_id != expected:
            raise self._not_kafka(f"it answered request {correlation_id} instead of {expected}")
        return version, body

    def _decoded(self, message: type[M], version: int, body: memoryview) -> M:
        try:
            return decode_in_place(message, version, body)
        except MalformedMessage as failure:
            raise self._not_kafka(str(failure)) from failure

    def _receive_frame(self, time_limit_ms: float) -> memoryview:
        try:
            limit = TimeLimit(self._clock, time_limit_ms)
            head = self._receive_bytes(_SIZE.size, limit)
            (size_bytes,) = _SIZE.unpack(head)
            if not _CORRELATION_ID_BYTES <= size_bytes <= ANSWER_BYTES_MAX:
                raise self._foreign(bytes(head))
            return self._receive_bytes(size_bytes, limit)
        except OSError as failure:
            raise self._broken(failure) from failure

    def _receive_bytes(self, count: int, limit: TimeLimit) -> memoryview:
        received = memoryview(bytearray(count))
        position = 0
        while position < count:
            self._socket.settimeout(limit.seconds_left())
            read = self._socket.recv_into(received[position:])
            if read == 0:
                raise ConnectionResetError("closed by the broker")
            position += read
            limit.received(read)
        return received

    def _broken(self, failure: OSError) -> BrokerGone | BrokerSilent | TlsFailed:
        self.close()
        if self._security.is_encrypted and (refusal := self._security.failure_of(failure, self.address)):
            return refusal
        if isinstance(failure, TimeoutError):
            return BrokerSilent(
                f"the broker at {self.address} did not answer in time: try again, or look at its log"
            )
        if self._answer_count == 1 and not self._security.settings.protocol.wants_login:
            return BrokerGone(
                f"the broker at {self.address} closed the connection at the first request: if its listener has a "
                f"login, set security.protocol={self._security.with_login}, sasl.username and sasl.password in a file "
                f"for --client-config or {CONFIG_VARIABLE}; if not, look at its log"
            )
        return BrokerGone(
            f"the broker at {self.address} closed the connection: try again, or look at its log"
        )

    def _foreign(self, head: bytes) -> NotKafka:
        if head[0] in _TLS_RECORD_TYPES and head[1] == 3:
            self.close()
            return BrokerWantsTls(
                f"the server at {self.address} is not a Kafka broker without TLS (it speaks TLS): set "
                f"security.protocol=SSL and ssl.ca.location in a file for --client-config or {CONFIG_VARIABLE}"
            )
        if head == b"HTTP":
            return self._not_kafka("it speaks HTTP")
        return self._not_kafka(f"its answer begins with {head!r}")

    def _not_kafka(self, reason: str) -> NotKafka:
        self.close()
        return NotKafka(
            f"the server at {self.address} is not a Kafka broker ({reason}): correct the bootstrap address"
        )

    def ask_versions(self) -> None:
        """Asks which versions the broker speaks; the first request of a connection. Raises what ``call`` does."""
        asked = ApiVersionsRequest(client_software_name="siltstone", client_software_version=VERSION)
        answer = self._asked(asked, ASKED_IN)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = [row.max_version for row in answer.api_keys if row.api_key == ApiKey.API_VERSIONS]
            answer = self._asked(asked, min(ASKED_IN - 1, *offered, ASKED_IN - 1))
        if answer.error_code:
            raise RequestNotSpoken(
                f"the broker at {self.address} does not say which versions it supports (error code "
                f"{answer.error_code}): look at its log"
            )
        self._spoken = SpokenVersions(str(self.address), answer.api_keys)

    def log_in(self) -> None:
        """Logs in, if the settings say how. Raises LoginFailed, and what ``call`` does."""
        settings = self._security.settings
        if settings.protocol.wants_login:
            from siltstone.kafka_client.login import log_in  # noqa: PLC0415  most clients need no login

            lifetime_ms = log_in(settings, str(self.address), self.call, self._security.rng)
            if lifetime_ms:
                self._renewed_ms = self._clock.monotonic_ms() + SESSION_SHARE * lifetime_ms

    def _asked(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """Sends an ApiVersions request. A broker that does not know ``version`` responds in version 0."""
        self._send(request, version)
        _, body = self._receive_body(ApiKey.API_VERSIONS, CONNECT_TIME_LIMIT_MS)
        is_refused = len(body) >= _CODE.size and _CODE.unpack_from(body)[0] == ErrorCode.UNSUPPORTED_VERSION
        return self._decoded(ApiVersionsResponse, 0 if is_refused else version, body)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()


def security_of_process() -> "Security":
    """Returns how a client connects that was not told how: as the file says that SILTSTONE_CLIENT_CONFIG names, or else
    without TLS. Raises InvalidClientConfig."""
    return Security(settings_of_process())


class Security:
    """How the connections of one client are made and log in. Without settings they are plain. ``rng`` makes nonces."""

    def __init__(self, settings: ClientSettings = PLAIN, rng: Random | None = None) -> None:
        self.settings = settings
        self.rng = rng or system_randomness()
        self._context: Any = None

    @property
    def is_encrypted(self) -> bool:
        return self.settings.protocol.is_encrypted

    @property
    def with_login(self) -> SecurityProtocol:
        """The protocol that this one is with a login."""
        return SecurityProtocol.SASL_SSL if self.is_encrypted else SecurityProtocol.SASL_PLAINTEXT

    def secured(self, plain: socket.socket, address: Address) -> socket.socket:
        """Completes the handshake of TLS, if there is one. Raises InvalidClientConfig, TlsFailed, OSError."""
        if not self.is_encrypted:
            return plain
        from siltstone.kafka_client.tls import client_context, with_tls  # noqa: PLC0415  most clients need no TLS

        if self._context is None:
            self._context = client_context(self.settings)
        return with_tls(self._context, plain, address.host, str(address), lambda: _connected(address))

    def failure_of(self, failure: OSError, address: Address) -> TlsFailed | None:
        """Returns the error for a failure of TLS itself; None: the connection just ended."""
        from ssl import SSLEOFError, SSLError, SSLZeroReturnError  # noqa: PLC0415

        from siltstone.kafka_client.tls import failure_of  # noqa: PLC0415

        if not isinstance(failure, SSLError) or isinstance(failure, SSLEOFError | SSLZeroReturnError):
            return None
        return failure_of(failure, str(address))


def open_connection(address: Address, clock: Clock, security: Security | None = None) -> Connection:
    """Connects to the broker, asks for its versions, and logs in. Raises BrokerNotThere, BrokerGone, BrokerSilent,
    NotKafka, RequestNotSpoken, TlsFailed, LoginFailed, InvalidClientConfig."""
    security = security or Security()
    connection = Connection(address, _secured(address, security), clock, security)
    try:
        connection.ask_versions()
    except BrokerSilent as silent:
        raise BrokerSilent(
            f"the server at {address} accepts connections and does not answer: if it is not a Kafka broker, correct "
            "the bootstrap address; if it is, look at its log"
        ) from silent
    except BrokerGone as gone:
        connection.close()
        raise BrokerGone(f"{gone}. {_FIRST_ANSWER[security.is_encrypted]}") from gone
    except BaseException:
        connection.close()
        raise
    try:
        connection.log_in()
    except BaseException:
        connection.close()
        raise
    return connection


_FIRST_ANSWER = {
    False: "It did so before its first answer: if its listener has TLS, set security.protocol=SSL in a file for "
    f"--client-config or {CONFIG_VARIABLE}",
    True: "It did so after the handshake of TLS: if it wants a certificate of its clients, set "
    "ssl.certificate.location and ssl.key.location",
}


def _secured(address: Address, security: Security) -> socket.socket:
    plain = _connected(address)
    try:
        return security.secured(plain, address)
    except TimeoutError as silent:
        raise BrokerSilent(
            f"the server at {address} does not complete the handshake of TLS in time: if it has no TLS, set "
            "security.protocol=PLAINTEXT"
        ) from silent
    except OSError as failure:
        raise BrokerGone(
            f"the server at {address} closed the connection during the handshake of TLS: if it has no TLS, set "
            "security.protocol=PLAINTEXT; if it has, look at its log"
        ) from failure
    except BaseException:
        plain.close()
        raise


def _connected(address: Address) -> socket.socket:
    try:
        connected = socket.create_connection((address.host, address.port), CONNECT_TIME_LIMIT_MS / 1000)
    except (socket.gaierror, UnicodeError) as failure:  # UnicodeError: a part of the name is too long
        raise BrokerNotThere(
            f"the host {address.host!r} is not known: correct the bootstrap address"
        ) from failure
    except TimeoutError as failure:
        raise BrokerNotThere(
            f"no answer from {address} within {CONNECT_TIME_LIMIT_MS / 1000:.0f} s: correct the bootstrap address"
        ) from failure
    except OSError as failure:
        reason = (failure.strerror or str(failure)).lower()
        raise BrokerNotThere(
            f"no broker at {address} ({reason}): start one with siltstone serve, or give another bootstrap address "
            "(--bootstrap)"
        ) from failure
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
