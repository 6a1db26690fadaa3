"""The bytes of requests that have been received and not answered, of all connections together.

When they reach the limit, a connection that asks to read on waits in line. Two exceptions keep the whole from standing
still, for only whole requests can be answered and give back what they hold: what is allocated may be filled; and one
connection at a time may let its frame grow to its end. So at most one largest frame is held beyond the limit, and what
one read brings.
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
        """What it reads next goes where memory is allocated already."""
        ...


class RequestMemory:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._finisher: Reader | None = None
        self.line: WaitingLine[Reader] = WaitingLine(self._places)
        self.bytes_used = 0

    @property
    def is_short(self) -> bool:
        return self.bytes_used >= self._bytes_max

    def add(self, byte_count: int) -> None:
        """Negative: given back."""
        self.bytes_used += byte_count
        if byte_count < 0 and self.line:
            self.line.room_made()

    def admits(self, reader: Reader) -> bool:
        """Whether it may read on. If not it is in line now."""
        if not self.line and not self.is_short:
            return True
        if reader.has_paid_room or reader is self._finisher:
            return True
        if self.is_short and self._finisher is None and reader.is_mid_frame:
            self._finisher = reader
            return True
        return self.line.admits(reader)

    def frame_ended(self, reader: Reader) -> None:
        """It finished its frame, or is gone: the next who is in the middle of one may finish."""
        if self._finisher is not reader:
            return
        self._finisher = None
        if self.is_short:
            self._finisher = next((waiting for waiting in self.line if waiting.is_mid_frame), None)
        if self._finisher is not None:
            self.line.leave(self._finisher)
            asyncio.get_running_loop().call_soon(self._finisher.go_on)

    def leave(self, reader: Reader) -> None:
        self.line.leave(reader)
        self.frame_ended(reader)

    def _places(self) -> int:
        """Each takes a receive buffer full at most, and then asks again."""
        if self.is_short:
            return 0
        return max(1, (self._bytes_max - self.bytes_used) // RECEIVE_BUFFER_BYTES)
