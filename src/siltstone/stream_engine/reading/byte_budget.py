"""A limit on the bytes held at the same time: a semaphore that counts bytes and admits requests in order."""

import asyncio
from collections import deque


class ByteBudget:
    """A request larger than the whole budget is admitted when nothing else is held: a large block must be readable,
    too."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.bytes_used = 0

    def try_acquire(self, size_bytes: int) -> bool:
        """Acquires the bytes if there is room and no other request waits; returns whether it did."""
        if self._waiting or not self._has_room_for(size_bytes):
            return False
        self.bytes_used += size_bytes
        return True

    async def acquire(self, size_bytes: int) -> None:
        if self.try_acquire(size_bytes):
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.release(size_bytes)
            else:
                self._admit()
            raise

    def release(self, size_bytes: int) -> None:
        self.bytes_used -= size_bytes
        self._admit()

    def _has_room_for(self, size_bytes: int) -> bool:
        return self.bytes_used == 0 or self.bytes_used + size_bytes <= self._bytes_max

    def _admit(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._has_room_for(self._waiting[0][0])):
            size_bytes, admitted = self._waiting.popleft()
            if not admitted.done():
                self.bytes_used += size_bytes
                admitted.set_result(None)
