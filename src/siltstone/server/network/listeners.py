"""The listeners of a node, opened together and closed together.

``bind`` binds the ports, so that the addresses can be advertised; ``start`` accepts clients; ``close`` refuses new
clients, waits for the requests that were started, and aborts connections that are left after a time limit.
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
from siltstone.server.network.statistics import ClientConnection, NetworkStatistics

BACKLOG = 1024
"""Connections that the kernel accepts before the event loop does: all clients of a restarted node connect at once."""

ACCEPTED_PER_TURN_MAX = 100
"""The most connections that one socket accepts in one turn of the event loop, about 10 ms; the others follow in the
next turn."""

ACCEPT_AGAIN_MS = 1_000
"""When accepting fails because there is no free file, the socket stays readable: it is left alone for so long."""

log = logging.getLogger(__name__)


class BoundListeners:
    """Sockets that are bound and accept no clients yet: their addresses can be advertised."""

    def __init__(self, bound: list[tuple[Listener, socket.socket]]) -> None:
        self.sockets = bound

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The advertised address of each listener, in order. A host with several addresses has one listener."""
        return tuple(dict.fromkeys(listener for listener, _ in self.sockets))

    def close(self) -> None:
        """Closes the listener. Idempotent."""
        for _, bound in self.sockets:
            bound.close()


async def bind_listeners(addresses: Sequence[ListenerAddress]) -> BoundListeners:
    """Binds all addresses. Raises CannotListen."""
    bound: list[tuple[Listener, socket.socket]] = []
    try:
        for address in addresses:
            sockets = await bind_sockets(address)
            port = address.advertised_port or sockets[0].getsockname()[1]
            listener = Listener(address.name, address.advertised_host, port)
            bound += [(listener, each) for each in sockets]
    except BaseException:
        BoundListeners(bound).close()
        raise
    return BoundListeners(bound)


class Listeners:
    """The listening sockets of a node, and the connections that they accept.

    ``listeners`` has the advertised address of each listener, in the order of ``addresses``, once they are bound;
    ``addresses`` may be sockets that are bound already.
    ``on_failure`` is called if a bug ends the inspection of connections; the bug is logged, and time limits of
    connections are no longer enforced.
    """

    def __init__(
        self,
        addresses: Sequence[ListenerAddress] | BoundListeners,
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
        self._are_open = False
        self._arriving: set[socket.socket] = set()
        self.listeners: tuple[Listener, ...] = ()

    async def bind(self) -> None:
        """Binds all addresses without accepting clients yet. Raises CannotListen."""
        addresses = self._addresses
        bound = addresses if isinstance(addresses, BoundListeners) else await bind_listeners(addresses)
        self._bound, self.listeners = list(bound.sockets), bound.listeners

    async def start(self) -> None:
        """Binds the addresses if ``bind`` has not, and accepts clients. Raises CannotListen."""
        if not self._bound:
            await self.bind()
        allow_connections(self._settings.max_connections)
        self._tasks.start("inspect-connections", self._connections.inspect_for_ever())
        for listener, bound in self._bound:
            bound.listen(BACKLOG)
            self._watch(listener, bound)
            log.info("%s listens on %s", listener.name, bound.getsockname()[:2])
        self._are_open = True

    def _watch(self, listener: Listener, bound: socket.socket) -> None:
        if bound.fileno() >= 0:  # it was not closed meanwhile
            asyncio.get_running_loop().add_reader(bound, self._accept, listener, bound)

    def _accept(self, listener: Listener, bound: socket.socket) -> None:
        """Accepts the connections that wait. The servers of event loops are not used, because they cannot pause: while
        there is no free file asyncio's logs a thousand lines a second, and uvloop's takes a whole processor."""
        for _ in range(ACCEPTED_PER_TURN_MAX):
            try:
                accepted, _ = bound.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as trouble:
                log.debug("accepting a connection failed: %s", trouble)
                self._connections.accept_failed()
                asyncio.get_running_loop().remove_reader(bound)
                self._clock.call_after_ms(ACCEPT_AGAIN_MS, partial(self._watch, listener, bound))
                return
            self._arriving.add(accepted)  # a task that is cancelled before it begins does not close it
            self._tasks.start("accept", self._connect(listener, accepted))

    async def _connect(self, listener: Listener, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                partial(Admission, self._connections, listener), accepted
            )
            self._arriving.discard(accepted)
        except OSError as trouble:  # it broke already
            log.debug("an accepted connection failed: %s", trouble)
            self._close_arrived(accepted)
        except BaseException:
            self._close_arrived(accepted)
            raise

    def _close_arrived(self, accepted: socket.socket) -> None:
        self._arriving.discard(accepted)
        accepted.close()

    def abort(self) -> None:
        """Refuses new clients and ends all connections at once, whatever they wait for."""
        self._close_sockets()
        self._connections.abort()

    async def close(self, time_limit_ms: float | None = None) -> None:
        """Answers the requests that were started, and aborts all connections after the time limit, or at once if this
        call is cancelled. May be called more than once."""
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
            for accepted in tuple(self._arriving):
                self._close_arrived(accepted)

    def _close_sockets(self) -> None:
        self._are_open = False
        for _, bound in self._bound:
            if bound.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(bound)
            bound.close()
        self._bound.clear()

    @property
    def are_open(self) -> bool:
        """Whether clients are accepted."""
        return self._are_open

    def clients(self) -> list[ClientConnection]:
        """Returns the newest open connections, as many as ``Connections.clients`` tells."""
        return self._connections.clients()

    def statistics(self) -> NetworkStatistics:
        return self._connections.statistics()
