"""Checks that a standalone Spark master answers, before a JVM is started for it.

Spark itself tries to register for over a minute, and its error then does not name the address. Only ``spark://`` URLs
have addresses to check; if a URL names several masters, one that answers is enough, as the others may be on standby.
"""

import socket
from collections.abc import Iterator

from siltstone.model.errors import InvalidRequest, Unavailable

CONNECT_SECONDS_MAX = 5.0
"""A master that needs longer to accept a connection is not able to schedule tasks either."""

DEFAULT_PORT = 7077

_SCHEME = "spark://"


class SparkNotStarted(Unavailable):
    """Spark could not be started, or its master did not answer. The text has the cause, and the last line of the JVM's
    log if there is one."""


class MasterMalformed(InvalidRequest):
    """A spark:// URL without a host, or with an impossible port."""


def refuse_silent_master(master: str) -> None:
    """Raises SparkNotStarted if no address of the master accepts a connection, and MasterMalformed."""
    if not master.startswith(_SCHEME):
        return
    reasons = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host, port), CONNECT_SECONDS_MAX).close()
        except OSError as failure:
            reasons.append(f"{host}:{port}: {failure.strerror or failure}")
        else:
            return
    raise SparkNotStarted(
        f"the Spark master {master} does not answer ({'; '.join(reasons)}): start it, or give another with --master"
    )


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yields the (host, port) pairs of a URL such as ``spark://host1:7077,host2:7077``. Raises MasterMalformed."""
    for place in master.removeprefix(_SCHEME).split(","):
        host, separator, port = place.rpartition(":")
        if not separator:
            host, port = place, str(DEFAULT_PORT)
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
            raise MasterMalformed(f"{master} names no Spark master: write spark://HOST:PORT")
        yield host.strip("[]"), int(port)
