"""Limits the memory of requests that were received and not yet answered, of all connections together.

At the limit, a connection that wants to read waits in line; ``Connection`` may still receive the part of a frame
whose memory is allocated already. Complete requests release their memory when they are answered. If incomplete frames
hold all of the memory, no request could ever be completed; then one connection at a time, the *finisher*, may let its
frame grow to its end. So the limit is exceeded by at most one frame of the largest size, and by what a single read
brings.
"""

import asyncio
from typing import Protocol

from siltstone.server.network.frame_reader import RECEIVE_BUFFER_BYTES
from siltstone.server.network.waiting_line import Waiter, WaitingLine


class Reader(Waiter, Protocol):
    @property
    def is_mid_frame(self) -> bool: ...

    @property
    def has_paid_room(self) -> bool:
        """Whether the next bytes of its frame have memory that is already allocated."""
        ...


class RequestMemory:
    """The memory of all requests and incomplete frames, against ``bytes_max``."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._finisher: Reader | None = None
        self._request_bytes = self._frame_bytes = 0
        self.line: WaitingLine[Reader] = WaitingLine(self._places)

    @property
    def bytes_used(self) -> int:
        return self._request_bytes + self._frame_bytes

    @property
    def is_short(self) -> bool:
        return self._request_bytes + self._frame_bytes >= self._bytes_max

    def add(self, request_bytes: int, frame_bytes: int) -> None:
        """Adds the bytes of complete requests, and those of incomplete frames; negative numbers release them."""
        self._request_bytes += request_bytes
        self._frame_bytes += frame_bytes
        if self.line:
            self.line.room_made()
            self._appoint_finisher()

    def admits(self, reader: Reader) -> bool:
        """Returns whether the connection may read on. If not, it joins the line."""
        if reader is self._finisher or self.line.admits(reader):
            return True
        self._appoint_finisher()
        return reader is self._finisher

    def is_finisher(self, reader: Reader) -> bool:
        return reader is self._finisher

    def frame_ended(self, reader: Reader) -> None:
        """Ends the turn of the finisher: its frame is complete, or its connection is closed."""
        if reader is self._finisher:
            self._finisher = None
            self._appoint_finisher()

    def leave(self, reader: Reader) -> None:
        self.line.leave(reader)
        self.frame_ended(reader)

    def _appoint_finisher(self) -> None:
        if self._finisher is not None or self._request_bytes or not self.is_short:
            return
        for reader in self.line:
            if reader.is_mid_frame and not reader.has_paid_room:
                self._finisher = reader
                self.line.leave(reader)
                asyncio.get_running_loop().call_soon(reader.go_on)
                return

    def _places(self) -> int:
        """Returns how many connections may read on: each receives at most one receive buffer before it asks again."""
        if self.is_short:
            return 0
        return max(1, (self._bytes_max - self.bytes_used) // RECEIVE_BUFFER_BYTES)
