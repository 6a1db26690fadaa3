"""Limits how often a line about one subject is logged.

What fails often fails again at once: a client asks for the same thing five times a second, a damaged object is read
for days. The code that logs it asks a ``LogLimit`` first, and counts every case elsewhere. A subject is whatever
tells two lines apart, such as an object id or the reason of a refusal.
"""

from collections import OrderedDict
from collections.abc import Hashable

from siltstone.model.limits import MINUTE_MS
from siltstone.runtime.clock import Clock

LOG_INTERVAL_MS = MINUTE_MS
"""The interval is short enough for a person who looks at the log."""

LOG_SUBJECTS_MAX = 1_000
"""The most subjects that are remembered; the one that was logged longest ago is forgotten first. That is about 100 KB.
With more subjects some are logged more often."""


class LogLimit:
    """Allows one line about each subject in ``interval_ms``. Belongs to one event loop or one thread."""

    def __init__(
        self, clock: Clock, interval_ms: float = LOG_INTERVAL_MS, subjects_max: int = LOG_SUBJECTS_MAX
    ) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._subjects_max = subjects_max
        self._logged_ms: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        """Returns the number of subjects that are remembered."""
        return len(self._logged_ms)

    def is_due(self, subject: Hashable = None) -> bool:
        """Returns whether a line about the subject may be logged now. The caller then logs it: the interval begins."""
        now_ms = self._clock.monotonic_ms()
        logged_ms = self._logged_ms.get(subject)
        if logged_ms is not None and now_ms - logged_ms < self._interval_ms:
            return False
        self._logged_ms[subject] = now_ms
        self._logged_ms.move_to_end(subject)
        if len(self._logged_ms) > self._subjects_max:
            self._logged_ms.popitem(last=False)
        return True

    def forget(self, subject: Hashable = None) -> None:
        """Makes the next line about the subject due at once, for instance because its outage has ended."""
        self._logged_ms.pop(subject, None)
