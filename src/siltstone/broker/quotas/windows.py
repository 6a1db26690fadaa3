"""How much was used lately, and how long a client above its limit waits [Kafka: Rate, TokenBucket, QuotaUtils].

A rate is measured over eleven windows of a second. A window begins with the first use after the one before was full,
and is dropped eleven seconds after its last use. What is above the limit is paid by waiting: (used - limit) / limit of
the measured time. A bucket is for what comes seldom and in bursts: it holds eleven seconds of its limit, and may be
overdrawn once.
"""

from collections import deque
from collections.abc import Iterable

import msgspec

from siltstone.model.limits import SECOND_MS
from siltstone.model.serving_limits import QUOTA_WINDOW_MS, QUOTA_WINDOWS

FULL_WINDOWS = QUOTA_WINDOWS - 1
_FULL_SECONDS = FULL_WINDOWS * QUOTA_WINDOW_MS / SECOND_MS
_KEPT_MS = QUOTA_WINDOWS * QUOTA_WINDOW_MS


class _Window(msgspec.Struct, gc=False):
    start_ms: float
    latest_ms: float
    amount: float


class MeasuredRate:
    """The use of the last eleven seconds. Times are of a clock that never goes back."""

    def __init__(self) -> None:
        self._windows: deque[_Window] = deque()
        self._total = 0.0
        """Of all windows, those included that do not count any more."""

    def add(self, amount: float, now_ms: float) -> None:
        """Counts a use; a negative one takes an earlier one back."""
        newest = self._windows[-1] if self._windows else None
        if newest is None or now_ms - newest.start_ms >= QUOTA_WINDOW_MS:
            newest = _Window(now_ms, now_ms, 0.0)
            self.used(now_ms)
            self._windows.append(newest)
        self._total += amount
        newest.amount += amount
        newest.latest_ms = now_ms

    def charge(self, amount: float, limit: float, now_ms: float) -> float:
        """Counts a use, and returns ``debt_ms``: the newest window is all that most uses look at."""
        newest = self._windows[-1] if self._windows else None
        if newest is None or now_ms - newest.start_ms >= QUOTA_WINDOW_MS:
            self.add(amount, now_ms)
        else:
            self._total += amount
            newest.amount += amount
            newest.latest_ms = now_ms
        return 0.0 if self._total <= limit * _FULL_SECONDS else self.debt_ms(limit, now_ms)

    def used(self, now_ms: float) -> float:
        """Returns what was used in the windows that still count."""
        windows = self._windows
        while windows and now_ms - windows[0].latest_ms >= _KEPT_MS:
            self._total -= windows.popleft().amount
        if not windows:
            self._total = 0.0  # exactly
        return self._total

    def debt_ms(self, limit: float, now_ms: float) -> float:
        """Returns how long the client has to wait; 0: it is not above its limit, which is of a second."""
        if self._total <= limit * _FULL_SECONDS:
            return 0.0  # the measured time is never shorter
        rate = self.per_second(now_ms)
        return (rate - limit) / limit * self._measured_ms(now_ms) if rate > limit else 0.0

    def per_second(self, now_ms: float) -> float:
        return self.used(now_ms) / self._measured_ms(now_ms) * SECOND_MS

    def _measured_ms(self, now_ms: float) -> float:
        """Returns the time over which the rate is measured. At least ten full windows count: the first uses of a client
        are not divided by the little time that has passed."""
        passed_ms = now_ms - self._windows[0].start_ms if self._windows else 0.0
        full_windows = int(passed_ms // QUOTA_WINDOW_MS)
        return max(passed_ms + max(FULL_WINDOWS - full_windows, 0) * QUOTA_WINDOW_MS, 1.0)


def fair_share(rates: Iterable[float], limit: float) -> float:
    """Returns the most that each of several may use so that all together use the limit. Who uses less leaves the rest
    to the others, so a share is never smaller than the limit divided by their number."""
    left, sorted_rates = limit, sorted(rates)
    for place, rate in enumerate(sorted_rates):
        share = left / (len(sorted_rates) - place)
        if rate > share:
            return share
        left -= rate
    return limit


class MutationBucket:
    """The tokens of a limit of changes. ``burst``: the most tokens that it holds, at the beginning and ever."""

    def __init__(self) -> None:
        self._tokens: float | None = None
        self._filled_ms = 0.0

    def fill(self, limit: float, now_ms: float) -> None:
        burst = max(limit * QUOTA_WINDOWS, 1.0)
        passed_ms = max(now_ms - self._filled_ms, 0.0)
        gained = burst if self._tokens is None else self._tokens + limit * passed_ms / SECOND_MS
        self._tokens, self._filled_ms = min(burst, gained), now_ms

    def take(self, amount: float, limit: float, now_ms: float) -> None:
        self.fill(limit, now_ms)
        assert self._tokens is not None
        self._tokens -= amount

    def debt_ms(self, limit: float, now_ms: float) -> float:
        """Returns how long it takes until the bucket is not overdrawn any more."""
        self.fill(limit, now_ms)
        assert self._tokens is not None
        return max(-self._tokens, 0.0) / limit * SECOND_MS
