"""All connections of a node: admits or refuses new ones, closes idle and slow ones, and sums up their statistics.

One timer serves all connections: once a second it inspects each for a time limit that has passed.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Container
from itertools import count, islice
from typing import cast

from siltstone.broker.request import ConnectionContext, Listener
from siltstone.metadata.entities import NodeLife
from siltstone.model.access import ANONYMOUS, Principal
from siltstone.model.limits import SECOND_MS
from siltstone.runtime.log_limit import LogLimit
from siltstone.server.network.accepting import Accepting, Arrival
from siltstone.server.network.addresses import written_port
from siltstone.server.network.ceilings import DelayOfArrival, LateClosings, ListenerCeiling
from siltstone.server.network.connection import Connection, TlsConnection
from siltstone.server.network.handshakes import HandshakeFailure
from siltstone.server.network.listener_settings import PLAIN, ListenerSettings
from siltstone.server.network.parts import NetworkParts
from siltstone.server.network.principal_mapping import NoPrincipal
from siltstone.server.network.settings import parse_overrides
from siltstone.server.network.sockets import leaves_too_few_files, open_files_max
from siltstone.server.network.statistics import ClientConnection, CloseReason, NetworkStatistics
from siltstone.server.network.tls import ServerTls

INSPECTION_INTERVAL_MS = 1 * SECOND_MS

REFUSALS_LOGGED_INTERVAL_MS = 30 * SECOND_MS
"""The shortest time between two lines about refused connections: refused clients reconnect for hours."""

CLIENTS_TOLD_MAX = 1_000
"""A list that a person reads, and that is made within a few ms; statistics count all connections."""

TEXT_CHARACTERS_MAX = 200
"""A client id may have 32,767 bytes."""

log = logging.getLogger(__name__)


class ListenerEntrance:
    """Where the connections of one listener go, as ``accepting`` wants it."""

    def __init__(
        self,
        connections: "Connections",
        listener: Listener,
        tls: Callable[[], ServerTls | None],
        settings: ListenerSettings = PLAIN,
    ) -> None:
        self._connections = connections
        self.listener = listener
        self._tls = tls
        self.handshake_ms_max: float = settings.handshake_ms_max
        self._ceiling = connections.ceiling_of(listener, settings)

    @property
    def name(self) -> str:
        return self.listener.name

    @property
    def tls(self) -> ServerTls | None:
        return self._tls()

    def rest_ms(self) -> float:
        return self._ceiling.rest_ms()

    def expects(self, host: str, accepted: socket.socket) -> bool:
        self._ceiling.came()
        if self._ceiling.is_full:
            self._connections.refuse(self.name, CloseReason.TOO_MANY)
            return False
        if not self._connections.expect(self.name, host, accepted.fileno()):
            return False
        if delay_ms := self._connections.delay_of_arrival(host):
            self._connections.missed(self.name, host, CloseReason.TOO_FAST)
            self._connections.late_closings.add(accepted, delay_ms)
            return False
        self._ceiling.open_count += 1
        return True

    def protocol(self, arrival: Arrival) -> asyncio.BaseProtocol:
        return Admission(self._connections, self.listener, arrival, self.tls)

    def missed(self, host: str) -> None:
        self._ceiling.open_count -= 1
        reason = CloseReason.LOST if self.tls is None else CloseReason.HANDSHAKE
        self._connections.missed(self.name, host, reason)


class Admission(asyncio.Protocol):
    """The protocol of a new transport until ``Connections`` has it; a transport whose client is nobody keeps it until
    it is closed."""

    def __init__(
        self, connections: "Connections", listener: Listener, arrival: Arrival, tls: ServerTls | None
    ) -> None:
        self._connections = connections
        self._listener = listener
        self._arrival = arrival
        self._tls = tls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        try:
            principal = self._principal(made)
        except (NoPrincipal, ValueError) as refusal:
            self._connections.nobody(self._listener, self._arrival.host, refusal)
            made.abort()  # the arrival was not made, so it is missed
            return
        self._arrival.is_made = True
        channel = b"" if self._tls is None else self._tls.channel
        self._connections.admit(made, self._listener, self._arrival.host, principal, channel)

    def _principal(self, transport: asyncio.Transport) -> Principal:
        if self._tls is None:
            return ANONYMOUS
        return self._tls.principal_of(transport.get_extra_info("ssl_object").getpeercert(binary_form=True))


class Connections:
    """The admitted connections of a node, and the expected ones, which are counted by host and not admitted yet."""

    def __init__(
        self,
        parts: NetworkParts,
        delay_of_arrival: DelayOfArrival = lambda _: 0.0,
        turns_away: Callable[[], bool] = lambda: False,
    ) -> None:
        self._parts = parts
        self._turns_away = turns_away
        self.delay_of_arrival = delay_of_arrival
        self.late_closings = LateClosings(parts.clock)
        self._ceilings: dict[str, ListenerCeiling] = {}
        self.accepting = Accepting(
            parts.clock, parts.tasks, self.accept_failed, parts.handler.certificate_refused
        )
        self._hosts: dict[Connection, str] = {}
        self._of_host: Counter[str] = Counter()
        self._host_limits = parse_overrides(parts.settings.max_connections_per_ip_overrides)
        self._expected = 0
        self._refused: Counter[CloseReason] = Counter()
        self._refusals_limit = LogLimit(parts.clock, REFUSALS_LOGGED_INTERVAL_MS)
        self._ids = count()
        self._is_closing = False
        self._all_gone = asyncio.Event()

    def expect(self, listener: str, host: str, file_number: int) -> bool:
        """Counts a connection that was accepted. False: it is refused."""
        if (refusal := self._refusal(host, file_number)) is not None:
            self.refuse(listener, refusal)
            return False
        self._parts.counters.accepted += 1
        self._of_host[host] += 1
        self._expected += 1
        return True

    def refuse(self, listener: str, reason: CloseReason) -> None:
        """Counts a connection that is closed at once."""
        self._parts.counters.accepted += 1
        self._refused[reason] += 1
        self._parts.counters.close(listener, reason)

    def ceiling_of(self, listener: Listener, settings: ListenerSettings) -> ListenerCeiling:
        """Returns the ceiling that all sockets of the listener share."""
        if listener.name not in self._ceilings:
            self._ceilings[listener.name] = ListenerCeiling(settings, self._parts.clock)
        return self._ceilings[listener.name]

    def missed(self, listener: str, host: str, reason: CloseReason) -> None:
        """An expected connection ended before it was admitted."""
        self._expected -= 1
        self._parts.counters.close(listener, reason)
        self._leave(host)

    def nobody(self, listener: Listener, host: str, refusal: Exception) -> None:
        """A client has completed its handshake, and its certificate is nobody's."""
        self.accepting.handshakes.failed(listener.name, host, HandshakeFailure.NO_PRINCIPAL, str(refusal))

    def admit(
        self,
        transport: asyncio.Transport,
        listener: Listener,
        host: str,
        principal: Principal = ANONYMOUS,
        channel: bytes = b"",
    ) -> Connection:
        """Makes an expected connection one of the node's."""
        context = ConnectionContext(
            next(self._ids), host, listener, principal=principal, channel=channel,
            client_port=written_port(transport.get_extra_info("peername")), connected_ms=self._parts.clock.now_ms(),
        )  # fmt: skip
        made = TlsConnection if listener.protocol.is_encrypted else Connection
        connection = made(self._parts, context, transport, self._gone)
        if (ceiling := self._ceilings.get(listener.name)) is not None and ceiling.counts_bytes:
            connection.carried = ceiling.carried
        if len(self._parts.unauthenticated) > self._parts.settings.unauthenticated_connections_max:
            next(iter(self._parts.unauthenticated)).turn_away()
        self._expected -= 1
        self._hosts[connection] = host
        transport.set_protocol(connection)
        if self._is_closing:  # it was expected before
            connection.shut_down()
        return connection

    def _refusal(self, host: str, file_number: int) -> CloseReason | None:
        if self._is_closing:
            return CloseReason.SHUTDOWN
        if self._turns_away():
            return CloseReason.STALE
        if leaves_too_few_files(file_number):
            return CloseReason.TOO_FEW_FILES
        if len(self._hosts) + self._expected >= self._parts.settings.max_connections:
            return CloseReason.TOO_MANY
        most_of_host = self._host_limits.get(host, self._parts.settings.max_connections_per_ip)
        if self._of_host[host] >= most_of_host:
            return CloseReason.TOO_MANY_OF_HOST
        return None

    def accept_failed(self) -> None:
        """There was no free file for a connection, which waits in the backlog of its socket. It is tried many times, so
        tries are not counted."""
        self._refused[CloseReason.TOO_FEW_FILES] = max(1, self._refused[CloseReason.TOO_FEW_FILES])

    def _gone(self, connection: Connection) -> None:
        self._leave(self._hosts.pop(connection))
        ceiling = self._ceilings.get(connection.context.listener.name)
        if ceiling is not None:
            ceiling.open_count -= 1
        assert connection.close_reason is not None
        self._parts.counters.close(connection.context.listener.name, connection.close_reason)
        if not self._hosts:
            self._all_gone.set()

    def _leave(self, host: str) -> None:
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]

    # -- once a second -----------------------------------------------------------------------------------

    async def inspect_for_ever(self) -> None:
        while True:
            await self._parts.clock.sleep_ms(INSPECTION_INTERVAL_MS)
            self.inspect()

    def inspect(self) -> None:
        parts = self._parts
        parts.now_ms = parts.clock.monotonic_ms()
        parts.answer_memory.refresh()
        parts.store_line.room_made()
        for connection in list(self._hosts):
            connection.inspect(parts.now_ms)
        self._log_refusals()

    def _log_refusals(self) -> None:
        """Logs one line for all refusals for one reason since the last line about it."""
        for reason, refusals in list(self._refused.items()):
            if not self._refusals_limit.is_due(reason):
                continue
            del self._refused[reason]
            log.warning("refused %d connections: %s; %d are open", refusals, _words(reason), len(self._hosts))

    # -- the end -----------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Refuses new connections; each open one closes when the requests that it has started are answered."""
        self._is_closing = True
        self.late_closings.close_all()
        for connection in list(self._hosts):
            connection.shut_down()

    def end_sessions(self, principals: Container[str]) -> None:
        """Closes the connections in the names of these principals."""
        for connection in list(self._hosts):
            if str(connection.context.principal) in principals:
                connection.end_session()

    def end_sessions_of_nodes(self, is_live: Callable[[NodeLife], bool]) -> None:
        """Closes the connections of nodes whose life has ended."""
        for connection in list(self._hosts):
            node = connection.context.session.node
            if node is not None and not is_live(node):
                connection.end_session()

    def abort(self) -> None:
        for connection in list(self._hosts):
            connection.close(CloseReason.SHUTDOWN, at_once=True)

    async def wait_until_gone(self) -> None:
        while self._hosts:
            self._all_gone.clear()
            await self._all_gone.wait()

    def clients(self) -> list[ClientConnection]:
        """Returns the open connections, the newest ones first, at most CLIENTS_TOLD_MAX."""
        newest = islice(reversed(self._hosts), CLIENTS_TOLD_MAX)
        return [_client_of(connection.context) for connection in newest]

    def statistics(self) -> NetworkStatistics:
        parts, counters = self._parts, self._parts.counters
        return NetworkStatistics(
            connections=len(self._hosts),
            accepted=counters.accepted,
            requests=counters.requests,
            requests_in_flight=sum(connection.unanswered_count for connection in self._hosts),
            request_bytes_in_flight=parts.request_memory.bytes_used,
            unread_answer_bytes=parts.answer_memory.bytes_used,
            bytes_in=counters.bytes_in,
            bytes_out=counters.bytes_out,
            waiting_for_memory=len(parts.request_memory.line),
            waiting_for_store=len(parts.store_line),
            waiting_for_readers=len(parts.answer_memory.line),
            closed=dict(counters.closed),
            of_listener=dict(Counter(each.context.listener.name for each in self._hosts)),
            refused=dict(counters.refused),
            handshakes=self.accepting.statistics(),
        )


def _client_of(context: ConnectionContext) -> ClientConnection:
    return ClientConnection(
        client_id=context.client_id[:TEXT_CHARACTERS_MAX],
        software=context.client_software_name[:TEXT_CHARACTERS_MAX],
        software_version=context.client_software_version[:TEXT_CHARACTERS_MAX],
        host=context.client_host,
        port=context.client_port,
        listener=context.listener.name,
        principal=str(context.principal)[:TEXT_CHARACTERS_MAX],
        connected_ms=context.connected_ms,
    )


def _words(reason: CloseReason) -> str:
    if reason is not CloseReason.TOO_FEW_FILES:
        return reason
    return (
        f"{reason}: this process may have {open_files_max()} files open, and it keeps the rest for the log and the "
        "objects; raise the limit (ulimit -n, LimitNOFILE)"
    )
