"""Which offset to scan from for a time: a sparse index over a partition, and its newest time. Pure.

An entry (t, o) says: no record before offset o is younger than t. Both grow from entry to entry, so the last entry with
t < target tells that everything before its o is too old, however the producers' clocks jumped about.
"""

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter

import msgspec

from siltstone.model.limits import TIME_INDEX_ENTRIES_MAX, TIME_INDEX_INTERVAL_BYTES
from siltstone.model.record_batch import NO_TIMESTAMP


class TimeEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    timestamp_ms: int
    offset: int


_timestamp = attrgetter("timestamp_ms")


class TimeIndex:
    """``newest`` is the largest timestamp and the base offset of the first batch that has it."""

    def __init__(
        self,
        entries: Iterable[TimeEntry] = (),
        newest: TimeEntry = TimeEntry(NO_TIMESTAMP, -1),  # noqa: B008
        *,
        interval_bytes: int = TIME_INDEX_INTERVAL_BYTES,
        entries_max: int = TIME_INDEX_ENTRIES_MAX,
    ) -> None:
        self._entries = list(entries)
        self.newest = newest
        self.interval_bytes = interval_bytes
        self._entries_max = entries_max
        self._bytes_since_entry = 0

    @property
    def entries(self) -> tuple[TimeEntry, ...]:
        return tuple(self._entries)

    def appended(self, max_timestamp_ms: int, base_offset: int, end_offset: int, size_bytes: int) -> None:
        """A batch came to the end of the partition."""
        if max_timestamp_ms > self.newest.timestamp_ms:
            self.newest = TimeEntry(max_timestamp_ms, base_offset)
        self._bytes_since_entry += size_bytes
        if self._bytes_since_entry >= self.interval_bytes:
            self._bytes_since_entry = 0
            self._add(TimeEntry(self.newest.timestamp_ms, end_offset))

    def scan_from(self, timestamp_ms: int) -> int:
        """An offset at or before the first record of that time or later. 0 when nothing is known."""
        position = bisect_left(self._entries, timestamp_ms, key=_timestamp)
        return self._entries[position - 1].offset if position else 0

    def _add(self, entry: TimeEntry) -> None:
        if self._entries and self._entries[-1].timestamp_ms == entry.timestamp_ms:
            self._entries.pop()  # the new one says the same of more records
        self._entries.append(entry)
        if len(self._entries) > self._entries_max:
            del self._entries[::2]
            self.interval_bytes *= 2
