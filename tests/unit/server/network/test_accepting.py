"""Handshakes on real sockets, on both event loops: who is let in, under which name, and who keeps nobody out."""

import asyncio
import logging
import socket
import ssl
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import NameOID

from siltstone.server import python_process as event_loop
from siltstone.server.network import accepting
from siltstone.server.network.handshakes import HandshakeFailure
from siltstone.server.network.statistics import CloseReason
from support.kafka.network_world import framed
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


# -- handshakes


def test_tl08_silent_peers_are_closed_in_time_and_keep_nobody_out(
    run: Run, authority: Authority, broker: Pair
) -> None:
    async def scenario() -> None:
        async with TlsServer(broker, handshake_ms_max=1_500, max_connections_per_ip=105) as server:
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
        async with TlsServer(broker) as server:
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
        async with TlsServer(broker) as server:
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
        async with TlsServer(broker) as server:
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
        async with TlsServer(broker, tls_version_min="1.3") as server:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await server.connect(context)

    run(scenario())


@pytest.mark.parametrize("data", [framed(b"\x00\x12\x00\x03" + bytes(20)), b"GET / HTTP/1.1\r\n\r\n"])
def test_tl10_what_is_no_tls_is_closed_with_one_line_a_minute(
    run: Run, broker: Pair, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with TlsServer(broker) as server:
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
        async with TlsServer(broker) as server:
            await asyncio.to_thread(distrust, server.port)
            await server.until(lambda: server.failed(HandshakeFailure.NOT_TRUSTED) == 1)

    run(scenario())
    assert "the client does not trust the certificate of this listener: set ssl.ca.location" in caplog.text


# -- who the client is


def principals(server: TlsServer) -> list[str]:
    return [each.principal for each in server.listeners.clients()]


async def is_let_in(server: TlsServer, context: ssl.SSLContext) -> bool:
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
        async with TlsServer(broker, tls_client_auth=auth, tls_client_ca_file=str(authority.file)) as server:
            assert await is_let_in(server, ours)
            assert principals(server) == ["User:CN=svc-1,O=Acme\\, Inc."]
            assert not await is_let_in(server, foreign)
            assert not await is_let_in(server, expired)
            assert server.failed(HandshakeFailure.CERTIFICATE) == 2
            told = server.handler.refused_certificates
            assert [(listener, host) for listener, host, _ in told] == [("SSL", "127.0.0.1")] * 2
            assert ["has expired" in reason for *_, reason in told] == [False, True]
            assert await is_let_in(server, authority.client_context()) is (auth == "requested")
            if auth == "required":
                assert server.failed(HandshakeFailure.NO_CERTIFICATE) == 1
                assert "shows no certificate" in server.handler.refused_certificates[2][2]
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
        async with TlsServer(broker, tls_principal_mapping_rules=rules, **trusting) as server:
            for pair in (dev, other):
                assert await is_let_in(server, authority.client_context(pair))
            assert sorted(principals(server)) == ["User:CN=Other", "User:svc"]
        rules = "RULE:^CN=(.*?),OU=dev.*$/$1/L"
        async with TlsServer(broker, tls_principal_mapping_rules=rules, **trusting) as server:
            assert not await is_let_in(server, authority.client_context(other))
            await server.until(lambda: server.failed(HandshakeFailure.NO_PRINCIPAL) == 1)
            assert len(server.handler.refused_certificates) == 1
            await server.until(lambda: server.listeners.statistics().closed == {CloseReason.HANDSHAKE: 1})
            assert await is_let_in(server, authority.client_context(dev))

    run(scenario())
