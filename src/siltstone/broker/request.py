"""The network and the broker exchange connections, requests as frames of bytes, and answers as bytes.

The network knows a request as a frame and not what is in it; the broker knows no sockets. Requests of a connection
begin in order, but for a Produce that overtakes another one (``Overtakable``). Answers leave in the order of the
requests, on which Kafka's clients rely; only other nodes take them in any order (``Independent``). ``RequestContext``
has the facts of a request besides its message; ``frame_of`` makes the frame of a response. The network's side:
``server/network``.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from typing import Any, Protocol, TypeAlias

import msgspec

from siltstone.kafka_protocol.headers import response_prefix
from siltstone.kafka_protocol.notation import Message
from siltstone.metadata.entities import NodeLife
from siltstone.model.access import (
    ANONYMOUS,
    LoginMechanism,
    NodeMechanism,
    Principal,
    SecurityProtocol,
    SessionState,
)
from siltstone.model.acls import AclOperation, AclResourceType
from siltstone.model.buffers import Buffer
from siltstone.model.errors import InvalidRequest
from siltstone.model.quotas import QuotaKey

Answer: TypeAlias = list[Buffer] | None
"""The complete response, its size of 4 bytes included. None: no response is sent (a Produce with acks=0)."""


class CloseConnection(InvalidRequest):
    """The request cannot be answered, so its connection has to be closed. The text is for the log."""


class Listener(msgspec.Struct, frozen=True):
    """The listener that accepted a connection, and the address at which its clients reach the broker. ``mechanisms``:
    how clients log in there, if they have to; ``reauthentication_ms_max``: how long a session lasts, 0: as long as the
    connection."""

    name: str
    advertised_host: str
    advertised_port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    mechanisms: tuple[LoginMechanism, ...] = ()
    reauthentication_ms_max: int = 0


class LoginSession(msgspec.Struct, eq=False):
    """How a connection stands with its login, which ``broker.security.authenticator`` writes. ``mechanism`` and
    ``exchange``: of the login under way, or of the last one; ``requests``: how many came before the login.
    ``began_ms`` and ``expires_ms``: when the session began and will end, by the monotonic clock. ``node``: the life of
    the node that has logged in, with which the session ends."""

    state: SessionState = SessionState.AUTHENTICATED
    mechanism: LoginMechanism | NodeMechanism | None = None
    exchange: Any = None
    requests: int = 0
    began_ms: float = 0.0
    expires_ms: float = float("inf")
    node: NodeLife | None = None


class Overtakable(msgspec.Struct, frozen=True):
    """The work of a request that later requests of its connection may overtake: the next one is handled at once, while
    the network runs this work. The answers still leave in the order of the requests."""

    work: Coroutine[Any, Any, Answer]

    def __await__(self) -> Generator[Any, None, Answer]:
        return self.work.__await__()


class Independent(msgspec.Struct, frozen=True):
    """The work of a request of another node: later requests of its connection are handled at once, and its answer
    leaves when it is ready. Two nodes that ask each other while they answer would otherwise wait for each other: each
    question would be behind the request that waits for it."""

    work: Coroutine[Any, Any, Answer]

    def __await__(self) -> Generator[Any, None, Answer]:
        return self.work.__await__()


Asked = tuple[AclOperation, AclResourceType, str | None]
"""What a client wants to do, and on what; None: on at least one resource of the type."""


class KeptVerdicts(msgspec.Struct, eq=False):
    """What a connection was answered about its rights, as long as no right changes (``security.authorizer``)."""

    version: int = -1
    principal: Principal = ANONYMOUS
    allowed: dict[Asked, bool] = {}


class KeptQuotas(msgspec.Struct, eq=False):
    """Which limits count for a connection, as long as no quota changes (``quotas.throttling``)."""

    version: int = -1
    principal: Principal = ANONYMOUS
    client_id: str = ""
    winning: dict[QuotaKey, Any] = {}


class ConnectionContext(msgspec.Struct, eq=False, weakref=True):
    """One connection as handlers know it; the same object from its first request to ``connection_closed``.

    Handlers write ``client_id``, ``client_software_*``, ``sends_records`` and ``requests_held``; the authenticator
    ``principal`` and ``session``.
    ``client_id`` is that of the newest request. ``connected_ms``: when the client connected, in ms since 1970.
    ``sends_records``: the client has sent records to be stored; while ``wants_pause`` is true, the network reads
    nothing more from such connections. ``requests_held``: so many requests of this connection wait, perhaps for
    seconds; while there is one, the network reads nothing more from the connection. ``produces_waiting``: the newest
    Produce that waits for each partition (``broker.apis.produce_order``). ``principal``: in whose name its requests
    come. On a listener with a login that is nobody until the login, whatever certificate the client has. ``channel``:
    a hash of the certificate that the listener showed, empty without TLS.
    ``muted_until_ms``: until then, by the monotonic clock, the network begins no request of this connection; 0: it is
    not muted. ``quotas.throttling`` writes it, and the network ends it. ``is_told``: the audit has heard of it.
    """

    connection_id: int
    client_host: str
    listener: Listener
    client_port: int = 0
    connected_ms: int = 0
    client_id: str = ""
    client_software_name: str = ""
    client_software_version: str = ""
    sends_records: bool = False
    requests_held: int = 0
    produces_waiting: dict[tuple[str, int], asyncio.Future[None]] = {}
    principal: Principal = ANONYMOUS
    channel: bytes = b""
    verdicts: KeptVerdicts = msgspec.field(default_factory=KeptVerdicts)
    quotas: KeptQuotas = msgspec.field(default_factory=KeptQuotas)
    muted_until_ms: float = 0.0
    session: LoginSession = msgspec.field(default_factory=LoginSession)
    is_told: bool = False

    def __post_init__(self) -> None:
        if self.listener.protocol.wants_login:
            self.session.state = SessionState.START
            self.principal = ANONYMOUS


class RequestHandler(Protocol):
    @property
    def wants_pause(self) -> bool:
        """Whether appends wait for room in the store. The network reads it often, so it must be cheap."""
        ...

    def handle(
        self, connection: ConnectionContext, frame: memoryview
    ) -> "Answer | asyncio.Future[Answer] | Coroutine[Any, Any, Answer] | Overtakable | Independent":
        """Begins one request. ``frame`` is writable, has no size in front, and belongs to the handler from now on.

        Returns an Answer when the answer is ready; a Future when the request is under way and the connection's next
        request may begin at once (the network never cancels the Future). A coroutine and an Overtakable are run by the
        network, which cancels them when the connection is lost. A coroutine begins when the Overtakables before it have
        ended, and the next request when it has ended itself. This method, or the result when it is awaited, raises
        CloseConnection; any other exception is a bug, which is logged and closes this connection.
        """
        ...

    def end_waits(self) -> None:
        """Is called when the node is closing: requests that wait for others (for records, for group members) are
        answered now."""
        ...

    def connection_closed(self, connection: ConnectionContext) -> None:
        """Called once, when the connection has ended; Futures of its requests may still be under way."""
        ...

    def certificate_refused(self, listener: str, host: str, reason: str) -> None:
        """Called when a handshake of TLS has ended because of the client's certificate, or because it shows none."""
        ...


class Question(msgspec.Struct, frozen=True):
    """May the client do this? ``name`` None: on at least one resource of the type, whatever its name.
    ``is_named``: the client named the resource; where it did not, what it may not see is left out in silence."""

    operation: AclOperation
    resource_type: AclResourceType
    name: str | None
    is_named: bool = True


class Rights(Protocol):
    """Says what clients may do: ``security.authorizer``."""

    @property
    def version(self) -> int:
        """Changes with each change of rights."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether every client may do everything, so that nobody needs to ask."""
        ...

    def is_known(self, connection: ConnectionContext, asked: Asked) -> bool:
        """Returns whether the client may, if that needs no thought: because everybody may do everything, or because it
        was asked before. False says nothing. Most requests end here, so it is cheap."""
        ...

    def may(self, connection: ConnectionContext, api_key: int, question: Question) -> bool: ...


class OpenRights:
    """Every client may do everything."""

    version = 0
    is_open = True

    def is_known(self, connection: ConnectionContext, asked: Asked) -> bool:
        return True

    def may(self, connection: ConnectionContext, api_key: int, question: Question) -> bool:
        return True


OPEN_RIGHTS = OpenRights()


class RequestContext(msgspec.Struct, frozen=True):
    connection: ConnectionContext
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    begun_ms: float = 0.0
    """When the request began, by the monotonic clock."""
    rights: Rights = OPEN_RIGHTS

    def may(
        self, operation: AclOperation, resource_type: AclResourceType, name: str, *, is_named: bool = True
    ) -> bool:
        """Returns whether the client may do the operation on the resource. ``is_named``: see Question."""
        if self.rights.is_known(self.connection, (operation, resource_type, name)):
            return True
        question = Question(operation, resource_type, name, is_named)
        return self.rights.may(self.connection, self.api_key, question)

    def may_topic(self, operation: AclOperation, name: str, *, is_named: bool = True) -> bool:
        return self.may(operation, AclResourceType.TOPIC, name, is_named=is_named)

    def may_on_some(self, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Returns whether the client may do the operation on at least one resource of the type."""
        return self.rights.may(self.connection, self.api_key, Question(operation, resource_type, None))

    def bits(self, operations: Iterable[AclOperation], resource_type: AclResourceType, name: str) -> int:
        """Returns which of the operations the client may do on the resource, a bit for each, as Kafka's answers have
        them."""
        return sum(
            1 << operation
            for operation in operations
            if self.may(operation, resource_type, name, is_named=False)
        )

    @property
    def client_host(self) -> str:
        return self.connection.client_host


class EncodedBody(msgspec.Struct, frozen=True):
    """A response body that the handler has encoded already, in the version of the request."""

    body: bytes


class AnswerInPieces(msgspec.Struct, frozen=True):
    """A response with batches: it is encoded in pieces that are never joined."""

    message: Message


def frame_of(context: RequestContext, *body: Buffer) -> list[Buffer]:
    size_bytes = sum(len(part) for part in body)
    prefix = response_prefix(context.api_key, context.api_version, context.correlation_id, size_bytes)
    return [prefix, *body]
