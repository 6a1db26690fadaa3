"""The admin listeners of a process: opened before everything else, closed after everything else.

So ``/livez`` is answered, and ``/readyz`` says why not, while a node recovers its log and while it stops.
``AdminListeners`` runs on the event loop of a broker, ``AdminThread`` on one of its own, for the maintenance service,
which has none.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import Clock
from siltstone.server.admin.access import AdminAccess, MetricsToken, of_listener
from siltstone.server.admin.addresses import (
    NAME,
    admin_wants_login,
    allowed_hosts,
    encrypted_admin,
    parse_admin_addresses,
)
from siltstone.server.admin.endpoints import PATHS, Endpoints, Observed
from siltstone.server.admin.http_request import HttpCaller
from siltstone.server.admin.otlp import OtlpCollector, OtlpExport
from siltstone.server.network.accepting import Accepting, Arrival
from siltstone.server.network.addresses import bracketed
from siltstone.server.network.certificates import Certificates, watched_certificates
from siltstone.server.network.listener_settings import PLAIN, ListenerSettings
from siltstone.server.network.sockets import bind_sockets
from siltstone.server.network.tls import ServerTls
from siltstone.server.settings.admin import AdminSettings

if TYPE_CHECKING:  # it loads uvicorn, which a broker without admin listeners does without
    from siltstone.server.admin.http_serving import Application, HttpConnections

BACKLOG = 64

log = logging.getLogger(__name__)


class AdminEntrance:
    """Where the connections of the admin listeners go, as ``network.accepting`` wants it. ``HttpConnections`` limits
    connections that have a transport, and the limit of handshakes the others."""

    name = NAME

    def __init__(
        self, connections: "HttpConnections", certificates: Certificates | None, listener: ListenerSettings
    ) -> None:
        self._connections = connections
        self._certificates = certificates
        self.handshake_ms_max: float = listener.handshake_ms_max

    @property
    def tls(self) -> ServerTls | None:
        return None if self._certificates is None else self._certificates.of(NAME)

    def rest_ms(self) -> float:
        return 0.0

    def expects(self, host: str, accepted: socket.socket) -> bool:
        return True

    def protocol(self, arrival: Arrival) -> asyncio.BaseProtocol:
        from siltstone.server.admin.http_serving import HttpConnection  # noqa: PLC0415

        tls = self.tls

        def made(transport: asyncio.Transport) -> HttpCaller:
            arrival.is_made = True
            if tls is None:
                return HttpCaller(arrival.host)
            shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            return HttpCaller(arrival.host, of_listener(tls.principal_of, shown))

        return HttpConnection(self._connections, made)

    def missed(self, host: str) -> None:
        pass


class AdminListeners:
    """``urls`` are the addresses at which the listeners are reached, once they are open. ``certificates`` have those of
    the listener ADMIN, if ``listener`` is one with TLS."""

    def __init__(
        self,
        settings: AdminSettings,
        clock: Clock,
        listener: ListenerSettings = PLAIN,
        certificates: Certificates | None = None,
    ) -> None:
        """Raises InvalidListener, InvalidListenerSetting, OtlpExtraMissing."""
        from siltstone.server.admin.http_serving import HttpConnections  # noqa: PLC0415

        self._addresses = parse_admin_addresses(settings, listener)
        self._token_calls = ThreadedCalls("tokens", 1)
        file = settings.metrics_token_file
        token = MetricsToken(Path(file), self._token_calls, clock) if file else None
        access = AdminAccess(wants_login=admin_wants_login(settings, listener), token=token)
        self.endpoints = Endpoints(clock, allowed_hosts(settings, self._addresses), access)
        self._connections = HttpConnections(self.endpoints.answer, PATHS, clock)
        self._accepting = Accepting(clock, self._connections.tasks)
        self._entrance = AdminEntrance(self._connections, certificates, listener)
        self.urls: list[str] = []
        self._export: OtlpExport | None = None
        if settings.otlp_endpoint:
            collector = OtlpCollector(settings.otlp_endpoint, clock.now_ms())
            self._export = OtlpExport(collector, self.endpoints.scrapes, settings.otlp_interval_ms, clock)

    def serve_console(self, console: "Application | None") -> None:
        """From now on paths that are no endpoints are pages of the console; with None nothing is there."""
        self._connections.console = console

    async def open(self) -> None:
        """Raises CannotListen."""
        bound: list[socket.socket] = []
        scheme = "http" if self._entrance.tls is None else "https"
        try:
            for address in self._addresses:
                sockets = await bind_sockets(address, "the setting admin.listeners")
                bound += sockets
                port = sockets[0].getsockname()[1]
                self.urls.append(f"{scheme}://{bracketed(address.host or socket.gethostname())}:{port}")
        except BaseException:
            for each in bound:
                each.close()
            await self.close()
            raise
        for each in bound:
            self._accepting.listen(each, self._entrance, BACKLOG)
        self._connections.tasks.start("event-loop-lag", self.endpoints.process.watch())
        if self.urls:
            log.info("metrics and health are served at %s", ", ".join(self.urls))
        if self._export is not None:
            self._connections.tasks.start("otlp", self._export.run())

    async def close(self) -> None:
        self._accepting.close_sockets()
        self.endpoints.process.close()
        await self._connections.close()
        if self._export is not None:
            self._export.close()
        self._accepting.abandon_arrivals()
        await self.endpoints.scrapes.close()
        self._token_calls.close()


@asynccontextmanager
async def open_admin_listeners(
    settings: AdminSettings,
    clock: Clock,
    listener: ListenerSettings = PLAIN,
    certificates: Certificates | None = None,
) -> AsyncIterator[AdminListeners | None]:
    """Yields None when the setting ``admin.listeners`` is off and no collector is named. Raises InvalidListener,
    CannotListen and OtlpExtraMissing."""
    if not settings.is_observed:
        yield None
        return
    listeners = AdminListeners(settings, clock, listener, certificates)
    await listeners.open()
    try:
        yield listeners
    finally:
        await listeners.close()


class AdminThread:
    """Admin listeners on an event loop in a thread."""

    def __init__(self, settings: AdminSettings, clock: Clock, listener: ListenerSettings = PLAIN) -> None:
        self._settings = settings
        self._clock = clock
        self._listener = listener
        self._opened: Future[AdminListeners] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="admin", daemon=True)

    def start(self) -> list[str]:
        """Returns the URLs of the open listeners. Raises InvalidListener and CannotListen."""
        self._thread.start()
        return self._opened.result().urls

    def observe(self, observed: Observed) -> None:
        self._opened.result().endpoints.observed = observed

    def stop(self) -> None:
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:
            if not self._opened.done():
                self._opened.set_exception(failure)
                return
            log.exception("the admin listeners have failed: metrics and health are not served any more")

    async def _serve(self) -> None:
        encrypted = encrypted_admin(self._settings, self._listener)
        async with (
            watched_certificates(encrypted, self._clock) as certificates,
            open_admin_listeners(self._settings, self._clock, self._listener, certificates) as listeners,
        ):
            assert listeners is not None
            self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
            self._opened.set_result(listeners)
            await self._stopping.wait()


@contextmanager
def admin_thread(
    settings: AdminSettings, clock: Clock, listener: ListenerSettings = PLAIN
) -> Iterator[AdminThread | None]:
    """None when the setting ``admin.listeners`` is off and no collector is named."""
    if not settings.is_observed:
        yield None
        return
    thread = AdminThread(settings, clock, listener)
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
