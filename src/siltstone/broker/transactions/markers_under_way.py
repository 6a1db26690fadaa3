"""The markers that are on their way to one node are limited by their bytes and their number; others wait for their
turn.

So a node that is slow takes no more memory, and the questions of its own markers always find room on the connection.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from siltstone.broker.transactions.state_log.record import TopicPartition
from siltstone.model.serving_limits import MARKER_BYTES_UNDER_WAY_MAX, MARKER_REQUESTS_UNDER_WAY_MAX

_MARKER_BYTES, _PARTITION_BYTES = 100, 8


class MarkersUnderWay:
    """The markers that are on their way to one node."""

    def __init__(
        self,
        bytes_max: int = MARKER_BYTES_UNDER_WAY_MAX,
        requests_max: int = MARKER_REQUESTS_UNDER_WAY_MAX,
    ) -> None:
        self._bytes_max, self._requests_max = bytes_max, requests_max
        self._bytes = self._requests = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, byte_count: int) -> AsyncIterator[None]:
        """Waits for room, in the order of the calls. A request that is larger than the limit goes alone."""
        if self._waiting or not self._has_room(byte_count):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((byte_count, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.cancelled():
                    self._waiting.remove((byte_count, turn))
                else:
                    self._leave(byte_count)
                raise
        else:
            self._enter(byte_count)
        try:
            yield
        finally:
            self._leave(byte_count)

    def _has_room(self, byte_count: int) -> bool:
        fits = self._bytes + byte_count <= self._bytes_max and self._requests < self._requests_max
        return fits or not self._requests

    def _enter(self, byte_count: int) -> None:
        self._bytes += byte_count
        self._requests += 1

    def _leave(self, byte_count: int) -> None:
        self._bytes -= byte_count
        self._requests -= 1
        while self._waiting and self._has_room(self._waiting[0][0]):
            next_bytes, turn = self._waiting.popleft()
            self._enter(next_bytes)
            turn.set_result(None)


def bytes_of_markers(partitions: Collection[TopicPartition]) -> int:
    """Returns about how much memory a request for these markers takes."""
    return _MARKER_BYTES + sum(_PARTITION_BYTES + len(name) for name, _ in partitions)
