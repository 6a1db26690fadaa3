"""Real sockets with TLS, on both event loops: what a plain listener does, and what TLS adds."""

import ast
import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import NameOID

from siltstone.broker.request import ConnectionContext
from siltstone.server import python_process as event_loop
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import Handler, framed, handler_of_futures
from support.tls.authority import Authority, Pair
from support.tls.tls_server import TlsServer, answer

KIB, MIB = 1024, 1024 * 1024
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.run, event_loop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Pair:
    return authority.issue("broker")


def test_tl11_frames_of_every_size_come_back(run: Run, authority: Authority, broker: Pair) -> None:
    async def scenario() -> None:
        async with TlsServer(broker) as server:
            reader, writer = await server.connect(authority.client_context())
            bodies = [os.urandom(size) for size in (0, 1, 1_000, 70_000, 3 * MIB, 5, MIB, MIB, MIB)]
            writer.write(framed(*bodies))
            assert [await answer(reader) for _ in bodies] == bodies

    run(scenario())


def test_tl11_byte_by_byte(run: Run, authority: Authority, broker: Pair) -> None:
    async def scenario() -> None:
        async with TlsServer(broker) as server:
            reader, writer = await server.connect(authority.client_context())
            for byte in framed(b"slow", b"", b"ly"):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert [await answer(reader) for _ in range(3)] == [b"slow", b"", b"ly"]

    run(scenario())


def test_tl11_thousands_of_requests_in_one_write(run: Run, authority: Authority, broker: Pair) -> None:
    async def scenario() -> None:
        async with TlsServer(broker) as server:
            reader, writer = await server.connect(authority.client_context())
            bodies = [b"%d" % number for number in range(20_000)]
            writer.write(framed(*bodies))
            assert [await answer(reader) for _ in bodies] == bodies
            assert server.listeners.statistics().request_bytes_in_flight == 0

    run(scenario())


def test_tl14_everything_counts_that_was_sent_before_the_client_closed(
    run: Run, authority: Authority, broker: Pair
) -> None:
    """A producer with acks=0 reads nothing, and closes after its last byte. Large requests and small ones, and so many
    that they do not all wait at a time."""

    def flood(port: int, context: ssl.SSLContext, body: bytes, count: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as plain:
            client = context.wrap_socket(plain, server_hostname="localhost")
            client.sendall(framed(*[body] * count))
            client.close()

    async def scenario() -> None:
        async with TlsServer(broker, Handler(lambda *_: None)) as server:
            context, sent = authority.client_context(), 0
            for body, count in (
                (bytes(MIB), 6),
                (bytes(100), 5_000),
                (bytes(70_000), 20),
                (bytes(3), 50_000),
            ):
                await asyncio.gather(
                    *(asyncio.to_thread(flood, server.port, context, body, count) for _ in range(2))
                )
                sent += 2 * count
                await server.until(lambda: server.listeners.statistics().connections == 0)
                assert len(server.handler.begun) == sent
            assert server.listeners.statistics().closed == {CloseReason.PEER: 8}

    run(scenario())


def test_tl12_each_test_of_connections_without_tls_runs_with_it_too() -> None:
    """Its fixture ``run`` is for both loops, without and with TLS; ``run_plain`` is for how sockets are bound."""
    tree = ast.parse(Path(__file__).with_name("test_listeners.py").read_text())
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    (fixture,) = (each for each in functions if each.name == "run")
    assert "params=[*LOOPS, 'asyncio-tl12', 'uvloop-tl12']" in ast.unparse(fixture.decorator_list[0])
    connecting = [each for each in functions if "server.connect(" in ast.unparse(each)]
    without = [each.name for each in connecting if "run" not in {argument.arg for argument in each.args.args}]
    assert without == ["test_ipv6"]
    assert len(connecting) >= 12


END_SECONDS_MAX = 1.0
"""A peer that sees no end waits for its request's time limit, half a minute, and blames the network."""


def test_tl13_a_handler_that_raises_ends_its_connection_at_once(
    run: Run, authority: Authority, broker: Pair
) -> None:
    async def scenario() -> None:
        def handle(_: ConnectionContext, frame: memoryview) -> Any:
            if frame == b"bug":
                raise KeyError("surprise")
            return [framed(bytes(frame))]

        async with TlsServer(broker, Handler(handle)) as server:
            reader, writer = await server.connect(authority.client_context())
            begun = time.monotonic()
            writer.write(framed(b"first", b"bug"))
            assert await asyncio.wait_for(reader.read(), 60) == framed(b"first")
            assert time.monotonic() - begun <= END_SECONDS_MAX
            await server.until(lambda: server.listeners.statistics().closed == {CloseReason.FAILURE: 1})

    run(scenario())


def test_tl13_what_a_client_leaves_unread_is_counted_and_bounded(
    run: Run, authority: Authority, broker: Pair
) -> None:
    """Event loops encrypt an answer at once, whatever its size, and count it as sent."""

    async def scenario() -> None:
        async with TlsServer(broker, Handler(lambda *_: [bytes(20 * MIB)])) as server:
            _, slow = await server.connect(authority.client_context(), limit=KIB)
            slow.write(framed(*[b"fetch"] * 20))
            await server.until(lambda: server.listeners.statistics().unread_answer_bytes > 10 * MIB)
            begun = len(server.handler.begun)
            slow.write(framed(b"more"))
            quick_reader, quick = await server.connect(authority.client_context())
            quick.write(framed(b"fetch"))
            assert await quick_reader.readexactly(20 * MIB) == bytes(20 * MIB)
            assert len(server.handler.begun) == begun + 1, "nothing more was begun for the slow one"
            for _ in range(121):
                await asyncio.sleep(0)
                server.clock.advance_ms(1_000)
            await server.until(lambda: server.listeners.statistics().closed.get(CloseReason.SLOW_READER) == 1)
            assert server.listeners.statistics().unread_answer_bytes == 0

    run(scenario())


def test_tl13_a_slow_reader_gets_everything_also_when_the_node_closes(
    run: Run, authority: Authority, broker: Pair
) -> None:
    async def scenario() -> None:
        handler = handler_of_futures()
        async with TlsServer(broker, handler) as server:
            slow_reader, slow = await server.connect(authority.client_context(), limit=KIB)
            slow.write(framed(b"1"))
            await server.until(lambda: len(handler.pending) == 1)
            closing = asyncio.ensure_future(server.listeners.close(600_000))
            handler.pending[0].set_result([bytes(30 * MIB)])
            await server.until(lambda: server.listeners.statistics().unread_answer_bytes > 10 * MIB)
            assert await slow_reader.readexactly(30 * MIB) == bytes(30 * MIB)
            assert await slow_reader.read() == b""
            await closing

    run(scenario())


# -- the files change


def test_tl05_new_files_are_for_new_connections(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = Authority(tmp_path / "a")
    after = Authority(tmp_path / "b", "Authority B")
    pair = before.issue("broker")

    async def scenario() -> None:
        async with TlsServer(pair) as server:
            old_reader, old = await server.connect(before.client_context())
            new = after.issue("broker", [(NameOID.COMMON_NAME, "another")])
            new.key.replace(pair.key)
            new.certificate.replace(pair.certificate)
            await server.certificates.reload()
            with pytest.raises(ssl.SSLCertVerificationError):
                await server.connect(before.client_context())
            reader, writer = await server.connect(after.client_context())
            for each, to in ((old_reader, old), (reader, writer)):
                to.write(framed(b"goes on"))
                assert await answer(each) == b"goes on"
            assert server.certificates.statistics().reloads == 1

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "new certificate of listener SSL is of another name: CN=another" in caplog.text


def test_tl06_files_that_do_not_fit_change_nothing(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("broker")

    async def scenario() -> None:
        async with TlsServer(pair) as server:
            good = pair.key.read_bytes()
            authority.issue("other").key.replace(pair.key)
            for _ in range(3):
                await server.certificates.reload()
            reader, writer = await server.connect(authority.client_context())
            writer.write(framed(b"x"))
            assert await answer(reader) == b"x"
            assert server.certificates.statistics().reload_failures == 1
            pair.key.write_bytes(good)
            await server.certificates.reload()
            assert server.certificates.statistics().reload_failures == 1

    with caplog.at_level(logging.ERROR):
        run(scenario())
    (line,) = [record.getMessage() for record in caplog.records]
    assert "is not the key of the certificate in" in line
    assert line.endswith("listener SSL keeps the certificate that it has")


# -- the end


def test_tl15_peers_that_never_say_goodbye_do_not_delay_the_end(
    run: Run, authority: Authority, broker: Pair
) -> None:
    """Each of them has read its answer, and would hold a transport for 30 s."""

    def deaf(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
        client = context.wrap_socket(
            socket.create_connection(("127.0.0.1", port)), server_hostname="localhost"
        )
        client.sendall(framed(b"x"))
        assert client.recv(100)
        return client

    async def scenario() -> None:
        async with TlsServer(broker) as server:
            context = authority.client_context()
            clients = await asyncio.gather(
                *(asyncio.to_thread(deaf, server.port, context) for _ in range(100))
            )
            await asyncio.wait_for(server.listeners.close(600_000), 20)
            assert server.listeners.statistics().connections == 0
            for client in clients:
                client.close()

    run(scenario())
