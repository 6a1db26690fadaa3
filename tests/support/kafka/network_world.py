"""Connections without sockets: a transport that a test fills and reads, and a handler whose answers the test sets."""

import asyncio
from collections.abc import Callable
from struct import pack
from typing import Any

from siltstone.broker.request import ConnectionContext, Listener
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.network.addresses import written_host
from siltstone.server.network.connection import Connection
from siltstone.server.network.connections import Connections
from siltstone.server.network.frame_reader import RECEIVE_BUFFER_BYTES
from siltstone.server.network.parts import NetworkParts
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.network.statistics import CloseReason

KIB, MIB = 1024, 1024 * 1024
SECOND_MS, MINUTE_MS = 1_000, 60_000
LISTENER = Listener("PLAINTEXT", "broker.example", 9092)


def framed(*bodies: bytes) -> bytes:
    return b"".join(pack(">i", len(body)) + body for body in bodies)


def echo(_: ConnectionContext, frame: memoryview) -> list[Any]:
    return [pack(">i", len(frame)), frame]


async def turns(count: int = 6) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Handler:
    """``begun``: bodies in the order in which they were begun. ``pending``: Futures given out by ``in_future``."""

    def __init__(self, handle: Callable[..., Any] = echo) -> None:
        self.wants_pause = False
        self.waits_ended = 0
        self.begun: list[bytes] = []
        self.closed: list[ConnectionContext] = []
        self.refused_certificates: list[tuple[str, str, str]] = []
        self.pending: list[asyncio.Future[Any]] = []
        self._handle = handle

    def handle(self, connection: ConnectionContext, frame: memoryview) -> Any:
        self.begun.append(bytes(frame))
        return self._handle(connection, frame)

    def end_waits(self) -> None:
        self.waits_ended += 1

    def connection_closed(self, connection: ConnectionContext) -> None:
        self.closed.append(connection)

    def certificate_refused(self, listener: str, host: str, reason: str) -> None:
        self.refused_certificates.append((listener, host, reason))

    def in_future(self, _: ConnectionContext, frame: memoryview) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.body = bytes(frame)  # type: ignore[attr-defined]
        self.pending.append(future)
        return future

    def answer(self, *positions: int) -> None:
        for position in positions:
            self.pending[position].set_result([framed(self.pending[position].body)])


def handler_of_futures() -> Handler:
    handler = Handler()
    handler._handle = handler.in_future
    return handler


class FakeTransport:
    """``waiting``: what the peer has sent and nobody has read. ``unread``: what the peer has been sent and not read.
    ``file_number``: of its socket."""

    def __init__(self, host: str = "10.0.0.1", file_number: int = 3) -> None:
        self.host = host
        self.file_number = file_number
        self.protocol: Connection | None = None
        self.is_reading = True
        self.writes: list[bytes] = []
        self.waiting = b""
        self.unread = 0
        self.takes_answers = True
        self.high = 64 * 1024
        self.is_closing = self.is_aborted = self.is_gone = False
        self.largest_read = 1 << 30

    # -- as the connection sees it

    def get_extra_info(self, name: str) -> object:
        return {"peername": (self.host, 50_000), "socket": self}[name]

    def fileno(self) -> int:
        return self.file_number

    def set_protocol(self, protocol: Connection) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def writelines(self, buffers: list[Any]) -> None:
        assert not self.is_closing, "written after it was closed"
        joined = b"".join(buffers)
        self.writes.append(joined)
        if not self.takes_answers:
            was_over, self.unread = self.unread > self.high, self.unread + len(joined)
            if self.unread > self.high and not was_over:
                self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def close(self) -> None:
        if not self.is_closing:
            self.is_closing, self.is_reading = True, False
            if not self.unread:
                self._lose_soon(None)

    def abort(self) -> None:
        self.is_aborted = self.is_closing = True
        self.is_reading = False
        self._lose_soon(None)

    # -- as the peer and the event loop do

    def feed(self, data: bytes) -> None:
        """Sent by the peer, and read as far as the connection reads."""
        self.waiting += data
        self.deliver()

    def deliver(self) -> None:
        while self.waiting and self.is_reading:
            self.read_once()

    def read_once(self) -> None:
        """Reads once, as the event loop does in one turn."""
        if self.waiting and self.is_reading:
            room = self.protocol.get_buffer(65_536)
            count = min(len(room), len(self.waiting), self.largest_read)
            assert count > 0
            room[:count] = self.waiting[:count]
            self.waiting = self.waiting[count:]
            self.protocol.buffer_updated(count)

    def take_answers(self, count: int | None = None) -> None:
        """The peer reads so many bytes, or all."""
        was_over = self.unread > self.high
        self.unread -= self.unread if count is None else count
        if was_over and self.unread <= self.high // 4:
            self.protocol.resume_writing()

    def lose(self, failure: Exception | None = None) -> None:
        """The peer is gone."""
        self.is_closing, self.is_reading = True, False
        self._lost(failure)

    def _lose_soon(self, failure: Exception | None) -> None:
        asyncio.get_running_loop().call_soon(self._lost, failure)

    def _lost(self, failure: Exception | None) -> None:
        if not self.is_gone:
            self.is_gone = True
            if self.protocol is not None:
                self.protocol.connection_lost(failure)


def admit(connections: Connections, transport: FakeTransport, listener: Listener = LISTENER) -> None:
    """As when it is accepted: closed at once if it is refused."""
    host = written_host(transport.get_extra_info("peername"))
    if connections.expect(listener.name, host, transport.fileno()):
        connections.admit(transport, listener, host)
    else:
        transport.close()


class NetworkWorld:
    """Inside a running event loop."""

    def __init__(self, handler: Handler | None = None, **settings: Any) -> None:
        self.handler = handler or Handler()
        self.clock = ManualClock()
        self.failures: list[BaseException] = []
        self.tasks = TaskGroup("network", self.failures.append)
        self.parts = NetworkParts(self.handler, NetworkSettings(**settings), self.clock, self.tasks)
        self.connections = Connections(self.parts)

    def connect(self, host: str = "10.0.0.1", file_number: int = 3) -> FakeTransport:
        transport = FakeTransport(host, file_number)
        admit(self.connections, transport)
        return transport

    def pass_ms(self, duration_ms: float) -> None:
        """And look at all connections then, as once a second."""
        self.clock.advance_ms(duration_ms)
        self.connections.inspect()

    def statistics(self) -> Any:
        return self.connections.statistics()


def large_world(**settings: int) -> NetworkWorld:
    """Four receive buffers' worth of requests for all."""
    limit = 4 * RECEIVE_BUFFER_BYTES
    return NetworkWorld(
        handler_of_futures(), queued_max_request_bytes=limit, socket_request_max_bytes=limit, **settings
    )


def closed(world: NetworkWorld) -> dict[CloseReason, int]:
    return world.statistics().closed
