"""stdout for a long stream of lines: gathered while there are more, and quiet when the reader has enough."""

import select
import sys
from typing import BinaryIO

from siltstone.cli.output import abandon
from siltstone.model.limits import KIB

GATHERED_BYTES = 64 * KIB


class ReaderGone(Exception):
    """Whoever read our output reads no more, as ``head`` does when it has enough."""


class Sink:
    """Raises ReaderGone from every method."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = sys.stdout.buffer if stream is None else stream
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0

    def write(self, line: bytes) -> None:
        self._gathered.append(line)
        self._gathered_bytes += len(line)
        if self._gathered_bytes >= GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """At every pause, or nobody sees the last records; without anything to write it is noticed that the reader has
        gone."""
        try:
            if self._gathered:
                self._stream.write(b"".join(self._gathered))
                self._gathered.clear()
                self._gathered_bytes = 0
            self._stream.flush()
        except BrokenPipeError as broken:
            abandon(self._stream)
            raise ReaderGone from broken
        if _is_closed(self._stream):
            abandon(self._stream)
            raise ReaderGone


def _is_closed(stream: BinaryIO) -> bool:
    """Of a pipe: whether its other end is. False for what is no pipe."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(events & select.POLLERR for _, events in poll.poll(0))
    except (OSError, ValueError):
        return False
