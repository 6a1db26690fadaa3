"""Which offset to scan from for a time: a sparse index over a partition, and its newest time. Pure.

An entry (t, o) says: no record before offset o is younger than t. Both grow from entry to entry, so the last entry with
t < target tells that everything before its o is too old, however the producers' clocks jumped about.
"""

from bisect import bisect_left, bisect_right
from operator import attrgetter

import msgspec

from siltstone.model.limits import TIME_INDEX_ENTRIES_MAX, TIME_INDEX_INTERVAL_BYTES
from siltstone.model.record_batch import NO_TIMESTAMP


class TimeEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    timestamp_ms: int
    offset: int


NOTHING_NEWEST = TimeEntry(NO_TIMESTAMP, -1)

_timestamp = attrgetter("timestamp_ms")
_offset = attrgetter("offset")


class TimeIndexState(msgspec.Struct, frozen=True, array_like=True):
    """All of an index, to be written down. ``bytes_since_entry``: appended after the last entry."""

    entries: tuple[TimeEntry, ...] = ()
    newest: TimeEntry = NOTHING_NEWEST
    interval_bytes: int = TIME_INDEX_INTERVAL_BYTES
    bytes_since_entry: int = 0


class TimeIndex:
    """``newest`` is the largest timestamp, and an offset in the first batch that has it. It may have been trimmed
    away: then a scan finds the next, which ``renew_newest`` is told."""

    def __init__(
        self,
        state: TimeIndexState = TimeIndexState(),  # noqa: B008
        entries_max: int = TIME_INDEX_ENTRIES_MAX,
    ) -> None:
        self._entries = list(state.entries)
        self.newest = state.newest
        self._interval_bytes = state.interval_bytes
        self._bytes_since_entry = state.bytes_since_entry
        self._entries_max = entries_max

    @property
    def state(self) -> TimeIndexState:
        return TimeIndexState(
            tuple(self._entries), self.newest, self._interval_bytes, self._bytes_since_entry
        )

    def appended(self, max_timestamp_ms: int, base_offset: int, end_offset: int, size_bytes: int) -> None:
        """A batch came to the end of the partition."""
        if max_timestamp_ms > self.newest.timestamp_ms:
            self.newest = TimeEntry(max_timestamp_ms, base_offset)
        self._bytes_since_entry += size_bytes
        if self._bytes_since_entry >= self._interval_bytes:
            self._bytes_since_entry = 0
            self._add(end_offset)

    def scan_from(self, timestamp_ms: int) -> int:
        """An offset at or before the first record of that time or later. 0 when nothing is known."""
        position = bisect_left(self._entries, timestamp_ms, key=_timestamp)
        return self._entries[position - 1].offset if position else 0

    def trim(self, start_offset: int) -> None:
        """Forget what tells of records before ``start_offset`` only: they are gone."""
        del self._entries[: bisect_right(self._entries, start_offset, key=_offset)]

    def renew_newest(self, newest: TimeEntry) -> None:
        """The largest timestamp of those that are left."""
        self.newest = newest

    def _add(self, offset: int) -> None:
        timestamp_ms = self.newest.timestamp_ms
        if self._entries and self._entries[-1].timestamp_ms >= timestamp_ms:
            timestamp_ms = self._entries.pop().timestamp_ms  # the new one says the same of more records
        self._entries.append(TimeEntry(timestamp_ms, offset))
        if len(self._entries) > self._entries_max:
            del self._entries[::2]
            self._interval_bytes *= 2
