"""Reads the metrics of the buckets, requests with their time and estimated cost, and those of the disks. Next:
``object_source``."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from siltstone.foundation.histogram import HistogramCounts
from siltstone.model.limits import GIB, SECOND_MS
from siltstone.object_store.bandwidth.limiter import LimiterStatistics
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.retrying import StoreStatistics
from siltstone.offline.pressure import Space
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.files import Disks
from siltstone.server.admin.scrape import Collected
from siltstone.server.settings.admin import AdminPrices

MILLION = 1_000_000
READS = frozenset({"get_range", "head"})
FREE = frozenset({"delete", "abort_multipart"})
"""Operations that S3 charges nothing for. All others cost as much as a put."""

DISKS_INTERVAL_MS = 10 * SECOND_MS
DISK_SECONDS_MAX = 1.0
"""How long a scrape waits for a disk. A disk that hangs, such as a network disk whose server is gone, has no series
until it answers again."""


class StoreSource:
    """``buckets`` are all that the process has open; those of one id are the same bucket."""

    def __init__(self, buckets: Sequence[Buckets], prices: AdminPrices) -> None:
        self._buckets = buckets
        self._prices = prices

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        counts: dict[int, StoreStatistics] = {}
        seconds: dict[tuple[int, str], HistogramCounts] = {}
        for buckets in self._buckets:
            for bucket_id, (statistics, of_operations) in buckets.requests().items():
                before = counts.get(bucket_id)
                counts[bucket_id] = statistics if before is None else before + statistics
                for operation, observed in of_operations.items():
                    key = bucket_id, operation
                    seconds[key] = observed if key not in seconds else seconds[key] + observed
            yield
        for bucket_id, statistics in counts.items():
            self._add(collected, str(bucket_id), statistics)
            yield
        for bucket_id in counts:
            is_silent = any(buckets.silent().get(bucket_id) for buckets in self._buckets)
            collected.add("store_silent", int(is_silent), str(bucket_id))
            passed_over = sum(buckets.passed_over().get(bucket_id, 0) for buckets in self._buckets)
            collected.add("store_copies_passed_over", passed_over, str(bucket_id))
        for (bucket_id, operation), observed in seconds.items():
            collected.add("store_request_seconds", observed, str(bucket_id), operation)
            yield
        for limiter in {id(buckets.limiter): buckets.limiter for buckets in self._buckets}.values():
            _add_bandwidth(collected, limiter.statistics())
            yield

    def _add(self, collected: Collected, bucket: str, statistics: StoreStatistics) -> None:
        for operation, count in statistics.requests.items():
            collected.add("store_requests", count, bucket, operation)
        collected.add("store_retries", statistics.retries, bucket)
        collected.add("store_read_bytes", statistics.bytes_read, bucket)
        collected.add("store_written_bytes", statistics.bytes_written, bucket)
        collected.add("store_cost", cost_of(statistics, self._prices), bucket)


def _add_bandwidth(collected: Collected, bandwidth: LimiterStatistics) -> None:
    """Adds the series of the limiter, which all buckets of the process share."""
    for direction, bytes_per_second in bandwidth.bytes_per_second.items():
        collected.add("bandwidth_limit_bytes", bytes_per_second, direction.value)
    for passed in bandwidth.passed:
        labels = passed.direction.value, passed.grade.label
        collected.add("bandwidth_bytes", passed.size_bytes, *labels)
        collected.add("bandwidth_held_seconds", passed.held_seconds, *labels)
        collected.add("bandwidth_waiting_bytes", passed.waiting_bytes, *labels)


def cost_of(statistics: StoreStatistics, prices: AdminPrices) -> float:
    """Estimates what a provider would charge for these requests and the bytes that were read, by the prices."""
    reads = sum(count for operation, count in statistics.requests.items() if operation in READS)
    free = sum(count for operation, count in statistics.requests.items() if operation in FREE)
    writes = sum(statistics.requests.values()) - reads - free
    return (
        writes * prices.writes_per_million / MILLION
        + reads * prices.reads_per_million / MILLION
        + statistics.bytes_read * prices.read_per_gib / GIB
    )


class DiskSource:
    """``folders``: the folder of each disk by the name that its series have."""

    def __init__(self, folders: Mapping[str, Path], disks: Disks, calls: BlockingCalls, clock: Clock) -> None:
        self._folders = folders
        self._disks = disks
        self._calls = calls
        self._clock = clock
        self._looked_ms: float | None = None
        self._look_under_way: asyncio.Future[dict[str, Space]] | None = None
        self._spaces: dict[str, Space] = {}

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        await self._look()
        yield
        for name, space in self._spaces.items():
            collected.add("disk_free_bytes", space.room_bytes, name)
            collected.add("disk_used_ratio", round(space.use, 6), name)
            collected.add("disk_pressure", int(space.pressure), name)
        yield

    async def _look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._look_under_way is None:
            if self._looked_ms is not None and now_ms - self._looked_ms < DISKS_INTERVAL_MS:
                return
            self._look_under_way = asyncio.ensure_future(self._calls.run(self._measured))
            self._looked_ms = now_ms
        under_way = self._look_under_way
        await asyncio.wait({under_way}, timeout=DISK_SECONDS_MAX)
        self._spaces = under_way.result() if under_way.done() else {}
        self._look_under_way = None if under_way.done() else under_way

    def _measured(self) -> dict[str, Space]:
        """Measures the disks, in a thread. A folder whose disk cannot be read is left out."""
        spaces: dict[str, Space] = {}
        for name, folder in self._folders.items():
            try:
                used, capacity = self._disks.space_of(folder)
            except OSError:
                continue
            spaces[name] = Space(name, used, capacity)
        return spaces
