"""When the next bulk of a log in a bucket is put: at once while no put is under way, otherwise after an interval.

The ceiling of an hour is a *leaky bucket*: each put costs an interval, ``hour / per_hour_max``, and a second's worth of
puts may be made ahead. So a log with few appends puts each at once, and a busy one makes a put each interval. With the
default of 72,000 an interval is 50 ms: an append of a busy node waits half of it, and its put (decision 21).
"""

from math import inf

from siltstone.model.limits import HOUR_MS, SECOND_MS

AHEAD_MS = 1 * SECOND_MS
"""Puts may be made ahead for this time: appends that come in a burst, after a pause, do not wait for each other."""


class PutPace:
    """The pace of one log. It holds no clock: the caller asks when a bulk is due, waits, and tells when it put it.

    Times are in milliseconds of a monotonic clock.
    """

    def __init__(self, per_hour_max: int) -> None:
        self._interval_ms = HOUR_MS / per_hour_max
        self._paid_ms = self._put_ms = -inf

    def due_ms(self, *, is_under_way: bool) -> float:
        """Returns the time from which on a bulk may be put; one that is full does not wait for it.

        ``is_under_way``: whether another put has not been answered yet.
        """
        allowed_ms = self._paid_ms - AHEAD_MS
        # Otherwise what arrives during a put would leave as many small objects, which are answered one after another.
        return max(allowed_ms, self._put_ms + self._interval_ms) if is_under_way else allowed_ms

    def put(self, now_ms: float) -> None:
        """Pays for a put, whether it was due or full.

        Full bulks may exceed the ceiling; they hold up what follows by an interval at most.
        """
        self._put_ms = now_ms
        paid_ms = max(self._paid_ms, now_ms) + self._interval_ms
        self._paid_ms = min(paid_ms, now_ms + AHEAD_MS + self._interval_ms)
