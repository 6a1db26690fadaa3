"""Waiting until partitions have so many bytes more: one future, and a callback at each of them; until nobody waits any
more, because the broker closes."""

import asyncio
from collections.abc import Callable, Iterable

from siltstone.broker.partitions.partition import Partition
from siltstone.runtime.clock import Clock


class NewsWatch:
    """Over many partitions at once. ``bytes_missing``: what has to become readable before it is worth looking again."""

    def __init__(self, bytes_missing: int) -> None:
        self._bytes_missing = bytes_missing
        self.news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watched: list[tuple[Partition, Callable[[], None]]] = []

    def watch(self, partition: Partition) -> None:
        offset, start_offset = partition.high_watermark, partition.log_start_offset
        seen_bytes = 0

        def changed() -> None:
            nonlocal seen_bytes
            new_bytes = None if partition.is_closed else partition.cached_bytes(offset)
            if new_bytes is None or partition.log_start_offset != start_offset:
                self.ring()
                return
            self._bytes_missing -= new_bytes - seen_bytes
            seen_bytes = new_bytes
            if self._bytes_missing <= 0:
                self.ring()

        partition.watch(changed)
        self._watched.append((partition, changed))

    def ring(self) -> None:
        if not self.news.done():
            self.news.set_result(None)

    def end(self) -> None:
        for partition, changed in self._watched:
            partition.unwatch(changed)
        self._watched.clear()  # it and the callbacks hold each other


class OpenWaits:
    """The waits under way of a broker. After ``end`` there are none: who waits is rung, and nobody waits again."""

    def __init__(self) -> None:
        self._watches: set[NewsWatch] = set()
        self.are_over = False

    async def wait_for_news(
        self, partitions: Iterable[Partition], clock: Clock, duration_ms: float, bytes_missing: int
    ) -> None:
        """Until that many bytes became readable, a partition was trimmed or closed, the time has passed, or all waits
        are over."""
        if self.are_over:
            return
        watch = NewsWatch(bytes_missing)
        self._watches.add(watch)
        timer = clock.call_after_ms(duration_ms, watch.ring)
        try:
            for partition in partitions:
                watch.watch(partition)
            await watch.news
        finally:
            timer.cancel()
            self._watches.discard(watch)
            watch.end()

    def end(self) -> None:
        self.are_over = True
        for watch in self._watches:
            watch.ring()
