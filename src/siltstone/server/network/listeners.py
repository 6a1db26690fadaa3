"""The doors of a node: several listeners, opened together and closed together.

``bind`` takes the ports, so that others can be told which they are; ``start`` lets clients in; ``close`` lets nobody in
any more, waits for what was begun, and then for nobody.
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
"""Connections that the kernel has accepted and we have not: the clients of a restarted node all come at once."""

log = logging.getLogger(__name__)


class Listeners:
    """``on_failure``: the inspection of connections has ended by a bug, which is logged, and time limits hold no more.

    ``listeners``: as they are advertised, in the order of the addresses, as soon as they are bound.
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
        """Raises CannotListen."""
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
        """Let clients in. Raises CannotListen, unless they are bound already."""
        if not self._bound:
            await self.bind()
        allow_connections(self._settings.max_connections)
        self._tasks.start("inspect-connections", self._connections.inspect_for_ever())
        loop = asyncio.get_running_loop()
        while self._bound:  # a socket that a server has is the server's to close
            listener, bound = self._bound.pop()
            factory = partial(Admission, self._connections, listener)
            self._servers.append(await loop.create_server(factory, sock=bound, backlog=BACKLOG))
            log.info("%s listens on %s", listener.name, bound.getsockname()[:2])

    async def close(self, time_limit_ms: float | None = None) -> None:
        """Finish what was begun, then abort; who is cancelled here aborts at once. May be called more than once."""
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
