"""Defines how the requests of a store pass the limiter: counted, held in a grade, or without it because their bytes
have waited before."""

from collections.abc import Callable
from typing import Protocol

from siltstone.object_store.bandwidth.grades import Direction
from siltstone.object_store.bandwidth.limiter import Limiter
from siltstone.object_store.bandwidth.pieces import Pieces


class Passage(Protocol):
    """A store calls a passage before each request, once for all attempts, in the thread that makes the request. An
    adapter that can stop within a request calls its ``pieces``, unless they are None."""

    @property
    def pieces(self) -> Pieces | None: ...

    def read(self, size_bytes: int) -> None: ...

    def write(self, size_bytes: int) -> None: ...

    def copy(self, size_bytes: int) -> None:
        """Is called when bytes are copied inside the store, which this process neither reads nor writes."""
        ...


class Counted:
    """Counts bytes that are never held."""

    pieces = None

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    def read(self, size_bytes: int) -> None:
        self._limiter.count(Direction.IN, size_bytes)

    def write(self, size_bytes: int) -> None:
        self._limiter.count(Direction.OUT, size_bytes)

    def copy(self, size_bytes: int) -> None:
        return None


class InPieces:
    """The passage of requests that wait in their pieces alone; without ``pieces``, of calls that wait for nothing."""

    def __init__(self, pieces: Pieces | None = None) -> None:
        self.pieces = pieces

    def read(self, size_bytes: int) -> None:
        return None

    def write(self, size_bytes: int) -> None:
        return None

    def copy(self, size_bytes: int) -> None:
        return None


UNCOUNTED: Passage = InPieces()
"""The passage of requests whose bytes have waited already, and of stores without a limiter."""

PassageOf = Callable[[str], Passage]
"""The passage of the store at a URL."""
