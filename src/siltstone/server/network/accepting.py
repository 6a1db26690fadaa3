"""Accepts connections on listening sockets, completes the handshake of those with TLS, and hands them over.

    accepted ──expects──▶ arrival ──(TLS: handshake)──▶ a transport, with the protocol of its entrance
        └ refused: closed at once     └ failed, too late, or the oldest of too many: closed, and counted

An *entrance* says where the connections of a listener go, and counts them before the handshake: peers that never
complete it count against the limits, too. The servers of event loops are not used. They count a connection when its
handshake is complete, and they cannot pause: while there is no free file asyncio's logs a thousand lines a second, and
uvloop's takes a whole processor.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from siltstone.model.limits import SECOND_MS
from siltstone.model.serving_limits import HANDSHAKES_MAX
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.network.addresses import written_host
from siltstone.server.network.handshakes import (
    CertificateRefused,
    Handshakes,
    HandshakeStatistics,
    failure_of,
)
from siltstone.server.network.tls import ServerTls

BACKLOG = 1024
"""Connections that the kernel accepts before the event loop does: all clients of a restarted node connect at once."""

ACCEPTED_PER_TURN_MAX = 100
ENCRYPTED_PER_TURN_MAX = 20
"""The most connections that one socket accepts in one turn of the event loop, about 10 ms; the others follow in the
next turn. A handshake costs half a millisecond."""

ACCEPT_AGAIN_MS = 1_000
"""When accepting fails because there is no free file, the socket stays readable: it is left alone for so long."""

SHUTDOWN_SECONDS_MAX = 2.0
"""How long a closed connection waits for the peer's end of TLS, which many peers never send. Event loops wait for 30 s
by default, longer than a node may take to end."""

log = logging.getLogger(__name__)


class Entrance(Protocol):
    """Where the connections of one listener go."""

    @property
    def name(self) -> str: ...

    @property
    def tls(self) -> ServerTls | None:
        """What a new connection gets; None: the listener does not encrypt."""
        ...

    @property
    def handshake_ms_max(self) -> float: ...

    def rest_ms(self) -> float:
        """Returns for how long the listener accepts nothing; 0: it accepts."""
        ...

    def expects(self, host: str, accepted: socket.socket) -> bool:
        """Counts a connection that was accepted. False: it is refused."""
        ...

    def protocol(self, arrival: "Arrival") -> asyncio.BaseProtocol:
        """Makes the protocol of a transport. Its ``connection_made`` notes that the arrival ``is_made``, and counts the
        connection from then on."""
        ...

    def missed(self, host: str) -> None:
        """An expected connection ended before it was made."""
        ...


class Arrival(msgspec.Struct, eq=False):
    """A connection between its acceptance and its protocol."""

    accepted: socket.socket
    host: str
    entrance: Entrance
    began_ms: float
    is_made: bool = False
    task: asyncio.Task[None] | None = None


class Accepting:
    """The listening sockets of one event loop. ``on_no_file`` is called when a connection cannot be accepted,
    ``on_refused`` when a certificate is refused."""

    def __init__(
        self,
        clock: Clock,
        tasks: TaskGroup,
        on_no_file: Callable[[], None] = lambda: None,
        on_refused: CertificateRefused = lambda *_: None,
    ) -> None:
        self._clock = clock
        self._tasks = tasks
        self._on_no_file = on_no_file
        self._sockets: list[socket.socket] = []
        self._handshaking: dict[Arrival, None] = {}
        self.handshakes = Handshakes(clock, on_refused)
        self.arriving: dict[Arrival, None] = {}

    def listen(self, bound: socket.socket, entrance: Entrance, backlog: int = BACKLOG) -> None:
        """Accepts connections on a bound socket, which this object closes from now on."""
        bound.listen(backlog)
        self._sockets.append(bound)
        self._watch(bound, entrance)

    def _watch(self, bound: socket.socket, entrance: Entrance) -> None:
        if bound.fileno() >= 0:  # it was not closed meanwhile
            asyncio.get_running_loop().add_reader(bound, self.accept, bound, entrance)

    def accept(self, bound: socket.socket, entrance: Entrance) -> None:
        """Accepts the connections that wait."""
        for _ in range(ACCEPTED_PER_TURN_MAX if entrance.tls is None else ENCRYPTED_PER_TURN_MAX):
            if (rest_ms := entrance.rest_ms()) > 0:
                self._rest(bound, entrance, rest_ms)
                return
            try:
                accepted, peer = bound.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as trouble:
                log.debug("accepting a connection failed: %s", trouble)
                self._on_no_file()
                self._rest(bound, entrance, ACCEPT_AGAIN_MS)
                return
            self._arrive(accepted, written_host(peer), entrance)

    def _rest(self, bound: socket.socket, entrance: Entrance, rest_ms: float) -> None:
        asyncio.get_running_loop().remove_reader(bound)
        self._clock.call_after_ms(rest_ms, partial(self._watch, bound, entrance))

    def _arrive(self, accepted: socket.socket, host: str, entrance: Entrance) -> None:
        if not entrance.expects(host, accepted):
            accepted.close()
            return
        arrival = Arrival(accepted, host, entrance, self._clock.monotonic_ms())
        self.arriving[arrival] = None
        if entrance.tls is not None:
            self._make_room()
            self._handshaking[arrival] = None
        arrival.task = self._tasks.start("accept", self._connect(arrival))
        arrival.task.add_done_callback(lambda _: self._end(arrival))  # if it is cancelled before it begins

    def _make_room(self) -> None:
        """Ends the oldest handshake when there are too many: peers that send nothing keep nobody out."""
        if len(self._handshaking) < HANDSHAKES_MAX:
            return
        oldest = next(iter(self._handshaking))
        del self._handshaking[oldest]
        self.handshakes.crowded(oldest.entrance.name, oldest.host)
        assert oldest.task is not None
        oldest.task.cancel()

    async def _connect(self, arrival: Arrival) -> None:
        entrance, tls = arrival.entrance, arrival.entrance.tls
        loop = asyncio.get_running_loop()
        protocol = partial(entrance.protocol, arrival)
        arrival.accepted.setblocking(False)
        try:
            if tls is None:
                await loop.connect_accepted_socket(protocol, arrival.accepted)
                return
            await loop.connect_accepted_socket(
                protocol,
                arrival.accepted,
                ssl=tls.context,
                ssl_handshake_timeout=entrance.handshake_ms_max / SECOND_MS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS_MAX,
            )
        except OSError as trouble:
            if tls is None:  # it broke already
                log.debug("an accepted connection failed: %s", trouble)
                return
            self.handshakes.failed(entrance.name, arrival.host, *failure_of(trouble))
        else:
            self.handshakes.succeeded(self._clock.monotonic_ms() - arrival.began_ms)
        finally:
            self._end(arrival)

    def _end(self, arrival: Arrival) -> None:
        """The arrival is a connection now, or its socket is closed. May be called more than once."""
        self._handshaking.pop(arrival, None)
        if arrival not in self.arriving:
            return
        del self.arriving[arrival]
        if not arrival.is_made:
            arrival.accepted.close()
            arrival.entrance.missed(arrival.host)

    def close_sockets(self) -> None:
        """Accepts nothing more."""
        for bound in self._sockets:
            if bound.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(bound)
            bound.close()
        self._sockets.clear()

    def abandon_arrivals(self) -> None:
        """Closes what was accepted and is no connection yet; their tasks have been cancelled."""
        for arrival in tuple(self.arriving):
            self._end(arrival)

    def statistics(self) -> HandshakeStatistics:
        return self.handshakes.statistics(len(self._handshaking))
