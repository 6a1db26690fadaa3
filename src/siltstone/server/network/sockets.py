"""Listening sockets: bound, not yet accepting.

How many files this process may have open: every connection is one, and shells often allow only 1,024.

The limit is raised as far as the system lets us, which is what the hard limit is for. Where that is not enough, it is
said at the start and not by the first client that is turned away.
"""

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Iterable
from contextlib import ExitStack

from siltstone.model.errors import InvalidRequest
from siltstone.server.network.addresses import ListenerAddress

OTHER_FILES = 512
"""What a node has open besides connections: segments of its log, objects, the metadata, libraries."""

log = logging.getLogger(__name__)


def allow_connections(max_connections: int) -> None:
    wanted = max_connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning(
            "this process may have %d files open, so fewer than network.max_connections (%d) can be served: "
            "raise the limit (ulimit -n %d), or lower the setting",
            allowed, max_connections, wanted,
        )  # fmt: skip


_CAUSES = {
    errno.EADDRINUSE: "another process listens there: stop it, or choose another port (serve --listener HOST:PORT)",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "only root may listen on this port: choose one above 1023",
}


class CannotListen(InvalidRequest):
    """An address of a listener cannot be bound."""


async def bind_sockets(address: ListenerAddress) -> list[socket.socket]:
    """One for each address that the host stands for, all on one port. Raises CannotListen."""
    port = address.port
    with ExitStack() as opened:
        sockets: list[socket.socket] = []
        for family, host in await _hosts(address):
            try:
                bound = _bind(family, host, port)
            except OSError as failure:
                cause = _CAUSES.get(failure.errno or 0, failure.strerror or str(failure))
                raise CannotListen(f"listener {address} cannot be opened: {cause}") from failure
            sockets.append(opened.enter_context(bound))
            port = bound.getsockname()[1]
        opened.pop_all()
    return sockets


async def refuse_taken(addresses: Iterable[ListenerAddress]) -> None:
    """For those who have much to do before they listen. Raises CannotListen."""
    for address in addresses:
        for bound in await bind_sockets(address):
            bound.close()


async def _hosts(address: ListenerAddress) -> list[tuple[int, str]]:
    if not address.host:
        return [(socket.AF_INET6, "") if socket.has_dualstack_ipv6() else (socket.AF_INET, "")]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as failure:
        raise CannotListen(f"listener {address}: the host {address.host!r} is not known") from failure
    return list(dict.fromkeys((int(family), str(peer[0])) for family, _, _, _, peer in found))


def _bind(family: int, host: str, port: int) -> socket.socket:
    """Accepted connections inherit the options: no answer waits for another (peers acknowledge up to 40 ms late), and a
    peer that lost its power is noticed some day."""
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "" else 1)
        listening.bind((host, port))
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
