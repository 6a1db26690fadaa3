"""A sparse index over a partition that says from which offset to scan for a time, and the newest timestamp. Pure.

An entry (t, o) means that no record before offset o is younger than t. Both t and o grow from entry to entry. So all
records before the o of the last entry with t < target are older than the target, even if producers' clocks jumped.
"""

from bisect import bisect_left, bisect_right
from operator import attrgetter

from siltstone.model.limits import TIME_INDEX_ENTRIES_MAX
from siltstone.object_formats.partition_snapshot import TimeEntry, TimeIndexState

_timestamp = attrgetter("timestamp_ms")
_offset = attrgetter("offset")


class TimeIndex:
    """``newest`` is the largest timestamp, and an offset in the first batch that has it. That batch may have been
    trimmed: then ``time_lookup`` scans for the next one and calls ``renew_newest``."""

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
        """Indexes a batch that was appended to the partition."""
        if max_timestamp_ms > self.newest.timestamp_ms:
            self.newest = TimeEntry(max_timestamp_ms, base_offset)
        self._bytes_since_entry += size_bytes
        if self._bytes_since_entry >= self._interval_bytes:
            self._bytes_since_entry = 0
            self._add(end_offset)

    def scan_from(self, timestamp_ms: int) -> int:
        """Returns an offset that is not behind the first record at or after the time; 0 when the index has no entry
        before it."""
        position = bisect_left(self._entries, timestamp_ms, key=_timestamp)
        return self._entries[position - 1].offset if position else 0

    def time_before(self, offset: int) -> int | None:
        """Returns the largest timestamp of the records before the last entry at or below ``offset``: about the time of
        the record at ``offset``, and rather too early than too late. None when the index has no such entry."""
        position = bisect_right(self._entries, offset, key=_offset)
        return self._entries[position - 1].timestamp_ms if position else None

    def trim(self, start_offset: int) -> None:
        """Drops the entries that cover only records before ``start_offset``."""
        del self._entries[: bisect_right(self._entries, start_offset, key=_offset)]

    def renew_newest(self, newest: TimeEntry) -> None:
        """Replaces the newest timestamp, whose record was trimmed or compacted."""
        self.newest = newest

    def _add(self, offset: int) -> None:
        timestamp_ms = self.newest.timestamp_ms
        if self._entries and self._entries[-1].timestamp_ms >= timestamp_ms:
            timestamp_ms = self._entries.pop().timestamp_ms  # the new entry covers these records, too
        self._entries.append(TimeEntry(timestamp_ms, offset))
        if len(self._entries) > self._entries_max:
            del self._entries[::2]
            self._interval_bytes *= 2
