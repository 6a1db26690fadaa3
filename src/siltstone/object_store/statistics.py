"""Counts of the requests and bytes of a store, and their seconds. The demo, the metrics and the tests read the same
value."""

from collections import Counter, defaultdict
from threading import Lock

import msgspec

from siltstone.foundation.histogram import Histogram, HistogramCounts


class StoreStatistics(msgspec.Struct, frozen=True):
    requests: dict[str, int]
    """The number of requests by method of the port, retries included. A listing counts as one, however many pages it
    has."""
    retries: int
    bytes_read: int
    bytes_written: int

    def requests_of(self, kind: str) -> int:
        return self.requests.get(kind, 0)

    def __add__(self, other: "StoreStatistics") -> "StoreStatistics":
        return StoreStatistics(
            dict(Counter(self.requests) + Counter(other.requests)),
            self.retries + other.retries,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )

    def __sub__(self, earlier: "StoreStatistics") -> "StoreStatistics":
        """Returns the counts since ``earlier``."""
        return StoreStatistics(
            dict(Counter(self.requests) - Counter(earlier.requests)),
            self.retries - earlier.retries,
            self.bytes_read - earlier.bytes_read,
            self.bytes_written - earlier.bytes_written,
        )


class RequestCounter:
    """Counts the requests of all threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[str] = Counter()
        self._retries = self._bytes_read = self._bytes_written = 0
        self._seconds: defaultdict[str, Histogram] = defaultdict(Histogram)

    def count_request(self, kind: str, *, is_retry: bool = False) -> None:
        with self._lock:
            self._requests[kind] += 1
            self._retries += is_retry

    def observe(self, kind: str, seconds: float) -> None:
        with self._lock:
            self._seconds[kind].observe(seconds)

    def seconds(self) -> dict[str, HistogramCounts]:
        """Returns the seconds of requests by method of the port, failed ones included. Listings are not timed: their
        pages are requested one by one, as their caller reads on."""
        with self._lock:
            return {kind: histogram.counts() for kind, histogram in self._seconds.items()}

    def count_bytes(self, *, read: int = 0, written: int = 0) -> None:
        """Counts the bytes of a call that succeeded. The bytes that failed attempts transferred are unknown."""
        with self._lock:
            self._bytes_read += read
            self._bytes_written += written

    def statistics(self) -> StoreStatistics:
        with self._lock:
            return StoreStatistics(dict(self._requests), self._retries, self._bytes_read, self._bytes_written)
