"""How long the answer to a wrong password waits: longer each time, by host and user, and forgotten after a while.

There is no lock-out: only answers to wrong passwords wait, so nobody can keep another user out by failing in its name.
"""

from collections import OrderedDict

import msgspec

from siltstone.model.serving_limits import (
    FAILED_LOGIN_FORGOTTEN_MS,
    FAILED_LOGIN_MS_MAX,
    FAILED_LOGIN_MS_MIN,
    FAILED_LOGINS_MAX,
)


class _Failures(msgspec.Struct):
    pause_ms: int
    latest_ms: float


class FailedLogins:
    """The newest failures by host and user; the pair that failed longest ago is forgotten first."""

    def __init__(self, count_max: int = FAILED_LOGINS_MAX) -> None:
        self._count_max = count_max
        self._of: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def __len__(self) -> int:
        return len(self._of)

    def pause_ms(self, host: str, user: str, now_ms: float) -> int:
        """Counts a failure; returns how long its answer waits."""
        key = (host, user)
        known = self._of.get(key)
        if known is None or now_ms - known.latest_ms >= FAILED_LOGIN_FORGOTTEN_MS:
            known = self._of[key] = _Failures(FAILED_LOGIN_MS_MIN, now_ms)
        else:
            known.pause_ms = min(2 * known.pause_ms, FAILED_LOGIN_MS_MAX)
            known.latest_ms = now_ms
        self._of.move_to_end(key)
        if len(self._of) > self._count_max:
            self._of.popitem(last=False)
        return known.pause_ms

    def succeeded(self, host: str, user: str) -> None:
        self._of.pop((host, user), None)
