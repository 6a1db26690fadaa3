"""Ports for servers that are told where to listen, of their own accord or because a test starts them again there.

They lie below those that the system gives to outgoing connections: one of these could be taken in the moment between
the choice and the server's start, and is, once in many runs."""

import random
import socket

_FIRST, _LAST = 10_000, 32_000
_HOST = "127.0.0.1"
_given: set[int] = set()


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(number: int) -> list[int]:
    """One after the other, none given before in this process."""
    drawn = random.SystemRandom()
    while True:
        first = drawn.randrange(_FIRST, _LAST)
        ports = list(range(first, first + number))
        if _given.isdisjoint(ports) and all(map(_is_free, ports)):
            _given.update(ports)
            return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True
