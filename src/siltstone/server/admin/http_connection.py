"""HTTP connections of the admin listeners: one request, one answer, then the connection is closed.

    HEAD     the head of the request arrives: at most ADMIN_HEAD_BYTES_MAX bytes in ADMIN_HEAD_MS_MAX
    ANSWER   the answer is made and sent: at most ADMIN_ANSWER_MS_MAX
    LINGER   the answer was sent; what the client still sends is dropped, so that no reset of the connection takes the
             answer from it

There is room for ADMIN_CONNECTIONS_MAX connections. When they are all taken, the oldest that is not in ANSWER makes
room, so clients that send nothing do not keep others out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import cast

import msgspec

from siltstone.model.serving_limits import (
    ADMIN_ANSWER_MS_MAX,
    ADMIN_CONNECTIONS_MAX,
    ADMIN_HEAD_BYTES_MAX,
    ADMIN_HEAD_MS_MAX,
)
from siltstone.runtime.clock import Clock, Timer
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.admin.http_request import HEAD_END, HttpCaller, HttpRequest, RequestRefused, parse_head
from siltstone.server.network.principal_mapping import NoPrincipal

log = logging.getLogger(__name__)

REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 421: "Misdirected Request",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip
PLAIN = "text/plain; charset=utf-8"


class HttpAnswer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = PLAIN


AnswerRequest = Callable[[HttpRequest], Awaitable[HttpAnswer]]


class Phase(Enum):
    HEAD = auto()
    ANSWER = auto()
    LINGER = auto()


class HttpConnections:
    """The open connections of all admin listeners, oldest first."""

    def __init__(self, answer: AnswerRequest, clock: Clock) -> None:
        self.answer = answer
        self.clock = clock
        self.tasks = TaskGroup("admin", lambda _: None)
        self._open: dict[HttpConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: "HttpConnection") -> bool:
        if len(self._open) >= ADMIN_CONNECTIONS_MAX:
            oldest = next((each for each in self._open if each.phase is not Phase.ANSWER), None)
            if oldest is None:
                return False
            oldest.abort()
        self._open[connection] = None
        return True

    def forget(self, connection: "HttpConnection") -> None:
        self._open.pop(connection, None)

    async def close(self) -> None:
        for connection in list(self._open):
            connection.abort()
        await self.tasks.cancel()


class HttpConnection(asyncio.Protocol):
    """``on_made`` is called when there is a transport, after the handshake where there is one, and returns where the
    client comes from. If it raises NoPrincipal, the client is nobody and is closed."""

    def __init__(
        self,
        connections: HttpConnections,
        on_made: Callable[[asyncio.Transport], HttpCaller] = lambda _: HttpCaller(),
    ) -> None:
        self._connections = connections
        self._caller = HttpCaller()
        self._on_made = on_made
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: Timer | None = None
        self.phase = Phase.HEAD

    # -- callbacks of the event loop ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        try:
            self._caller = self._on_made(self._transport)
        except (NoPrincipal, ValueError) as refusal:
            log.info("a connection to the admin listener closed: %s", refusal)
            self._transport.abort()
            return
        if not self._connections.admit(self):
            self._transport.abort()
            return
        self._enter(Phase.HEAD, ADMIN_HEAD_MS_MAX)

    def data_received(self, data: bytes) -> None:
        if self.phase is not Phase.HEAD:
            return
        self._head += data[: ADMIN_HEAD_BYTES_MAX + 1 - len(self._head)]
        end = self._head.find(HEAD_END)
        if end >= 0:
            self._begin(bytes(self._head[:end]))
        elif len(self._head) > ADMIN_HEAD_BYTES_MAX:
            self._refuse(RequestRefused(431, f"the head of the request exceeds {ADMIN_HEAD_BYTES_MAX} bytes"))

    def eof_received(self) -> bool:
        """Keeps the connection open, because a client may end its side after its request. Returns whether the
        connection stays open; otherwise it is closed when everything is sent."""
        if self.phase is Phase.HEAD:
            self.abort()
        return self.phase is Phase.ANSWER

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort()

    # -- the answer --------------------------------------------------------------------------------------

    def _begin(self, head: bytes) -> None:
        try:
            request = msgspec.structs.replace(parse_head(head), caller=self._caller)
        except RequestRefused as refusal:
            self._refuse(refusal)
            return
        self._enter(Phase.ANSWER, ADMIN_ANSWER_MS_MAX)
        self._connections.tasks.start("answer", self._answer(request))

    async def _answer(self, request: HttpRequest) -> None:
        try:
            answer = await self._connections.answer(request)
        except RequestRefused as refusal:
            answer = _refusal(refusal)
        except Exception:
            log.exception("a request for %s failed", request.path)
            answer = HttpAnswer(500, b"the request failed, and the log says why\n")
        self._send(answer, has_body=request.method != "HEAD")

    def _refuse(self, refusal: RequestRefused) -> None:
        self._enter(Phase.ANSWER, ADMIN_ANSWER_MS_MAX)
        self._send(_refusal(refusal), has_body=True)

    def _send(self, answer: HttpAnswer, *, has_body: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        allow = "Allow: GET, HEAD\r\n" if answer.status == 405 else ""
        if answer.status == 401:
            allow = 'WWW-Authenticate: Basic realm="siltstone", charset="UTF-8"\r\n'
        head = (
            f"HTTP/1.1 {answer.status} {REASONS[answer.status]}\r\n{allow}Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            "Connection: close\r\n\r\n"
        ).encode("ascii")
        transport.writelines([head, answer.body] if has_body else [head])
        try:
            if transport.can_write_eof():
                transport.write_eof()
            else:  # TLS, whose end is a message of its own
                transport.close()
        except OSError:
            # The client ended the connection before the answer: a scrape that took too long for it.
            self.abort()
            return
        self.phase = Phase.LINGER

    def _enter(self, phase: Phase, limit_ms: float) -> None:
        self.phase = phase
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._connections.clock.call_after_ms(limit_ms, self.abort)

    def abort(self) -> None:
        """Ends the connection at once. May be called more than once."""
        transport, self._transport = self._transport, None
        if transport is not None:
            if self._timer is not None:
                self._timer.cancel()
            transport.abort()
        self._connections.forget(self)


def _refusal(refusal: RequestRefused) -> HttpAnswer:
    return HttpAnswer(refusal.status, f"{refusal}\n".encode())
