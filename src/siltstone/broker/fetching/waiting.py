"""Waiting until partitions have so many bytes more: one future, and a callback at each of them."""

import asyncio
from collections.abc import Callable, Iterable

from siltstone.broker.partitions.partition import Partition
from siltstone.runtime.clock import Clock


class NewsWatch:
    """Over many partitions at once. ``bytes_missing``: what has to come before it is worth looking again."""

    def __init__(self, bytes_missing: int) -> None:
        self._bytes_missing = bytes_missing
        self.news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watched: list[tuple[Partition, Callable[[], None]]] = []

    def watch(self, partition: Partition) -> None:
        seen_bytes, start_offset = partition.bytes_appended, partition.log_start_offset

        def changed() -> None:
            nonlocal seen_bytes
            self._bytes_missing -= partition.bytes_appended - seen_bytes
            seen_bytes = partition.bytes_appended
            if self._bytes_missing <= 0 or partition.is_closed or partition.log_start_offset != start_offset:
                self.ring()

        partition.watch(changed)
        self._watched.append((partition, changed))

    def ring(self) -> None:
        if not self.news.done():
            self.news.set_result(None)

    def end(self) -> None:
        for partition, changed in self._watched:
            partition.unwatch(changed)


async def wait_for_news(
    partitions: Iterable[Partition], clock: Clock, duration_ms: float, bytes_missing: int
) -> None:
    """Until that many bytes were appended, a partition was trimmed or closed, or the time has passed."""
    watch = NewsWatch(bytes_missing)
    timer = clock.call_after_ms(duration_ms, watch.ring)
    try:
        for partition in partitions:
            watch.watch(partition)
        await watch.news
    finally:
        timer.cancel()
        watch.end()
