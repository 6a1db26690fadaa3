"""Whether a standalone Spark master is there at all, before a JVM is started for it.

Spark itself tries for over a minute to register with one that is not, and then does not say where. Only ``spark://``
URLs name an address; with several masters one that listens is enough, for the others may be standing by.
"""

import socket
from collections.abc import Iterator

from siltstone.model.errors import InvalidRequest, Unavailable

CONNECT_SECONDS_MAX = 5.0
"""A master that needs longer to take a connection is not going to give tasks to executors."""

DEFAULT_PORT = 7077

_SCHEME = "spark://"


class SparkNotStarted(Unavailable):
    """Spark did not come up, or its master did not answer; the text holds the cause, and the JVM's log if there is
    one."""


class MasterMalformed(InvalidRequest):
    """A spark:// URL that names no host and port."""


def refuse_silent_master(master: str) -> None:
    """Raises SparkNotStarted when nothing listens there, MasterMalformed."""
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
    """Of ``spark://host1:7077,host2:7077``."""
    for place in master.removeprefix(_SCHEME).split(","):
        host, separator, port = place.rpartition(":")
        if not separator:
            host, port = place, str(DEFAULT_PORT)
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
            raise MasterMalformed(f"{master} names no Spark master: write spark://HOST:PORT")
        yield host.strip("[]"), int(port)
