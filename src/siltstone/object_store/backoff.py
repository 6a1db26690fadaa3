"""When a transient failure is tried again: exponential backoff with full jitter, between two limits."""

import msgspec

from siltstone.model.limits import (
    STORE_ATTEMPTS_MAX,
    STORE_BACKOFF_MS_MAX,
    STORE_BACKOFF_MS_MIN,
    STORE_DEADLINE_MS,
    STORE_REQUESTS_IN_FLIGHT_MAX,
)
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random


class RetrySettings(msgspec.Struct, frozen=True):
    attempts_max: int = STORE_ATTEMPTS_MAX
    backoff_ms_min: int = STORE_BACKOFF_MS_MIN
    backoff_ms_max: int = STORE_BACKOFF_MS_MAX
    deadline_ms: int = STORE_DEADLINE_MS
    requests_in_flight_max: int = STORE_REQUESTS_IN_FLIGHT_MAX

    def backoff_ms(self, failures: int, rng: Random) -> float:
        """The wait after the failure of that number, counted from 1."""
        doublings = min(failures, 30)  # far past any maximum, and a float all the same
        return rng.uniform(0, min(self.backoff_ms_max, self.backoff_ms_min * 2**doublings))


class Attempts:
    """The failures of one call so far."""

    def __init__(self, action: str, settings: RetrySettings, clock: Clock, rng: Random) -> None:
        self._action = action
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._began_ms = clock.monotonic_ms()
        self.uncertain = False
        """An attempt may have taken effect."""

    @property
    def failures(self) -> int:
        return self._failures

    def wait_after(self, failure: StoreTransient) -> None:
        """Until the next attempt may begin. Raises StoreTransient when there is to be none; ``uncertain`` when any
        attempt was."""
        self._failures += 1
        self.uncertain |= failure.uncertain
        pause_ms = self._settings.backoff_ms(self._failures, self._rng)
        spent_ms = self._clock.monotonic_ms() - self._began_ms
        if self._failures >= self._settings.attempts_max or spent_ms + pause_ms > self._settings.deadline_ms:
            raise StoreTransient(
                f"{self._action} failed {self._failures} times in {spent_ms:.0f} ms, the last time: {failure}",
                uncertain=self.uncertain,
            ) from failure
        self._clock.block_ms(pause_ms)

    def restart(self) -> None:
        """The call has come further: a long listing may meet many failures, with progress in between."""
        self._failures = 0
        self._began_ms = self._clock.monotonic_ms()
