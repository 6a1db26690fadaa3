"""Writes a long stream of lines to stdout in large pieces, and notices when the reader of the pipe has gone."""

import select
import sys
from typing import BinaryIO

from siltstone.cli.output import abandon
from siltstone.model.limits import KIB

GATHERED_BYTES = 64 * KIB


class ReaderGone(Exception):
    """The reader of stdout, such as ``head``, has closed the pipe."""


class Sink:
    """Gathers lines and writes them together. Both methods raise ReaderGone."""

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
        """Writes the gathered lines. The caller flushes whenever no record is waiting, so that the last records are
        seen. Raises ReaderGone also when there is nothing to write; if the reader goes away after it has received
        everything, the next call says so."""
        if _is_closed(self._stream):
            abandon(self._stream)
            raise ReaderGone
        try:
            if self._gathered:
                self._stream.write(b"".join(self._gathered))
                self._gathered.clear()
                self._gathered_bytes = 0
            self._stream.flush()
        except BrokenPipeError as broken:
            abandon(self._stream)
            raise ReaderGone from broken


def _is_closed(stream: BinaryIO) -> bool:
    """Returns whether ``stream`` is a pipe whose reading end is closed."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(events & select.POLLERR for _, events in poll.poll(0))
    except (OSError, ValueError):
        return False
