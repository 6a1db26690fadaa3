"""Real sockets, on both event loops."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from struct import unpack
from typing import Any

import pytest

from siltstone.broker.request import CloseConnection, ConnectionContext
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.server import python_process as event_loop
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.network.certificates import Certificates
from siltstone.server.network.listener_settings import ListenerSettings
from siltstone.server.network.listeners import Listeners
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.network.sockets import CannotListen
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import Handler, framed, handler_of_futures
from support.tls.authority import Authority

KIB, MIB = 1024, 1024 * 1024
Run = Callable[[Coroutine[Any, Any, Any]], Any]


LOOPS = {"asyncio": asyncio.run, "uvloop": event_loop.run}


@pytest.fixture(params=[*LOOPS, "asyncio-tl12", "uvloop-tl12"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    """TL12: each test of a connection runs without TLS and with it."""
    loop, _, tls = request.param.partition("-")
    if tls:
        monkeypatch.setattr(Server, "authority", request.getfixturevalue("authority"))
    return LOOPS[loop]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("broker")
    return made


@pytest.fixture(params=LOOPS)
def run_plain(request: pytest.FixtureRequest) -> Run:
    """For tests of listening sockets alone."""
    return LOOPS[request.param]


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> bytes:
        (size,) = unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def answers(self, count: int) -> list[bytes]:
        return [await self.answer() for _ in range(count)]

    async def end(self) -> bytes:
        """What still comes until the other side closes."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        self.writer.close()


class Server:
    """``async with``: listening, and at the end closed with everything in it. ``authority``: of whom it has a
    certificate; None: it does not encrypt."""

    authority: Authority | None = None

    def __init__(self, handler: Handler | None = None, address: str = "127.0.0.1:0", **settings: int) -> None:
        self.handler = handler or Handler()
        self.clock = ManualClock()
        self.failures: list[BaseException] = []
        tls = ListenerSettings()
        if self.authority is not None:
            folder = self.authority.folder
            tls = ListenerSettings(
                tls_certificate_file=str(folder / "broker.pem"), tls_key_file=str(folder / "broker-key.pem")
            )
            address = f"SSL://{address}"
        self.listeners = Listeners(
            parse_addresses([address]),
            self.handler,
            NetworkSettings(**settings),
            self.clock,
            self.failures.append,
            settings_of={"SSL": tls},
            certificates=Certificates({"SSL": tls}, SystemClock()) if self.authority else None,
        )
        self.clients: list[Client] = []

    async def __aenter__(self) -> "Server":
        await self.listeners.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.listeners.close(0)
        for client in self.clients:
            client.close()
        assert self.failures == []

    @property
    def port(self) -> int:
        return self.listeners.listeners[0].advertised_port

    async def connect(self, host: str = "127.0.0.1", **options: Any) -> Client:
        if self.authority is not None:
            options |= {"ssl": self.authority.client_context(), "server_hostname": "localhost"}
        client = Client(*await asyncio.open_connection(host, self.port, **options))
        self.clients.append(client)
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        """A few turns of the loop, with the kernel in between."""
        for _ in range(100_000):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("it did not come to pass")

    def count(self, reason: CloseReason) -> int:
        return self.listeners.statistics().closed.get(reason, 0)


def test_frames_of_every_size_come_back(run: Run) -> None:
    async def scenario() -> None:
        async with Server() as server:
            client = await server.connect()
            bodies = [os.urandom(size) for size in (0, 1, 1_000, 70_000, 3 * MIB, 5)]
            client.send(framed(*bodies))
            assert await client.answers(len(bodies)) == bodies

    run(scenario())


def test_byte_by_byte(run: Run) -> None:
    async def scenario() -> None:
        async with Server() as server:
            client = await server.connect()
            for byte in framed(b"slow", b"", b"ly"):
                client.send(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0)
            assert await client.answers(3) == [b"slow", b"", b"ly"]

    run(scenario())


def test_thousands_of_requests_in_one_segment(run: Run) -> None:
    async def scenario() -> None:
        async with Server() as server:
            client = await server.connect()
            bodies = [b"%d" % number for number in range(20_000)]
            client.send(framed(*bodies))
            assert await client.answers(len(bodies)) == bodies
            assert server.listeners.statistics().requests == 20_000
            assert server.listeners.statistics().request_bytes_in_flight == 0

    run(scenario())


def test_many_connections_at_a_time(run: Run) -> None:
    async def scenario() -> None:
        async with Server() as server:
            clients = [await server.connect() for _ in range(300)]
            for number, client in enumerate(clients):
                client.send(framed(b"%d" % number) * 3)
            for number, client in enumerate(clients):
                assert await client.answers(3) == [b"%d" % number] * 3
            assert server.listeners.statistics().connections == 300

    run(scenario())


def test_a_connection_that_arrives_while_the_listeners_close_is_closed(run_plain: Run) -> None:
    """It is accepted, and its task is cancelled before it begins."""

    async def body() -> None:
        async with Server() as server:
            listeners = server.listeners
            ((listener, bound),) = listeners._bound
            with socket.create_connection(bound.getsockname()[:2], 5) as client:
                listeners._accepting.accept(bound, listeners._entrance(listener))
                (arrival,) = listeners._accepting.arriving
                await listeners.close()
                assert arrival.accepted.fileno() == -1 and not listeners._accepting.arriving
                client.settimeout(5)
                with suppress(ConnectionError):
                    assert client.recv(1) == b""

    run_plain(body())


def test_one_too_many_is_closed_and_the_others_go_on(run: Run) -> None:
    async def scenario() -> None:
        async with Server(max_connections=2) as server:
            first, second = await server.connect(), await server.connect()
            for client in (first, second):
                client.send(framed(b"in"))
                assert await client.answer() == b"in"
            with suppress(ConnectionError):  # the handshake of TLS is not begun
                third = await server.connect()
                assert await third.end() == b""
            first.send(framed(b"still"))
            assert await first.answer() == b"still"
            assert server.count(CloseReason.TOO_MANY) == 1

    run(scenario())


def test_ab07_a_reader_that_stops_is_noticed_and_closed(run: Run) -> None:
    """The kernel takes some MiB before anything is left with us."""

    async def scenario() -> None:
        async with Server(Handler(lambda *_: [bytes(4 * MIB)])) as server:
            slow = await server.connect(limit=KIB)
            slow.send(framed(*[b"fetch"] * 20))
            await server.until(lambda: server.listeners.statistics().unread_answer_bytes > 0)
            begun = len(server.handler.begun)
            slow.send(framed(b"more"))
            quick = await server.connect()
            quick.send(framed(b"fetch"))
            assert await quick.reader.readexactly(4 * MIB) == bytes(4 * MIB)
            assert len(server.handler.begun) == begun + 1, "nothing more was begun for the slow one"
            for _ in range(121):
                await asyncio.sleep(0)
                server.clock.advance_ms(1_000)
            await server.until(lambda: server.count(CloseReason.SLOW_READER) == 1)
            assert server.listeners.statistics().unread_answer_bytes == 0

    run(scenario())


def test_a_slow_reader_gets_everything_in_the_end(run: Run) -> None:
    async def scenario() -> None:
        async with Server(Handler(lambda _, frame: [bytes(frame) * MIB])) as server:
            slow = await server.connect(limit=KIB)
            slow.send(framed(*[b"%d" % (number % 10) for number in range(30)]))
            await server.until(lambda: server.listeners.statistics().unread_answer_bytes > 0)
            for number in range(30):
                assert await slow.reader.readexactly(MIB) == (b"%d" % (number % 10)) * MIB

    run(scenario())


def test_ab05_a_silent_peer_and_a_trickler_are_closed(run: Run) -> None:
    async def scenario() -> None:
        async with Server() as server:
            await server.connect()
            trickler = await server.connect()
            trickler.send(framed(bytes(MIB))[:10])
            await server.until(lambda: server.listeners.statistics().bytes_in == 10)
            for _ in range(600):
                await asyncio.sleep(0)
                server.clock.advance_ms(1_000)
            await server.until(lambda: server.listeners.statistics().connections == 0)
            assert server.count(CloseReason.IDLE) == server.count(CloseReason.SLOW_REQUEST) == 1

    run(scenario())


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x7f\xff\xff\xff", b"\x16\x03\x01\x00"])
def test_what_is_no_frame_is_closed(run: Run, data: bytes) -> None:
    async def scenario() -> None:
        async with Server() as server:
            client = await server.connect()
            client.send(data)
            assert await client.end() == b""
            await server.until(lambda: server.count(CloseReason.MALFORMED) == 1)

    run(scenario())


def test_a_dropped_connection_cancels_its_coroutine_and_not_its_future(run: Run) -> None:
    async def scenario() -> None:
        cancelled: list[bool] = []

        async def long_poll() -> list[bytes]:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cancelled.append(True)
                raise
            raise AssertionError

        handler = handler_of_futures()
        in_future = handler._handle
        handler._handle = lambda context, frame: (
            long_poll() if frame == b"poll" else in_future(context, frame)
        )
        async with Server(handler) as server:
            client = await server.connect()
            client.send(framed(b"produce", b"poll"))
            await server.until(lambda: len(handler.begun) == 2)
            client.writer.transport.abort()
            await server.until(lambda: bool(cancelled))
            assert not handler.pending[0].cancelled()
            handler.answer(0)
            await server.until(lambda: len(handler.closed) == 1)
            assert server.listeners.statistics().request_bytes_in_flight == 0

    run(scenario())


def test_an_exception_closes_one_connection_with_a_traceback(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        def handle(_: ConnectionContext, frame: memoryview) -> Any:
            if frame == b"bug":
                raise KeyError("surprise")
            if frame == b"close":
                raise CloseConnection("not supported")
            return [framed(bytes(frame))]

        async with Server(Handler(handle)) as server:
            bug, close, fine = [await server.connect() for _ in range(3)]
            bug.send(framed(b"first", b"bug"))
            close.send(framed(b"first", b"close"))
            assert await bug.end() == await close.end() == framed(b"first")
            fine.send(framed(b"fine"))
            assert await fine.answer() == b"fine"

    with caplog.at_level(logging.INFO, logger="siltstone.server.network.connection"):
        run(scenario())
    levels = {record.levelname: record for record in caplog.records}
    assert levels["ERROR"].exc_info is not None
    assert "refused: not supported" in levels["INFO"].getMessage()


# -- opening and closing


def test_several_listeners_and_what_they_advertise(run_plain: Run) -> None:
    async def scenario() -> None:
        contexts: list[ConnectionContext] = []
        handler = Handler(lambda context, _: contexts.append(context) or [b"."])
        addresses = parse_addresses(
            ["IN://127.0.0.1:0", "OUT://127.0.0.1:0", "FIXED://127.0.0.1:0"],
            ["OUT://kafka.example:0", "FIXED://10.1.1.1:7"],
            "IN:PLAINTEXT,OUT:PLAINTEXT,FIXED:PLAINTEXT",
        )
        listeners = Listeners(addresses, handler, NetworkSettings(), ManualClock())
        await listeners.bind()
        inside, outside, fixed = listeners.listeners
        assert (outside.advertised_host, fixed.advertised_host, fixed.advertised_port) == (
            "kafka.example",
            "10.1.1.1",
            7,
        )
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await asyncio.open_connection("127.0.0.1", inside.advertised_port)
        await listeners.start()
        for listener in (inside, outside):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.advertised_port)
            writer.write(framed(b"x"))
            await reader.readexactly(1)
            writer.close()
        assert [context.listener for context in contexts] == [inside, outside]
        assert [context.client_host for context in contexts] == ["127.0.0.1"] * 2
        await listeners.close()

    run_plain(scenario())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_ipv6(run_plain: Run) -> None:
    async def scenario() -> None:
        hosts: list[str] = []
        handler = Handler(lambda context, _: hosts.append(context.client_host) or [b"."])
        async with Server(handler, address="[::1]:0") as server:
            client = await server.connect("::1")
            client.send(framed(b"x"))
            await client.reader.readexactly(1)
        listeners = Listeners(
            parse_addresses([":0"], ["h.example:0"]), handler, NetworkSettings(), ManualClock()
        )
        await listeners.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", listeners.listeners[0].advertised_port)
        writer.write(framed(b"x"))
        await reader.readexactly(1)
        writer.close()
        await listeners.close()
        assert hosts == ["::1", "127.0.0.1"]

    run_plain(scenario())


def test_starting_allows_as_many_files_as_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[int] = []
    monkeypatch.setattr("siltstone.server.network.listeners.allow_connections", allowed.append)

    async def scenario() -> None:
        async with Server(max_connections=77):
            pass

    asyncio.run(scenario())
    assert allowed == [77]


def test_a_port_that_is_taken_leaves_nothing_open(run_plain: Run) -> None:
    async def scenario() -> None:
        async with Server() as server:
            taken = server.port
            addresses = parse_addresses(
                ["FREE://127.0.0.1:0", f"TAKEN://127.0.0.1:{taken}"], (), "FREE:PLAINTEXT,TAKEN:PLAINTEXT"
            )
            listeners = Listeners(addresses, Handler(), NetworkSettings(), ManualClock())
            with pytest.raises(
                CannotListen, match=f"TAKEN://127.0.0.1:{taken} cannot be opened: another process"
            ):
                await listeners.start()
            assert listeners._bound == []
            await listeners.close()

    run_plain(scenario())


def test_closing_answers_what_was_begun(run: Run) -> None:
    async def scenario() -> None:
        async with Server(handler_of_futures()) as server:
            busy, idle = await server.connect(), await server.connect()
            busy.send(framed(b"1", b"2"))
            await server.until(lambda: len(server.handler.begun) == 2)
            closing = asyncio.ensure_future(server.listeners.close())
            assert await idle.end() == b""
            assert server.handler.waits_ended == 1
            with pytest.raises(OSError, match=r"refused|Connect call failed"):
                await server.connect()
            server.handler.answer(1, 0)
            assert await busy.end() == framed(b"1", b"2")
            await closing
            assert server.listeners.statistics().connections == 0
            assert len(server.handler.closed) == 2
            assert not any("network" in task.get_name() for task in asyncio.all_tasks())

    run(scenario())


def test_closing_waits_no_longer_than_its_time_limit(run: Run) -> None:
    async def scenario() -> None:
        async def for_ever() -> None:
            await asyncio.get_running_loop().create_future()

        async with Server(Handler(lambda *_: for_ever())) as server:
            client = await server.connect()
            client.send(framed(b"1"))
            await server.until(lambda: len(server.handler.begun) == 1)
            closing = asyncio.ensure_future(server.listeners.close(5_000))
            for _ in range(50):
                await asyncio.sleep(0)
            server.clock.advance_ms(4_999)
            for _ in range(50):
                await asyncio.sleep(0)
            assert not closing.done()
            server.clock.advance_ms(1)
            await closing
            assert await client.end() == b""
            await server.listeners.close()

    run(scenario())


def test_who_does_not_want_to_wait_cancels_the_close(run: Run) -> None:
    async def scenario() -> None:
        async with Server(handler_of_futures()) as server:
            client = await server.connect()
            client.send(framed(b"1"))
            await server.until(lambda: len(server.handler.begun) == 1)
            closing = asyncio.ensure_future(server.listeners.close())
            for _ in range(50):
                await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert await client.end() == b""
            assert server.count(CloseReason.SHUTDOWN) == 1

    run(scenario())
