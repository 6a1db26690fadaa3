"""Ports for servers that listen on a given port: those that cannot choose one, and those that a test starts again on
the same one.

They lie below those that the system gives to outgoing connections: one of these could be taken in the moment between
the choice and the server's start, and is, once in many runs. Each worker of pytest-xdist draws from a range of its own.
In one range for all, a worker was given the port of a server that a test of another worker had stopped to start again,
or a port at which that test needs no server.
"""

import os
import random
import socket

_FIRST, _LAST = 10_000, 32_000
_WORKERS_MAX = 8
_HOST = "127.0.0.1"
_given: set[int] = set()


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(number: int) -> list[int]:
    """Returns ports one after the other; none was given before in this process."""
    drawn = random.SystemRandom()
    first_of_all, last_of_all = _range_of_worker()
    while True:
        first = drawn.randrange(first_of_all, last_of_all - number)
        ports = list(range(first, first + number))
        if _given.isdisjoint(ports) and all(map(_is_free, ports)):
            _given.update(ports)
            return ports


def _range_of_worker() -> tuple[int, int]:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if not worker.isdecimal():
        return _FIRST, _LAST
    size = (_LAST - _FIRST) // _WORKERS_MAX
    first = _FIRST + int(worker) % _WORKERS_MAX * size
    return first, first + size


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True
