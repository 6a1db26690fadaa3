"""How the requests of a store pass the limiter: counted, held in a grade, or not at all because they were before."""

from collections.abc import Callable
from typing import Protocol

from siltstone.object_store.bandwidth.grades import Direction
from siltstone.object_store.bandwidth.limiter import Limiter
from siltstone.object_store.bandwidth.pieces import Pieces


class Passage(Protocol):
    """What a store calls before each request, once for all attempts, in the thread that makes the request. ``pieces``:
    what an adapter calls that stops within a request; None: nothing."""

    @property
    def pieces(self) -> Pieces | None: ...

    def read(self, size_bytes: int) -> None: ...

    def write(self, size_bytes: int) -> None: ...

    def copy(self, size_bytes: int) -> None:
        """Bytes are copied inside the store: they are neither read nor written by this process."""
        ...


class Counted:
    """Counts what is never held."""

    pieces = None

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    def read(self, size_bytes: int) -> None:
        self._limiter.count(Direction.IN, size_bytes)

    def write(self, size_bytes: int) -> None:
        self._limiter.count(Direction.OUT, size_bytes)

    def copy(self, size_bytes: int) -> None:
        return None


class _Uncounted:
    """For requests whose bytes have waited already, and for stores without a limiter."""

    pieces = None

    def read(self, size_bytes: int) -> None:
        return None

    def write(self, size_bytes: int) -> None:
        return None

    def copy(self, size_bytes: int) -> None:
        return None


UNCOUNTED: Passage = _Uncounted()

PassageOf = Callable[[str], Passage]
"""The passage of the store at a URL."""
