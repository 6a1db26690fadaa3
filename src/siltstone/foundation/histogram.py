"""A histogram counts observations in buckets of fixed upper bounds. Pure.

An observation is one bisection and two additions, about 0.2 µs, and takes no lock: a histogram belongs to one event
loop, or its owner guards it. ``counts`` takes a copy, which any thread may read.
"""

from bisect import bisect_left

import msgspec

REQUEST_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds for the waits of clients and callers: half a millisecond to ten seconds."""


class HistogramCounts(msgspec.Struct, frozen=True):
    """``counts`` has the number of observations for each of ``bounds``, not cumulated, and one more for those above
    the last bound. ``total`` is the sum of the observed values."""

    bounds: tuple[float, ...] = REQUEST_SECONDS
    counts: tuple[int, ...] = (0,) * (len(REQUEST_SECONDS) + 1)
    total: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def __add__(self, other: "HistogramCounts") -> "HistogramCounts":
        assert self.bounds == other.bounds
        counts = tuple(mine + its for mine, its in zip(self.counts, other.counts, strict=True))
        return HistogramCounts(self.bounds, counts, self.total + other.total)


class Histogram:
    """An observation equal to a bound is counted for that bound, as Prometheus wants it."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...] = REQUEST_SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def counts(self) -> HistogramCounts:
        return HistogramCounts(self._bounds, tuple(self._counts), self._total)
