"""Long polling (item 28): gathers batches, and gathers again after appends, until there is enough or the time is up.

A fetch that waits is woken by the append that completes what it waits for, not by a timer that looks again and again:
``NewsWatch`` has one future, and a callback at each partition. ``OpenWaits`` ends all waits when the broker closes.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeGuard

import msgspec

from siltstone.broker.fetching.damaged_reads import DamagedReads
from siltstone.broker.fetching.gathering import Gathering
from siltstone.broker.fetching.wanted import FoundPartition, WantedPartition
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.runtime.clock import Clock


class NewsWatch:
    """``news`` is set when ``bytes_missing`` bytes more have become readable in the watched partitions together, or one
    of them was trimmed or closed. ``reads_committed``: readable is what is below the last stable offset."""

    def __init__(self, bytes_missing: int, reads_committed: bool = False) -> None:
        self._bytes_missing = bytes_missing
        self._reads_committed = reads_committed
        self.news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watched: list[tuple[Partition, Callable[[], None]]] = []

    def watch(self, partition: Partition) -> None:
        offset, start_offset = self._end_of(partition), partition.log_start_offset
        seen_bytes = 0

        def changed() -> None:
            nonlocal seen_bytes
            new_bytes = None if partition.is_closed else self._readable_bytes(partition, offset)
            if new_bytes is None or partition.log_start_offset != start_offset:
                self.ring()
                return
            self._bytes_missing -= new_bytes - seen_bytes
            seen_bytes = new_bytes
            if self._bytes_missing <= 0:
                self.ring()

        partition.watch(changed)
        self._watched.append((partition, changed))

    def _end_of(self, partition: Partition) -> int:
        return partition.last_stable_offset if self._reads_committed else partition.high_watermark

    def _readable_bytes(self, partition: Partition, offset: int) -> int | None:
        """Returns the bytes from ``offset`` to the end; None when some of them are only in objects."""
        from_offset, end_offset = partition.cached_bytes(offset), self._end_of(partition)
        if end_offset == partition.high_watermark or from_offset is None:
            return from_offset
        from_end = partition.cached_bytes(end_offset)
        return None if from_end is None else from_offset - from_end

    def ring(self) -> None:
        if not self.news.done():
            self.news.set_result(None)

    def end(self) -> None:
        for partition, changed in self._watched:
            partition.unwatch(changed)
        self._watched.clear()  # the list and the callbacks refer to each other


class OpenWaits:
    """The fetches of a broker that wait. ``end`` wakes all of them; after it, ``wait_for_news`` returns at once."""

    def __init__(self) -> None:
        self._watches: dict[NewsWatch, None] = {}
        self.are_over = False

    async def wait_for_news(
        self,
        partitions: Iterable[Partition],
        clock: Clock,
        duration_ms: float,
        bytes_missing: int,
        reads_committed: bool = False,
    ) -> float:
        """Returns when ``bytes_missing`` bytes more are readable, a partition was trimmed or closed, the time has
        passed, or all waits are over; returns for how many ms it has waited."""
        if self.are_over:
            return 0.0
        begun_ms = clock.monotonic_ms()
        watch = NewsWatch(bytes_missing, reads_committed)
        self._watches[watch] = None
        timer = clock.call_after_ms(duration_ms, watch.ring)
        try:
            for partition in partitions:
                watch.watch(partition)
            await watch.news
        finally:
            timer.cancel()
            self._watches.pop(watch, None)
            watch.end()
        return clock.monotonic_ms() - begun_ms

    def end(self) -> None:
        self.are_over = True
        for watch in self._watches:
            watch.ring()


class Polled(msgspec.Struct, frozen=True):
    """``found`` has a row for each wanted partition, in their order. Of the time, ``waited_ms`` went into waits for
    records; ``has_waited`` says that there was one."""

    found: list[FoundPartition]
    waited_ms: float = 0.0
    has_waited: bool = False


async def long_poll(
    partitions: Partitions,
    reads: DamagedReads,
    clock: Clock,
    waits: OpenWaits,
    wanted: Sequence[WantedPartition],
    *,
    bytes_min: int,
    bytes_max: int,
    wait_ms_max: int,
) -> Polled:
    """Returns at once when a row has an error, when no partition is wanted, and when ``waits`` are over. Never waits
    for more than ``bytes_max`` bytes. All of ``wanted`` have the same isolation level: a request has one."""
    deadline_ms = clock.monotonic_ms() + wait_ms_max
    waited_ms, has_waited = 0.0, False
    bytes_enough = min(bytes_min, bytes_max)
    while True:
        found = await Gathering(partitions, reads, bytes_max).gather(wanted)
        left_ms = deadline_ms - clock.monotonic_ms()
        bytes_missing = bytes_enough - sum(row.size_bytes for row in found)
        is_enough = bytes_missing <= 0 or not found or any(row.ends_the_wait for row in found)
        if is_enough or left_ms <= 0 or waits.are_over:
            return Polled(found, waited_ms, has_waited)
        opened = [_opened(partitions, row.wanted) for row in found]
        if _are_as_found(opened, found):
            reads_committed = wanted[0].reads_committed
            waited_ms += await waits.wait_for_news(opened, clock, left_ms, bytes_missing, reads_committed)
            has_waited = True


def _opened(partitions: Partitions, wanted: WantedPartition) -> Partition | None:
    assert wanted.topic is not None
    return partitions.opened(wanted.topic.id, wanted.index)


def _are_as_found(
    opened: Sequence[Partition | None], found: Sequence[FoundPartition]
) -> TypeGuard[Sequence[Partition]]:
    """Returns whether the partitions are as the rows say. False when one was appended to, trimmed or deleted while
    others were being read: a watch that begins now would miss that."""
    return all(
        partition is not None
        and not partition.is_closed
        and partition.high_watermark == row.high_watermark
        and partition.last_stable_offset == row.last_stable_offset
        and partition.log_start_offset == row.log_start_offset
        for row, partition in zip(found, opened, strict=True)
    )
