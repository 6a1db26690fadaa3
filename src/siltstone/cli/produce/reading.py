"""Lines as they come in: from a file, a pipe, or somebody's fingers.

What has come is handed on at once, and with it whether more is there already: a pipe that pauses is when what was
gathered should be sent.
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
    """A line that no broker takes; input without line ends, most likely."""


class Lines(msgspec.Struct, frozen=True):
    """``bytes_read``: with their line ends. ``pauses``: the next lines are not there yet."""

    lines: list[bytes]
    bytes_read: int
    pauses: bool


def read_lines(stream: BinaryIO) -> Iterator[Lines]:
    """Without their line ends; the last line need not have one. Raises LineTooLong."""
    beginning: list[bytes] = []
    beginning_bytes = 0
    number = 1
    while data := _read(stream):
        first, *others = data.split(b"\n")
        beginning.append(first)
        beginning_bytes += len(first)
        if beginning_bytes > APPEND_BYTES_MAX:
            raise LineTooLong(
                f"line {number} is longer than {APPEND_BYTES_MAX // MIB} MiB: records end with lines"
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
    """What is there, at least a byte; none at the end."""
    read = getattr(stream, "read1", stream.read)
    return bytes(read(READ_BYTES))


def _has_more(stream: BinaryIO) -> bool:
    """True for what cannot pause."""
    try:
        readable, _, _ = select.select([stream.fileno()], [], [], 0)
    except (UnsupportedOperation, ValueError, OSError):
        return True
    return bool(readable)
