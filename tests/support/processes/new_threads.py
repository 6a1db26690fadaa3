"""Finds threads that a test has started and left. Those of session fixtures, brokers among them, were there before."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_before: set[threading.Thread] = set()


@contextmanager
def watched() -> Iterator[None]:
    """The threads around one test."""
    _before.clear()
    _before.update(threading.enumerate())
    yield


def new_threads(*prefixes: str) -> list[str]:
    """Returns the names of new threads that begin with one of these."""
    return [
        thread.name
        for thread in threading.enumerate()
        if thread not in _before and thread.name.startswith(prefixes)
    ]
