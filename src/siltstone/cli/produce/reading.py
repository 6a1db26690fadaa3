"""Splits a file, a pipe or typed input into lines as they arrive.

Lines are yielded as soon as they are read, with a flag that says whether more input is waiting. When none is, the
caller flushes its batches, so that records typed or piped slowly are sent at once. Ctrl-C ends the wait for input,
whenever it comes.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


Wait = Callable[[BinaryIO], None]
"""Waits until a stream has input, or has come to its end."""


@contextmanager
def ended_by_signals() -> Iterator[Wait]:
    """Yields a Wait that every signal interrupts. A read that has to wait is not interrupted by a signal that comes
    after Python has looked for signals and before the system call: Ctrl-C would do nothing until there is input. In a
    thread other than the main one, which gets no signals, the read itself waits."""
    if threading.current_thread() is not threading.main_thread():
        yield _no_wait
        return
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    before = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    try:
        yield lambda stream: _wait_for(stream, woken)
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(waker)


def _wait_for(stream: BinaryIO, woken: int) -> None:
    try:
        number = stream.fileno()
        while number not in select.select([number, woken], [], [])[0]:
            os.read(woken, KIB)  # the signal's handler has run when this returns, and has not raised
    except (UnsupportedOperation, ValueError, OSError):
        return  # it cannot be waited for, such as a buffer in memory


def _no_wait(_: BinaryIO) -> None:
    return


def read_lines(
    stream: BinaryIO,
    wait: Wait = _no_wait,
    *,
    read_bytes: int = READ_BYTES,
    line_bytes_max: int = APPEND_BYTES_MAX,
) -> Iterator[Lines]:
    """Yields all lines of the input; the last one need not have a line end. ``wait`` is called before each read of at
    most ``read_bytes``. Raises LineTooLong for a line of more than ``line_bytes_max``."""
    beginning: list[bytes] = []
    beginning_bytes = 0
    number = 1
    while data := _read(stream, wait, read_bytes):
        first, *others = data.split(b"\n")
        beginning.append(first)
        beginning_bytes += len(first)
        if beginning_bytes > line_bytes_max:
            raise LineTooLong(
                f"line {number} is longer than {line_bytes_max // MIB} MiB: each line must be one record"
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


def _read(stream: BinaryIO, wait: Wait, bytes_max: int) -> bytes:
    """Waits for input and returns what has arrived; b"" at the end."""
    wait(stream)
    read = getattr(stream, "read1", stream.read)
    return bytes(read(bytes_max))


def _has_more(stream: BinaryIO) -> bool:
    """Returns whether more input is waiting; True for a stream that ``select`` does not support, such as a buffer in
    memory."""
    try:
        readable, _, _ = select.select([stream.fileno()], [], [], 0)
    except (UnsupportedOperation, ValueError, OSError):
        return True
    return bool(readable)
