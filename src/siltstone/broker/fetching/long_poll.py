"""A fetch from beginning to end: gather, and gather again when there is news, until there is enough or no time left
(item 28): woken by the append that satisfies it, never by a poll."""

from collections.abc import Sequence
from typing import TypeGuard

from siltstone.broker.fetching.gathering import Gathering
from siltstone.broker.fetching.waiting import OpenWaits
from siltstone.broker.fetching.wanted import FoundPartition, WantedPartition
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import Partitions
from siltstone.runtime.clock import Clock


async def long_poll(
    partitions: Partitions,
    clock: Clock,
    waits: OpenWaits,
    wanted: Sequence[WantedPartition],
    *,
    bytes_min: int,
    bytes_max: int,
    wait_ms_max: int,
) -> list[FoundPartition]:
    """One row for each wanted partition, in their order. At once when one has an error, or none is wanted. More than
    ``bytes_max`` is not waited for, and nothing is when ``waits`` are over."""
    deadline_ms = clock.monotonic_ms() + wait_ms_max
    bytes_enough = min(bytes_min, bytes_max)
    while True:
        found = await Gathering(partitions, bytes_max).gather(wanted)
        left_ms = deadline_ms - clock.monotonic_ms()
        bytes_missing = bytes_enough - sum(row.size_bytes for row in found)
        is_enough = bytes_missing <= 0 or not found or any(row.ends_the_wait for row in found)
        if is_enough or left_ms <= 0 or waits.are_over:
            return found
        opened = [_opened(partitions, row.wanted) for row in found]
        if _are_as_found(opened, found):
            await waits.wait_for_news(opened, clock, left_ms, bytes_missing)


def _opened(partitions: Partitions, wanted: WantedPartition) -> Partition | None:
    assert wanted.topic is not None
    return partitions.opened(wanted.topic.id, wanted.index)


def _are_as_found(
    opened: Sequence[Partition | None], found: Sequence[FoundPartition]
) -> TypeGuard[Sequence[Partition]]:
    """False when something was appended, trimmed or deleted while other partitions were being read: nobody would ring
    for it again."""
    return all(
        partition is not None
        and not partition.is_closed
        and partition.high_watermark == row.high_watermark
        and partition.log_start_offset == row.log_start_offset
        for row, partition in zip(found, opened, strict=True)
    )
