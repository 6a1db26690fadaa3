"""The bytes of requests that have been received and not answered, of all connections together.

When they reach the limit, a connection that asks to read on waits in line; a frame may still be received where memory
is allocated already (``Connection`` sees to that). Requests that are whole will be answered, and give back what they
hold. But if everything is held by frames that are not, nothing would move again: then one of them at a time, the
finisher, may grow to its end. So at most one largest frame is held beyond the limit, and what one read brings and
begins.
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
        """The next bytes of its frame go where memory is allocated already."""
        ...


class RequestMemory:
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
        """Of whole requests, and of frames that are not whole. Negative: given back."""
        self._request_bytes += request_bytes
        self._frame_bytes += frame_bytes
        if self.line:
            self.line.room_made()
            self._appoint_finisher()

    def admits(self, reader: Reader) -> bool:
        """Whether it may read on. If not it is in line now."""
        if reader is self._finisher or self.line.admits(reader):
            return True
        self._appoint_finisher()
        return reader is self._finisher

    def is_finisher(self, reader: Reader) -> bool:
        return reader is self._finisher

    def frame_ended(self, reader: Reader) -> None:
        """It finished its frame, or is gone."""
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
        """Each takes a receive buffer full at most, and then asks again."""
        if self.is_short:
            return 0
        return max(1, (self._bytes_max - self.bytes_used) // RECEIVE_BUFFER_BYTES)
