import asyncio
import errno
import socket

import pytest

from siltstone.server.network import sockets as sockets_module
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.network.sockets import CannotListen, bind_sockets, refuse_taken


def bound(host: str, port: int = 0) -> list[socket.socket]:
    return asyncio.run(bind_sockets(ListenerAddress("NAME", host, port, "advertised", 0)))


def close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


def test_any_free_port() -> None:
    sockets = bound("127.0.0.1")
    assert [each.getsockname()[0] for each in sockets] == ["127.0.0.1"]
    assert sockets[0].getsockname()[1] > 0
    assert not sockets[0].getblocking()
    close(sockets)


def test_what_accepted_connections_inherit() -> None:
    sockets = bound("127.0.0.1")
    sockets[0].listen()
    with socket.create_connection(sockets[0].getsockname()):
        accepted, _ = sockets[0].accept()
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        accepted.close()
    close(sockets)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_ipv6_and_every_address() -> None:
    sockets = bound("::1")
    assert [each.getsockname()[0] for each in sockets] == ["::1"]
    close(sockets)

    sockets = bound("")
    sockets[0].listen()
    port = sockets[0].getsockname()[1]
    for host in ("127.0.0.1", "::1"):
        socket.create_connection((host, port)).close()
    close(sockets)


def test_all_addresses_of_a_name_have_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [*found, found[0]])
    sockets = bound("two-homes.example")
    assert [each.getsockname()[0] for each in sockets] == ["127.0.0.1", "127.0.0.2"]
    assert len({each.getsockname()[1] for each in sockets}) == 1
    close(sockets)


def test_a_port_that_is_taken_is_told() -> None:
    sockets = bound("127.0.0.1")
    sockets[0].listen()
    port = sockets[0].getsockname()[1]
    with pytest.raises(
        CannotListen,
        match=f"listener NAME://127.0.0.1:{port} cannot be opened: another process listens .*--listener",
    ):
        bound("127.0.0.1", port)
    close(sockets)


@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("192.0.2.1", "this machine does not have that address"),
        ("no-such-host.invalid", "host 'no-such-host.invalid' is not known"),
        ("a" * 64, "host 'a{64}' is not known"),
    ],
)
def test_an_address_that_is_not_ours_is_told(host: str, says: str) -> None:
    with pytest.raises(CannotListen, match=says):
        bound(host)


def test_a_taken_port_is_refused_before_anything_else_is_done() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = ListenerAddress("FREE", "127.0.0.1", 0, "advertised", 0)
        taken = ListenerAddress("TAKEN", "127.0.0.1", other.getsockname()[1], "advertised", 0)
        with pytest.raises(CannotListen, match=r"TAKEN.*another process listens there"):
            asyncio.run(refuse_taken([free, taken]))


def test_a_free_port_stays_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    asyncio.run(refuse_taken([ListenerAddress("NAME", "127.0.0.1", port, "advertised", 0)]))
    close(bound("127.0.0.1", port))


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (OSError(errno.EADDRINUSE, "in use"), "another process listens there"),
        (PermissionError(errno.EACCES, "denied"), "only root may listen on this port: choose one above 1023"),
        (OSError(errno.ENOBUFS, "No buffer space"), "No buffer space"),
        (OSError("no number"), "no number"),
    ],
)
def test_why_a_socket_cannot_be_bound(monkeypatch: pytest.MonkeyPatch, failure: OSError, says: str) -> None:
    def refuse(*_: object) -> None:
        raise failure

    monkeypatch.setattr(sockets_module, "_bind", refuse)
    with pytest.raises(CannotListen, match=f"cannot be opened: {says}"):
        bound("127.0.0.1")


def test_a_port_is_used_again_while_its_old_connections_end() -> None:
    (listening,) = bound("127.0.0.1")
    assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) != 0
    close([listening])


@pytest.mark.parametrize(("host", "only_v6"), [("", 0), ("::1", 1)])
@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_ipv6_takes_ipv4_only_where_no_host_is_named(host: str, only_v6: int) -> None:
    (listening,) = bound(host)
    assert listening.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == only_v6
    close([listening])


def test_a_socket_that_cannot_be_bound_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So are the sockets that were bound before it."""
    made: list[socket.socket] = []
    real = sockets_module._bind

    def bind(family: int, host: str, port: int) -> socket.socket:
        if made:
            raise OSError(errno.EADDRINUSE, "in use")
        made.append(real(family, host, port))
        return made[-1]

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(sockets_module, "_bind", bind)
    with pytest.raises(CannotListen):
        bound("two-homes.example")
    assert made[0].fileno() == -1
