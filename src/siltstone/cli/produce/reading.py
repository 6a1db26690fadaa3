"""Splits a file, a pipe or typed input into lines as they arrive.

Lines are yielded as soon as they are read, with a flag that says whether more input is waiting. When none is, the
caller flushes its batches, so that records typed or piped slowly are sent at once.
"""

import select
from collections.abc import Iterator
from io import UnsupportedOperation
from typing import BinaryIO

import msgspec

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import APPEND_BYTES_MAX, KIB, MIB

READ_BYTES = 256 * KIB


class LineTooLong(InvalidRequest):
    """A line is longer than any record may be; the input probably has no line ends."""


class Lines(msgspec.Struct, frozen=True):
    """``lines`` without line ends. ``bytes_read``: their size in the input, line ends included. ``pauses``: no
    further input is waiting."""

    lines: list[bytes]
    bytes_read: int
    pauses: bool


def read_lines(stream: BinaryIO) -> Iterator[Lines]:
    """Yields all lines of the input; the last one need not have a line end. Raises LineTooLong."""
    beginning: list[bytes] = []
    beginning_bytes = 0
    number = 1
    while data := _read(stream):
        first, *others = data.split(b"\n")
        beginning.append(first)
        beginning_bytes += len(first)
        if beginning_bytes > APPEND_BYTES_MAX:
            raise LineTooLong(
                f"line {number} is longer than {APPEND_BYTES_MAX // MIB} MiB: each line must be one record"
            )
        lines: list[bytes] = []
        if others:
            *whole, last = others
            lines = [b"".join(beginning), *whole]
            beginning, beginning_bytes = [last], len(last)
        number += len(lines)
        yield Lines(lines, len(data), not _has_more(stream))
    if beginning_bytes:
        yield Lines([b"".join(beginning)], 0, True)


def _read(stream: BinaryIO) -> bytes:
    """Waits for input and returns what has arrived; b"" at the end."""
    read = getattr(stream, "read1", stream.read)
    return bytes(read(READ_BYTES))


def _has_more(stream: BinaryIO) -> bool:
    """Whether more input is waiting; True for a stream that ``select`` does not support, such as a buffer in memory."""
    try:
        readable, _, _ = select.select([stream.fileno()], [], [], 0)
    except (UnsupportedOperation, ValueError, OSError):
        return True
    return bool(readable)
