"""Lets catch-up reads give way to appends: the rate of these reads is lowered while appends take longer than they do
without them.

A reader that catches up uses resources that the appends need as well: the processors, the memory and the disk of this
machine, whose limits in bytes are not known. So the effect is measured instead. Every WINDOW_MS the mean time of the
appends in that window is compared with the time that appends take alone; when it has grown, the rate of all catch-up
reads together is halved, and otherwise it rises by a quarter. This is how a congested network is shared [AIMD, LEDBAT].

Without appends, and without catch-up reads, there is no limit. The lowest limit is CATCH_UP_BYTES_PER_SECOND_MIN, so
that a reader catches up in the end, whatever makes the appends slow.
"""

from collections import deque
from collections.abc import Callable
from statistics import fmean

from siltstone.foundation.histogram import HistogramCounts
from siltstone.model.limits import CATCH_UP_BYTES_PER_SECOND_MIN
from siltstone.object_store.bandwidth.limiter import Limiter
from siltstone.object_store.bandwidth.turns import Direction, Grade
from siltstone.runtime.clock import Clock

WINDOW_MS = 250
"""The length of a window: long enough for some appends of a slow producer, short enough that a reader is slowed down
before people notice."""

WINDOWS_MAX = 240
"""The time that appends take alone is measured over the windows of the last minute."""

QUIET_WINDOWS_MIN = 4
"""If there are at least this many windows without a catch-up read, only these count."""

GROWTH_MAX = 1.5
SLACK_SECONDS = 0.002
"""Appends may take half as long again, and 2 ms more, because their time varies that much anyway."""

SHRINKS_BY = 0.5
GROWS_BY = 1.25
IDLE_WINDOWS_MAX = 4
"""A limit stays for a second after the last catch-up read, since a reader may pause."""

NO_LIMIT = 0


class GivingWay:
    """Decides the rate of catch-up reads, window by window. Pure."""

    def __init__(self, bytes_per_second_min: int = CATCH_UP_BYTES_PER_SECOND_MIN) -> None:
        self._bytes_per_second_min = bytes_per_second_min
        self._quiet: deque[float] = deque(maxlen=WINDOWS_MAX)
        self._busy: deque[float] = deque(maxlen=WINDOWS_MAX)
        self._idle_windows = 0
        self.bytes_per_second = NO_LIMIT

    def window(self, appends: int, append_seconds: float, catch_up_bytes: int) -> int:
        """Is called at the end of a window, in which ``appends`` were answered, after ``append_seconds`` all together,
        and so many bytes of catch-up reads passed. → The limit for the next window, in bytes a second, or NO_LIMIT."""
        mean = append_seconds / appends if appends else None
        self._idle_windows = 0 if catch_up_bytes else self._idle_windows + 1
        if mean is None or self._idle_windows > IDLE_WINDOWS_MAX:
            self.bytes_per_second = NO_LIMIT
        elif catch_up_bytes:
            self._adapt(mean, catch_up_bytes * 1000 / WINDOW_MS)
        if mean is not None:
            (self._busy if catch_up_bytes else self._quiet).append(mean)
        return self.bytes_per_second

    @property
    def quiet_seconds(self) -> float | None:
        """The time that an append takes alone; None when that is not known yet."""
        if len(self._quiet) >= QUIET_WINDOWS_MIN:
            return fmean(self._quiet)
        return min((*self._quiet, *self._busy), default=None)

    def _adapt(self, mean: float, passing: float) -> None:
        quiet = self.quiet_seconds
        limit = self.bytes_per_second
        if quiet is not None and mean > GROWTH_MAX * quiet + SLACK_SECONDS:
            most = passing if limit == NO_LIMIT else min(passing, limit)
            self.bytes_per_second = max(self._bytes_per_second_min, int(most * SHRINKS_BY))
        elif limit != NO_LIMIT:
            self.bytes_per_second = int(limit * GROWS_BY)


async def give_way(
    catch_up: Limiter, appends: Callable[[], HistogramCounts], clock: Clock, giving: GivingWay
) -> None:
    """Sets the limit of the catch-up reads after each window, for ever. ``appends`` returns the seconds of all appends
    so far."""
    before, bytes_before = appends(), _passed(catch_up)
    while True:
        await clock.sleep_ms(WINDOW_MS)
        now, bytes_now = appends(), _passed(catch_up)
        limit = giving.bytes_per_second
        if (
            giving.window(now.count - before.count, now.total - before.total, bytes_now - bytes_before)
            != limit
        ):
            catch_up.change(Direction.IN, giving.bytes_per_second)
        before, bytes_before = now, bytes_now


def _passed(catch_up: Limiter) -> int:
    return catch_up.statistics().of(Direction.IN, Grade.CATCH_UP_READ).size_bytes
