"""The listeners of a node, opened together and closed together.

``bind`` binds the ports, so that the addresses can be advertised; ``start`` accepts clients; ``close`` refuses new
clients, waits for the requests that were started, and aborts connections that are left after a time limit.
"""

import logging
import socket
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType

from siltstone.broker.request import Listener, RequestHandler
from siltstone.metadata.entities import NodeLife
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.network.ceilings import DelayOfArrival
from siltstone.server.network.certificates import Certificates
from siltstone.server.network.connections import Connections, ListenerEntrance
from siltstone.server.network.listener_settings import PLAIN, ListenerSettings
from siltstone.server.network.parts import NetworkParts
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.network.sockets import allow_connections, bind_sockets
from siltstone.server.network.statistics import ClientConnection, NetworkStatistics

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


async def bind_listeners(
    addresses: Sequence[ListenerAddress], settings_of: Mapping[str, ListenerSettings] = MappingProxyType({})
) -> BoundListeners:
    """Binds all addresses. ``settings_of``: name of a listener → its settings. Raises CannotListen."""
    bound: list[tuple[Listener, socket.socket]] = []
    try:
        for address in addresses:
            sockets = await bind_sockets(address)
            port = address.advertised_port or sockets[0].getsockname()[1]
            settings = settings_of.get(address.name, PLAIN)
            listener = Listener(
                address.name, address.advertised_host, port, address.protocol,
                settings.mechanisms if address.protocol.wants_login else (), settings.reauthentication_ms_max,
            )  # fmt: skip
            bound += [(listener, each) for each in sockets]
    except BaseException:
        BoundListeners(bound).close()
        raise
    return BoundListeners(bound)


class Listeners:
    """The listening sockets of a node, and the connections that they accept.

    ``listeners`` has the advertised address of each listener, in the order of ``addresses``, once they are bound;
    ``addresses`` may be sockets that are bound already.
    ``turns_away``: whether new connections are closed at once, because what the node knows of users is too old.
    ``settings_of`` and ``certificates`` have what ``listener.NAME.*`` says of listeners. ``delay_of_arrival`` counts
    new connections by host, for quotas. ``on_failure`` is
    called if a bug ends the inspection of connections; the bug is logged, and time limits of connections are no longer
    enforced.
    """

    def __init__(
        self,
        addresses: Sequence[ListenerAddress] | BoundListeners,
        handler: RequestHandler,
        settings: NetworkSettings,
        clock: Clock,
        on_failure: Callable[[BaseException], None] = lambda _: None,
        *,
        settings_of: Mapping[str, ListenerSettings] = MappingProxyType({}),
        certificates: Certificates | None = None,
        turns_away: Callable[[], bool] = lambda: False,
        delay_of_arrival: DelayOfArrival = lambda _: 0.0,
    ) -> None:
        self._addresses = addresses
        self._settings = settings
        self._clock = clock
        self._tasks = TaskGroup("network", on_failure)
        self._parts = NetworkParts(handler, settings, clock, self._tasks)
        self._connections = Connections(self._parts, delay_of_arrival, turns_away)
        self._accepting = self._connections.accepting
        self._settings_of = settings_of
        self.certificates = certificates
        self._bound: list[tuple[Listener, socket.socket]] = []
        self._are_open = False
        self.listeners: tuple[Listener, ...] = ()

    async def bind(self) -> None:
        """Binds all addresses without accepting clients yet. Raises CannotListen."""
        addresses = self._addresses
        bound = (
            addresses
            if isinstance(addresses, BoundListeners)
            else await bind_listeners(addresses, self._settings_of)
        )
        self._bound, self.listeners = list(bound.sockets), bound.listeners

    async def start(self) -> None:
        """Binds the addresses if ``bind`` has not, and accepts clients. Raises CannotListen."""
        if not self._bound:
            await self.bind()
        allow_connections(self._settings.max_connections)
        self._tasks.start("inspect-connections", self._connections.inspect_for_ever())
        for listener, bound in self._bound:
            self._accepting.listen(bound, self._entrance(listener))
            log.info("%s listens on %s", listener.name, bound.getsockname()[:2])
        self._are_open = True

    def _entrance(self, listener: Listener) -> ListenerEntrance:
        name, certificates = listener.name, self.certificates
        settings = self._settings_of.get(name, PLAIN)
        if not listener.protocol.is_encrypted:
            return ListenerEntrance(self._connections, listener, lambda: None, settings)
        assert certificates is not None and certificates.of(name) is not None
        return ListenerEntrance(self._connections, listener, lambda: certificates.of(name), settings)

    def end_sessions(self, principals: Container[str]) -> None:
        """Closes the connections in the names of these principals, such as ``User:ada``."""
        self._connections.end_sessions(principals)

    def end_sessions_of_nodes(self, is_live: Callable[[NodeLife], bool]) -> None:
        """Closes the connections of nodes whose life has ended."""
        self._connections.end_sessions_of_nodes(is_live)

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
            self._accepting.abandon_arrivals()

    def _close_sockets(self) -> None:
        self._are_open = False
        self._accepting.close_sockets()
        for _, bound in self._bound:  # also those that do not listen yet
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
