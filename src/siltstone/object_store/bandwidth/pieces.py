"""Requests that wait for their bytes piece by piece, while they are made.

A request that has waited for all of its bytes before it is made then moves them as fast as the disk can: the rate is
kept, and everybody else on the disk stands behind hundreds of MiB. An adapter that can stop in the middle of a request,
as a folder can, calls ``piece_passes`` before each piece. The store around it says whose pieces these are
(``in_pieces``), for the thread that makes the request.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Protocol

from siltstone.model.limits import MIB

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
