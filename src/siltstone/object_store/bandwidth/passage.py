"""Defines how the requests of a store pass the limiter: counted, held in a grade, or without it because their bytes
have waited before.

A request that has waited for all of its bytes before it is made then moves them as fast as the disk can: the rate is
kept, and everybody else on the disk stands behind hundreds of MiB. So requests can also wait *piece by piece*, while
they are made. An adapter that can stop in the middle of a request, as a folder can, calls ``piece_passes`` before each
piece. The store around it says whose pieces these are (``in_pieces``), for the thread that makes the request.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Protocol

from siltstone.model.limits import MIB
from siltstone.object_store.bandwidth.limiter import Limiter
from siltstone.object_store.bandwidth.turns import Direction

PIECE_BYTES = 1 * MIB


class Piece(Enum):
    READ = "read"
    WRITTEN = "written"
    COPIED = "copied"
    """Inside the store, from one object to another."""


class Pieces(Protocol):
    def passes(self, what: Piece, size_bytes: int) -> None:
        """Blocks the calling thread until the piece may pass."""
        ...


_pieces: ContextVar[Pieces | None] = ContextVar("pieces", default=None)


@contextmanager
def in_pieces(pieces: Pieces | None) -> Iterator[None]:
    """Requests to an adapter in this block, in this thread, pass as ``pieces`` says; None: all at once."""
    before = _pieces.set(pieces)
    try:
        yield
    finally:
        _pieces.reset(before)


def is_in_pieces() -> bool:
    return _pieces.get() is not None


def piece_passes(what: Piece, size_bytes: int) -> None:
    """Waits for a piece of at most about PIECE_BYTES, if the request is made in pieces."""
    pieces = _pieces.get()
    if pieces is not None:
        pieces.passes(what, size_bytes)


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
