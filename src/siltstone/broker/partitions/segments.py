"""The segments of an open partition: the active one, and closed ones that are not recorded in the metadata yet.

Nothing here waits, and an append costs a few comparisons. ``segment_rolls`` records closed segments in the metadata; if
one is lost before that, its offsets become part of a longer segment. Read next: ``topic_configs.rolling``.
"""

from collections.abc import Iterable

from siltstone.model.limits import SEGMENT_REST_MS, SEGMENTS_UNWRITTEN_MAX
from siltstone.model.segments import ActiveSegment, ClosedSegment
from siltstone.runtime.randomness import seeded_randomness
from siltstone.topic_configs.rolling import (
    RollLimits,
    holds_up_retention,
    is_full_for,
    is_too_old,
    roll_limits,
)
from siltstone.topic_configs.table import TopicConfig


class PartitionSegments:
    """``stream_id`` is that of the data stream, ``config`` the topic's configuration as of the last ``check``."""

    def __init__(
        self,
        stream_id: int,
        active: ActiveSegment,
        config: TopicConfig,
        unwritten: Iterable[ClosedSegment] = (),
    ) -> None:
        self.stream_id = stream_id
        self._active = active
        self._unwritten = list(unwritten)
        self._config = config
        self._limits = self._limits_of_active()
        self._appended_ms = 0

    @property
    def active(self) -> ActiveSegment:
        return self._active

    @property
    def limits(self) -> RollLimits:
        return self._limits

    @property
    def unwritten(self) -> tuple[ClosedSegment, ...]:
        """Closed segments that are not recorded in the metadata, oldest first."""
        return tuple(self._unwritten)

    def appended(
        self, end_offset: int, size_bytes: int, largest_timestamp_ms: int, now_ms: int, opened_ms: int = -1
    ) -> bool:
        """Counts a batch. Returns whether the active segment was closed before it. ``opened_ms`` is when the batch was
        appended, if that is not now."""
        is_closed = is_full_for(self._active, self._limits, size_bytes, now_ms)
        if is_closed:
            self._close(now_ms)
        came_ms = now_ms if opened_ms < 0 else opened_ms
        self._active = self._active.appended(end_offset, size_bytes, largest_timestamp_ms, came_ms)
        self._appended_ms = now_ms
        return is_closed

    def check(self, config: TopicConfig, now_ms: int) -> bool:
        """Closes the active segment if it is too old, or if retention waits for it and nothing is being appended.
        Returns whether it did."""
        if config is not self._config:
            self._config = config
            self._limits = self._limits_of_active()
        is_due = is_too_old(self._active, self._limits, now_ms) or (
            now_ms - self._appended_ms >= SEGMENT_REST_MS
            and holds_up_retention(self._active, self._config, now_ms)
        )
        if is_due:
            self._close(now_ms)
        return is_due

    def follow(self, active_offset: int) -> None:
        """Drops what lies before ``active_offset``, where the active segment begins according to the metadata: closed
        segments were recorded, maintenance has closed some, or the partition was trimmed."""
        while self._unwritten and self._unwritten[0].end_offset <= active_offset:
            del self._unwritten[0]
        if self._unwritten:
            if self._unwritten[0].start_offset < active_offset:
                self._unwritten[0] = self._unwritten[0].beginning_at(active_offset)
        elif self._active.start_offset < active_offset:
            self._active = self._active.beginning_at(active_offset)

    def _close(self, now_ms: int) -> None:
        closed = self._active.closed(now_ms)
        if len(self._unwritten) >= SEGMENTS_UNWRITTEN_MAX:
            closed = self._unwritten.pop().joined(closed)
        self._unwritten.append(closed)
        self._active = ActiveSegment(closed.end_offset, closed.end_offset)
        self._limits = self._limits_of_active()

    def _limits_of_active(self) -> RollLimits:
        return roll_limits(self._config, chance_of_segment(self.stream_id, self._active.start_offset))


def chance_of_segment(stream_id: int, start_offset: int) -> float:
    """Returns a number in [0, 1) that is always the same for a segment, also after a restart of its node."""
    return seeded_randomness(stream_id << 63 | start_offset).random()
