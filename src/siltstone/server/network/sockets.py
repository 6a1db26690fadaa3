"""Binds the listening sockets, and raises the limit of open files.

Every connection is an open file, and shells often allow only 1,024 per process. ``allow_connections`` raises the soft
limit up to the hard limit, and warns at the start if that is not enough; ``leaves_too_few_files`` says whether a new
connection takes a file that the node itself needs. ``bind_sockets`` binds the sockets of a listener; ``listeners``
accepts connections on them.
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
"""The files that a node has open besides connections: log files, objects, the metadata, libraries."""

FILES_RESERVED = 32
"""The files that no connection may take: 4 uploads and 8 reads with a file and its folder each, the next file of the
log, the metadata, and some more."""

log = logging.getLogger(__name__)


def allow_connections(max_connections: int) -> None:
    """Raises this process's limit of open files so that it suffices for ``max_connections``; warns if it cannot."""
    wanted = max_connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning(
            "this process may have %d files open, too few for network.max_connections (%d): "
            "raise the limit (ulimit -n %d), or lower the setting",
            allowed, max_connections, wanted,
        )  # fmt: skip


def leaves_too_few_files(file_number: int) -> bool:
    """Returns whether this process has hardly any free files left, by the number of its newest file: the kernel assigns
    the lowest number that is free. FILES_RESERVED are kept, half of the limit if that is less."""
    limit = open_files_max()
    return limit is not None and file_number >= limit - min(FILES_RESERVED, limit // 2)


def open_files_max() -> int | None:
    """Returns how many files this process may have open; None: any number. The limit may change while the process
    runs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


_CAUSES = {
    errno.EADDRINUSE: "another process listens there: stop it, or choose another port ({how})",
    errno.EADDRNOTAVAIL: "this machine does not have that address: choose one of its own",
    errno.EACCES: "only root may listen on this port: choose one above 1023",
}


class CannotListen(InvalidRequest):
    """An address of a listener cannot be bound."""


async def bind_sockets(
    address: ListenerAddress, how: str = "serve --listener HOST:PORT"
) -> list[socket.socket]:
    """Binds a socket for each address to which the listener's host resolves, all to one port. ``how`` says in the error
    how to choose another address. Raises CannotListen."""
    port = address.port
    with ExitStack() as opened:
        sockets: list[socket.socket] = []
        for family, host in await _hosts(address):
            try:
                bound = _bind(family, host, port)
            except OSError as failure:
                cause = _CAUSES.get(failure.errno or 0, failure.strerror or str(failure))
                raise CannotListen(
                    f"listener {address} cannot be opened: {cause.format(how=how)}"
                ) from failure
            sockets.append(opened.enter_context(bound))
            port = bound.getsockname()[1]
        opened.pop_all()
    return sockets


async def refuse_taken(addresses: Iterable[ListenerAddress]) -> None:
    """Checks early that the addresses can be bound, for callers with much to do before they listen. Raises
    CannotListen."""
    for address in addresses:
        for bound in await bind_sockets(address):
            bound.close()


async def _hosts(address: ListenerAddress) -> list[tuple[int, str]]:
    if not address.host:
        return [(socket.AF_INET6, "") if socket.has_dualstack_ipv6() else (socket.AF_INET, "")]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as failure:  # UnicodeError: a part of the name is too long
        raise CannotListen(f"listener {address}: the host {address.host!r} is not known") from failure
    return list(dict.fromkeys((int(family), str(peer[0])) for family, _, _, _, peer in found))


def _bind(family: int, host: str, port: int) -> socket.socket:
    """Binds a socket. Accepted connections inherit its options: with TCP_NODELAY no answer waits for the
    acknowledgement of the previous one, which may take 40 ms; with SO_KEEPALIVE, a client that lost power is
    eventually detected."""
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
