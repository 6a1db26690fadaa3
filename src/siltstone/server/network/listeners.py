"""The listeners of a node, opened together and closed together.

``bind`` binds the ports, so that the addresses can be advertised; ``start`` accepts clients; ``close`` refuses new
clients, waits for the requests that were begun, and aborts connections that are left after a time limit.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial

from siltstone.broker.request import Listener, RequestHandler
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.network.connections import Admission, Connections
from siltstone.server.network.parts import NetworkParts
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.network.sockets import allow_connections, bind_sockets
from siltstone.server.network.statistics import NetworkStatistics

BACKLOG = 1024
"""Connections that the kernel accepts before the event loop does: all clients of a restarted node connect at once."""

log = logging.getLogger(__name__)


class Listeners:
    """The listening sockets of a node, and the connections that they accept.

    ``listeners`` has the advertised address of each listener, in the order of ``addresses``, once they are bound.
    ``on_failure`` is called if a bug ends the inspection of connections; the bug is logged, and time limits of
    connections are no longer enforced.
    """

    def __init__(
        self,
        addresses: Sequence[ListenerAddress],
        handler: RequestHandler,
        settings: NetworkSettings,
        clock: Clock,
        on_failure: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        self._addresses = addresses
        self._settings = settings
        self._clock = clock
        self._tasks = TaskGroup("network", on_failure)
        self._parts = NetworkParts(handler, settings, clock, self._tasks)
        self._connections = Connections(self._parts)
        self._bound: list[tuple[Listener, socket.socket]] = []
        self._servers: list[asyncio.Server] = []
        self.listeners: tuple[Listener, ...] = ()

    async def bind(self) -> None:
        """Binds all addresses without accepting clients yet. Raises CannotListen."""
        try:
            self.listeners = tuple([await self._bind(address) for address in self._addresses])
        except BaseException:
            self._close_sockets()
            raise

    async def _bind(self, address: ListenerAddress) -> Listener:
        sockets = await bind_sockets(address)
        port = sockets[0].getsockname()[1]
        listener = Listener(address.name, address.advertised_host, address.advertised_port or port)
        self._bound += [(listener, bound) for bound in sockets]
        return listener

    async def start(self) -> None:
        """Binds the addresses if ``bind`` has not, and accepts clients. Raises CannotListen."""
        if not self._bound:
            await self.bind()
        allow_connections(self._settings.max_connections)
        self._tasks.start("inspect-connections", self._connections.inspect_for_ever())
        loop = asyncio.get_running_loop()
        while self._bound:  # the server closes a socket that it was given
            listener, bound = self._bound.pop()
            factory = partial(Admission, self._connections, listener)
            self._servers.append(await loop.create_server(factory, sock=bound, backlog=BACKLOG))
            log.info("%s listens on %s", listener.name, bound.getsockname()[:2])

    async def close(self, time_limit_ms: float | None = None) -> None:
        """Answers the requests that were begun, and aborts all connections after the time limit, or at once if this
        call is cancelled. May be called more than once."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._close_sockets()
        self._connections.shut_down()
        self._parts.handler.end_waits()
        limit_ms = self._settings.close_time_limit_ms if time_limit_ms is None else time_limit_ms
        timer = self._clock.call_after_ms(limit_ms, self._connections.abort)
        try:
            await self._connections.wait_until_gone()
        finally:
            timer.cancel()
            self._connections.abort()
            await self._tasks.cancel()

    def _close_sockets(self) -> None:
        for _, bound in self._bound:
            bound.close()
        self._bound.clear()

    def statistics(self) -> NetworkStatistics:
        return self._connections.statistics()
