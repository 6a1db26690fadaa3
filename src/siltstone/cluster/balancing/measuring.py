"""A node reports its load: the traffic of each partition as a mean of the last minute."""

from collections import deque
from collections.abc import Mapping

from siltstone.metadata.leases.board import PartitionLoad
from siltstone.model.limits import MINUTE_MS, SECOND_MS

WINDOW_MS = MINUTE_MS
MEASURE_INTERVAL_MS = 10 * SECOND_MS
STALE_MS = 30 * SECOND_MS
"""A measurement that is older is of a node that hangs, and no plan is made with it."""

LISTED_MAX = 200
"""Partitions that are listed one by one. The others are light, and moving one would change little."""

PartitionKey = tuple[str, int]
Counts = tuple[int, int, int]
"""Bytes in, bytes out, requests, since the partition was opened."""


class LoadMeter:
    """``listed_max``: so many partitions are listed one by one."""

    def __init__(self, listed_max: int = LISTED_MAX) -> None:
        self._listed_max = listed_max
        self._samples: deque[tuple[float, Mapping[PartitionKey, Counts]]] = deque()

    def measured(
        self, now_ms: float, counts: Mapping[PartitionKey, Counts]
    ) -> tuple[tuple[PartitionLoad, ...], tuple[float, float, float]]:
        """Adds a sample. → The heaviest partitions, heaviest first, and the sums of the others. ``now_ms``: of a
        monotonic clock. A partition that was opened in the meantime began at 0."""
        while self._samples and now_ms - self._samples[0][0] > WINDOW_MS:
            self._samples.popleft()
        self._samples.append((now_ms, counts))
        since_ms, before = self._samples[0]
        seconds = (now_ms - since_ms) / SECOND_MS
        if seconds <= 0:
            return (), (0.0, 0.0, 0.0)
        loads = sorted(
            (_load_of(key, count, before.get(key), seconds) for key, count in counts.items()),
            key=lambda load: (-_weight(load), load.topic_id, load.index),
        )
        listed = tuple(load for load in loads[: self._listed_max] if _weight(load) > 0)
        others = loads[len(listed) :]
        return listed, (
            sum(load.bytes_in for load in others),
            sum(load.bytes_out for load in others),
            sum(load.requests for load in others),
        )


def _load_of(key: PartitionKey, counts: Counts, before: Counts | None, seconds: float) -> PartitionLoad:
    """Counts that fell are those of a partition that was closed and opened again."""
    if before is None or any(now < then for now, then in zip(counts, before, strict=True)):
        before = (0, 0, 0)
    bytes_in, bytes_out, requests = ((now - then) / seconds for now, then in zip(counts, before, strict=True))
    return PartitionLoad(*key, bytes_in, bytes_out, requests)


def _weight(load: PartitionLoad) -> float:
    """Requests are given bytes, so that many small ones count."""
    return load.bytes_in + load.bytes_out + 1_000 * load.requests
