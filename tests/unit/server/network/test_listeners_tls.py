"""Real sockets with TLS, on both event loops: what a plain listener does, and what TLS adds."""

import asyncio
import logging
import os
import socket
import ssl
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from struct import unpack
from typing import Any

import pytest
from cryptography.x509.oid import NameOID

from siltstone.broker.request import ConnectionContext
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.server import python_process as event_loop
from siltstone.server.network import accepting
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.network.certificates import Certificates
from siltstone.server.network.handshakes import HandshakeFailure
from siltstone.server.network.listener_settings import ListenerSettings
from siltstone.server.network.listeners import Listeners
from siltstone.server.network.settings import NetworkSettings
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import Handler, framed, handler_of_futures
from support.tls.authority import Authority, Pair

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


class Server:
    """``async with``: one listener with TLS."""

    def __init__(self, pair: Pair, handler: Handler | None = None, **settings: Any) -> None:
        network = {
            name: value for name, value in settings.items() if name in NetworkSettings.__struct_fields__
        }
        tls = {name: value for name, value in settings.items() if name not in network}
        self.handler = handler or Handler()
        self.clock = ManualClock()
        self.failures: list[BaseException] = []
        listener = ListenerSettings(
            tls_certificate_file=str(pair.certificate), tls_key_file=str(pair.key), **tls
        )
        self.certificates = Certificates({"SSL": listener}, SystemClock())
        self.listeners = Listeners(
            parse_addresses(["SSL://127.0.0.1:0"]),
            self.handler,
            NetworkSettings(**network),
            self.clock,
            self.failures.append,
            settings_of={"SSL": listener},
            certificates=self.certificates,
        )
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Server":
        await self.listeners.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.listeners.abort()
        await self.listeners.close(0)
        for writer in self.writers:
            writer.transport.abort()
        await self.certificates.close()
        assert self.failures == []

    @property
    def port(self) -> int:
        return self.listeners.listeners[0].advertised_port

    async def connect(
        self, context: ssl.SSLContext | None, **options: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if context is not None:
            options["server_hostname"] = "localhost"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, **options)
        self.writers.append(writer)
        return reader, writer

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(12_000):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("it did not come to pass")

    def failed(self, reason: HandshakeFailure) -> int:
        return self.listeners.statistics().handshakes.failures.get(reason, 0)


async def answer(reader: asyncio.StreamReader) -> bytes:
    (size,) = unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def test_tl11_frames_of_every_size_come_back(run: Run, authority: Authority, broker: Pair) -> None:
    async def scenario() -> None:
        async with Server(broker) as server:
            reader, writer = await server.connect(authority.client_context())
            bodies = [os.urandom(size) for size in (0, 1, 1_000, 70_000, 3 * MIB, 5, MIB, MIB, MIB)]
            writer.write(framed(*bodies))
            assert [await answer(reader) for _ in bodies] == bodies

    run(scenario())


def test_tl11_byte_by_byte(run: Run, authority: Authority, broker: Pair) -> None:
    async def scenario() -> None:
        async with Server(broker) as server:
            reader, writer = await server.connect(authority.client_context())
            for byte in framed(b"slow", b"", b"ly"):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert [await answer(reader) for _ in range(3)] == [b"slow", b"", b"ly"]

    run(scenario())


def test_tl11_thousands_of_requests_in_one_write(run: Run, authority: Authority, broker: Pair) -> None:
    async def scenario() -> None:
        async with Server(broker) as server:
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
        async with Server(broker, Handler(lambda *_: None)) as server:
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


def test_tl13_a_handler_that_raises_ends_its_connection_at_once(
    run: Run, authority: Authority, broker: Pair
) -> None:
    async def scenario() -> None:
        def handle(_: ConnectionContext, frame: memoryview) -> Any:
            if frame == b"bug":
                raise KeyError("surprise")
            return [framed(bytes(frame))]

        async with Server(broker, Handler(handle)) as server:
            reader, writer = await server.connect(authority.client_context())
            writer.write(framed(b"first", b"bug"))
            assert await asyncio.wait_for(reader.read(), 30) == framed(b"first")
            await server.until(lambda: server.listeners.statistics().closed == {CloseReason.FAILURE: 1})

    run(scenario())


def test_tl13_what_a_client_leaves_unread_is_counted_and_bounded(
    run: Run, authority: Authority, broker: Pair
) -> None:
    """Event loops encrypt an answer at once, whatever its size, and count it as sent."""

    async def scenario() -> None:
        async with Server(broker, Handler(lambda *_: [bytes(20 * MIB)])) as server:
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
        async with Server(broker, handler) as server:
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


# -- handshakes


def test_tl08_silent_peers_are_closed_in_time_and_keep_nobody_out(
    run: Run, authority: Authority, broker: Pair
) -> None:
    async def scenario() -> None:
        async with Server(broker, handshake_ms_max=1_500, max_connections_per_ip=105) as server:
            silent = [await server.connect(None) for _ in range(100)]
            await server.until(lambda: server.listeners.statistics().handshakes.under_way == 100)
            reader, writer = await server.connect(authority.client_context())
            writer.write(framed(b"served"))
            assert await answer(reader) == b"served"
            assert server.listeners.statistics().accepted == 101
            silent += [await server.connect(None) for _ in range(4)]
            with pytest.raises((ConnectionError, ssl.SSLError)):  # they count against the limits
                await server.connect(authority.client_context())
            assert server.listeners.statistics().closed[CloseReason.TOO_MANY_OF_HOST] == 1
            assert [await reader.read() for reader, _ in silent] == [b""] * 104
            await server.until(lambda: server.failed(HandshakeFailure.TIMED_OUT) == 104)
            statistics = server.listeners.statistics()
            assert (statistics.connections, statistics.handshakes.under_way) == (1, 0)
            assert statistics.closed[CloseReason.HANDSHAKE] == 104
            await server.connect(authority.client_context())  # there is room again

    run(scenario())


def test_tl08_the_oldest_handshake_makes_room_for_a_new_one(
    run: Run, authority: Authority, broker: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "HANDSHAKES_MAX", 10)

    async def scenario() -> None:
        async with Server(broker) as server:
            silent = [await server.connect(None) for _ in range(15)]
            reader, writer = await server.connect(authority.client_context())
            writer.write(framed(b"served"))
            assert await answer(reader) == b"served"
            assert server.failed(HandshakeFailure.CROWDED) == 6
            assert [await reader.read() for reader, _ in silent[:6]] == [b""] * 6
            assert server.listeners.statistics().handshakes.under_way == 9

    run(scenario())


def test_tl08_a_node_that_closes_waits_for_no_handshake(run: Run, broker: Pair) -> None:
    async def scenario() -> None:
        async with Server(broker) as server:
            silent, _ = await server.connect(None)
            await server.until(lambda: server.listeners.statistics().handshakes.under_way == 1)
            await server.listeners.close()
            assert await silent.read() == b""
            assert server.listeners.statistics().handshakes.under_way == 0

    run(scenario())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tl09_versions(run: Run, authority: Authority, broker: Pair, version: ssl.TLSVersion) -> None:
    context = authority.client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version

    async def scenario() -> None:
        async with Server(broker) as server:
            if version is ssl.TLSVersion.TLSv1_1:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await server.connect(context)
                await server.until(lambda: server.failed(HandshakeFailure.VERSION) == 1)
                return
            reader, writer = await server.connect(context)
            writer.write(framed(b"x"))
            assert await answer(reader) == b"x"
            assert writer.get_extra_info("ssl_object").version() == version.name.replace("_", ".")

    run(scenario())


def test_tl09_a_listener_may_ask_for_1_3(run: Run, authority: Authority, broker: Pair) -> None:
    context = authority.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def scenario() -> None:
        async with Server(broker, tls_version_min="1.3") as server:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await server.connect(context)

    run(scenario())


@pytest.mark.parametrize("data", [framed(b"\x00\x12\x00\x03" + bytes(20)), b"GET / HTTP/1.1\r\n\r\n"])
def test_tl10_what_is_no_tls_is_closed_with_one_line_a_minute(
    run: Run, broker: Pair, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Server(broker) as server:
            for _ in range(5):
                reader, writer = await server.connect(None)
                writer.write(data)
                assert b"surprise" not in await reader.read()
            await server.until(lambda: server.failed(HandshakeFailure.NOT_TLS) == 5)
            server.clock.advance_ms(61_000)
            reader, writer = await server.connect(None)
            writer.write(data)
            await reader.read()

    with caplog.at_level(logging.WARNING):
        run(scenario())
    (line, again) = [record.getMessage() for record in caplog.records]
    assert line == again
    assert line == (
        "a connection from 127.0.0.1 to listener SSL closed: the client speaks no TLS, and this listener does: set "
        "security.protocol=SSL in the client, or give it the address of a plaintext listener"
    )


def test_tl10_a_client_that_does_not_trust_the_listener_is_logged(
    run: Run, tmp_path: Path, broker: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path, "Authority B")

    def distrust(port: int) -> None:  # event loops do not send their client's reason
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            stranger.client_context().wrap_socket(plain, server_hostname="localhost")

    async def scenario() -> None:
        async with Server(broker) as server:
            await asyncio.to_thread(distrust, server.port)
            await server.until(lambda: server.failed(HandshakeFailure.NOT_TRUSTED) == 1)

    run(scenario())
    assert "the client does not trust the certificate of this listener: set ssl.ca.location" in caplog.text


# -- who the client is


def principals(server: Server) -> list[str]:
    return [each.principal for each in server.listeners.clients()]


async def is_let_in(server: Server, context: ssl.SSLContext) -> bool:
    """With TLS 1.3 a client learns that its certificate was refused when it reads."""
    try:
        reader, writer = await server.connect(context)
        writer.write(framed(b"x"))
        return await answer(reader) == b"x"
    except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
        return False


@pytest.mark.parametrize("auth", ["required", "requested"])
def test_tl02_clients_by_their_certificates(
    run: Run, authority: Authority, broker: Pair, tmp_path: Path, auth: str
) -> None:
    name = [(NameOID.ORGANIZATION_NAME, "Acme, Inc."), (NameOID.COMMON_NAME, "svc-1")]
    ours = authority.client_context(authority.issue("svc-1", name))
    expired = authority.client_context(authority.issue("svc-old", name, days=-1))
    other = Authority(tmp_path, "Authority B").issue("svc-b", name)
    foreign = authority.client_context(other)

    async def scenario() -> None:
        async with Server(broker, tls_client_auth=auth, tls_client_ca_file=str(authority.file)) as server:
            assert await is_let_in(server, ours)
            assert principals(server) == ["User:CN=svc-1,O=Acme\\, Inc."]
            assert not await is_let_in(server, foreign)
            assert not await is_let_in(server, expired)
            assert server.failed(HandshakeFailure.CERTIFICATE) == 2
            assert await is_let_in(server, authority.client_context()) is (auth == "requested")
            if auth == "required":
                assert server.failed(HandshakeFailure.NO_CERTIFICATE) == 1
            else:
                assert "User:ANONYMOUS" in principals(server)

    run(scenario())


def test_tl03_rules_make_names_of_certificates(run: Run, authority: Authority, broker: Pair) -> None:
    dev = authority.issue(
        "dev",
        [
            (NameOID.ORGANIZATION_NAME, "x"),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, "dev"),
            (NameOID.COMMON_NAME, "Svc"),
        ],
    )
    other = authority.issue("other", [(NameOID.COMMON_NAME, "Other")])
    trusting = {"tls_client_auth": "required", "tls_client_ca_file": str(authority.file)}

    async def scenario() -> None:
        rules = "RULE:^CN=(.*?),OU=dev.*$/$1/L,DEFAULT"
        async with Server(broker, tls_principal_mapping_rules=rules, **trusting) as server:
            for pair in (dev, other):
                assert await is_let_in(server, authority.client_context(pair))
            assert sorted(principals(server)) == ["User:CN=Other", "User:svc"]
        rules = "RULE:^CN=(.*?),OU=dev.*$/$1/L"
        async with Server(broker, tls_principal_mapping_rules=rules, **trusting) as server:
            assert not await is_let_in(server, authority.client_context(other))
            await server.until(lambda: server.failed(HandshakeFailure.NO_PRINCIPAL) == 1)
            await server.until(lambda: server.listeners.statistics().closed == {CloseReason.HANDSHAKE: 1})
            assert await is_let_in(server, authority.client_context(dev))

    run(scenario())


# -- the files change


def test_tl05_new_files_are_for_new_connections(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = Authority(tmp_path / "a")
    after = Authority(tmp_path / "b", "Authority B")
    pair = before.issue("broker")

    async def scenario() -> None:
        async with Server(pair) as server:
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
        async with Server(pair) as server:
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
        async with Server(broker) as server:
            context = authority.client_context()
            clients = await asyncio.gather(
                *(asyncio.to_thread(deaf, server.port, context) for _ in range(100))
            )
            await asyncio.wait_for(server.listeners.close(600_000), 20)
            assert server.listeners.statistics().connections == 0
            for client in clients:
                client.close()

    run(scenario())
