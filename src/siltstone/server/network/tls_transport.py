"""Stands between a connection and the TLS transport of an event loop, which has two habits that lose bytes or sight.

It encrypts whatever it is given at once, and passes it to a transport below whose buffer no one sees: an answer of 50
MB would hold the event loop for 20 ms and count as sent. So it is given at most PIECE_BYTES at a time, and the rest
waits here until there is room again.

While its reading is paused it decrypts nothing; and when the peer ends then, uvloop drops what it has. So reading is
paused below it: the limits of its read buffer are set to 0, and it reads no more from the socket. What it had is
handed on at once, and the peer's end waits in the kernel.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from siltstone.model.buffers import Buffer
from siltstone.model.limits import KIB

PIECE_BYTES = 256 * KIB
"""What is encrypted in one call: 0.1 ms. Twice as much may be below, unseen, before the transport says so."""


READ_BUFFER_BYTES = 256 * KIB
"""The limit above which event loops stop reading by default."""


class TlsTransport:
    """What a ``Connection`` needs of a transport. The connection passes ``pause_writing`` and ``resume_writing`` of
    the transport below to ``below_is_full`` and ``below_has_room``; ``on_full`` and ``on_room`` are what it gets."""

    def __init__(
        self, below: asyncio.Transport, on_full: Callable[[], None], on_room: Callable[[], None]
    ) -> None:
        self._below = below
        self._limit_below: Callable[[int], None] = below.set_read_buffer_limits  # type: ignore[attr-defined]
        self._on_full = on_full
        self._on_room = on_room
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._high = PIECE_BYTES
        self._is_below_full = self._is_full = False
        self._is_closing = self._is_gone = False

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high
        self._below.set_write_buffer_limits(high=high)

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes + (0 if self._is_gone else self._below.get_write_buffer_size())

    def writelines(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            view = memoryview(buffer).cast("B")
            for start in range(0, len(view), PIECE_BYTES):
                self._waiting.append(view[start : start + PIECE_BYTES])
            self._waiting_bytes += len(view)
        self._pass_on()
        self._tell()

    def _pass_on(self) -> None:
        while self._waiting and not self._is_below_full:
            piece: list[memoryview] = []
            piece_bytes = 0
            while self._waiting and piece_bytes + len(self._waiting[0]) <= PIECE_BYTES:
                piece_bytes += len(self._waiting[0])
                piece.append(self._waiting.popleft())
            self._waiting_bytes -= piece_bytes
            self._below.writelines(piece)
        if self._is_closing and not self._waiting:
            self._close_below()

    def _tell(self) -> None:
        """Tells the connection when the limit is crossed, as a transport does."""
        size = self.get_write_buffer_size()
        if size > self._high and not self._is_full:
            self._is_full = True
            self._on_full()
        elif size <= self._high // 4 and self._is_full:
            self._is_full = False
            self._on_room()

    def below_is_full(self) -> None:
        self._is_below_full = True

    def below_has_room(self) -> None:
        self._is_below_full = False
        self._pass_on()
        self._tell()

    def pause_reading(self) -> None:
        self._limit_below(0)

    def resume_reading(self) -> None:
        self._limit_below(READ_BUFFER_BYTES)

    def close(self) -> None:
        """Closes the transport when everything that waits is on its way; until then nothing more is read."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._waiting:
            self.pause_reading()
        else:
            self._close_below()

    def _close_below(self) -> None:
        if not self._is_gone:
            self.resume_reading()  # the peer's answer to the end is read
            self._is_gone = True
            self._below.close()

    def abort(self) -> None:
        self._is_closing = self._is_gone = True
        self._waiting.clear()
        self._waiting_bytes = 0
        self._below.abort()

    def lost(self) -> None:
        """The transport below is gone, with what waited."""
        self._is_closing = self._is_gone = True
        self._waiting.clear()
        self._waiting_bytes = 0
