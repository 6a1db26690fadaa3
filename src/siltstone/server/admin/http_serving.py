"""HTTP connections of the admin listeners. uvicorn's protocol, on h11, reads requests and writes answers; this module
adds the limits that a port open to strangers needs.

    HEAD     the head of a request is awaited: at most ADMIN_HEAD_MS_MAX
    ANSWER   the answer is made and sent: at most ADMIN_ANSWER_MS_MAX, or CONSOLE_PAGE_MS_MAX for a page
    LINGER   the answer was handed to the network; another request may come, for at most ADMIN_ANSWER_MS_MAX

There is room for ADMIN_CONNECTIONS_MAX connections. When they are all taken, the oldest that is not in ANSWER makes
room, so clients that send nothing do not keep others out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from functools import partial
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from siltstone.model.console_limits import CONSOLE_PAGE_MS_MAX
from siltstone.model.serving_limits import (
    ADMIN_ANSWER_MS_MAX,
    ADMIN_CONNECTIONS_MAX,
    ADMIN_HEAD_BYTES_MAX,
    ADMIN_HEAD_MS_MAX,
)
from siltstone.runtime.clock import Clock, Timer
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.admin.http_request import (
    METHODS,
    HttpAnswer,
    HttpCaller,
    HttpRequest,
    RequestRefused,
    request_of,
)
from siltstone.server.network.principal_mapping import NoPrincipal

log = logging.getLogger(__name__)
_silent = logging.getLogger(f"{__name__}.uvicorn")
_silent.setLevel(logging.CRITICAL)
"""uvicorn writes a line for each request that cannot be read, as many as a stranger sends."""

AnswerRequest = Callable[[HttpRequest], Awaitable[HttpAnswer]]
Application = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""


class Phase(Enum):
    HEAD = auto()
    ANSWER = auto()
    LINGER = auto()


class HttpConnections:
    """The open connections of all admin listeners, oldest first. ``answer`` makes the answers to ``endpoints``, if
    there are any; other paths are pages of ``console``, once there is one."""

    def __init__(self, answer: AnswerRequest | None, endpoints: frozenset[str], clock: Clock) -> None:
        self.answer = answer
        self.endpoints = endpoints
        self.console: Application | None = None
        self.clock = clock
        self.tasks = TaskGroup("admin", lambda _: None)
        self.config = Config(
            _unused, http="h11", ws="none", lifespan="off", log_config=None, access_log=False, proxy_headers=False,
            server_header=False, h11_max_incomplete_event_size=ADMIN_HEAD_BYTES_MAX,
        )  # fmt: skip
        self.config.load()
        self.state = ServerState()
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

    def is_page(self, path: str) -> bool:
        return self.console is not None and path not in self.endpoints

    async def close(self) -> None:
        for connection in list(self._open):
            connection.abort()
        tasks = list(self.state.tasks)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.tasks.cancel()


async def _unused(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("each connection has an application of its own")


class HttpConnection(H11Protocol):
    """``on_made`` is called when there is a transport, after the handshake where there is one, and returns where the
    client comes from. If it raises NoPrincipal, the client is nobody and is closed."""

    def __init__(
        self,
        connections: HttpConnections,
        on_made: Callable[[asyncio.Transport], HttpCaller] = lambda _: HttpCaller(),
    ) -> None:
        super().__init__(connections.config, connections.state, {})
        self.logger = _silent
        self.phase = Phase.HEAD
        self._connections = connections
        self._on_made = on_made
        self._timer: Timer | None = None
        self._has_ended = False
        self._is_open = False

    # -- callbacks of the event loop ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        try:
            caller = self._on_made(made)
        except (NoPrincipal, ValueError) as refusal:
            log.info("a connection to the admin listener closed: %s", refusal)
            made.abort()
            return
        super().connection_made(made)
        self._is_open = True
        self.app = partial(self._answer, caller)
        if self._connections.admit(self):
            self._enter(Phase.HEAD, ADMIN_HEAD_MS_MAX)
        else:
            made.abort()

    def data_received(self, data: bytes) -> None:
        if self._has_ended or not self._is_open or self.transport.is_closing():
            return
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete and self.phase is not Phase.ANSWER:
            is_page = self._connections.is_page(self.scope["path"])
            self._enter(Phase.ANSWER, CONSOLE_PAGE_MS_MAX if is_page else ADMIN_ANSWER_MS_MAX)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps the connection open while an answer is made: a client may end its side after its request. A browser
        does so only when the page was closed, and then nobody waits for the answer. Returns whether the connection
        stays open; otherwise it is closed when everything is sent."""
        self._has_ended = True
        return self.phase is Phase.ANSWER and not self._connections.is_page(self.scope["path"])

    def on_response_complete(self) -> None:
        self._enter(Phase.LINGER, ADMIN_ANSWER_MS_MAX)
        if self._has_ended:
            self.transport.close()
        else:
            super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_open:
            super().connection_lost(exc)
        self._leave()

    # -- the answer --------------------------------------------------------------------------------------

    async def _answer(self, caller: HttpCaller, scope: Any, receive: Any, send: Any) -> None:
        if self._connections.is_page(scope["path"]):
            assert self._connections.console is not None, "is_page says so"
            await self._connections.console({**scope, "siltstone.caller": caller}, receive, send)
            return
        answered = await self._answered(caller, scope)
        headers = [
            (b"content-type", answered.content_type.encode("ascii")),
            (b"content-length", str(len(answered.body)).encode("ascii")),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        if answered.status == 405:
            headers.append((b"allow", b"GET, HEAD"))
        if answered.status == 401:
            headers.append((b"www-authenticate", b'Basic realm="siltstone", charset="UTF-8"'))
        await send({"type": "http.response.start", "status": answered.status, "headers": headers})
        await send({"type": "http.response.body", "body": answered.body})

    async def _answered(self, caller: HttpCaller, scope: Any) -> HttpAnswer:
        try:
            if scope["method"] not in METHODS:
                raise RequestRefused(405, "only GET and HEAD are answered here")
            if self._connections.answer is None:
                raise RequestRefused(404, "nothing is here yet")
            return await self._connections.answer(request_of(scope, caller))
        except RequestRefused as refusal:
            return HttpAnswer(refusal.status, f"{refusal}\n".encode())
        except Exception:
            log.exception("a request for %s failed", scope["path"])
            return HttpAnswer(500, b"the request failed, and the log says why\n")

    def _enter(self, phase: Phase, limit_ms: float) -> None:
        self.phase = phase
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._connections.clock.call_after_ms(limit_ms, self.abort)

    def abort(self) -> None:
        """Ends the connection at once. May be called more than once."""
        if self._is_open:
            self.transport.abort()
        self._leave()

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._unset_keepalive_if_required()
        self._connections.forget(self)
