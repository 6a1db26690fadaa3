"""Backoff: how often and when a request is retried after a transient failure. Exponential, with full jitter."""

import msgspec

from siltstone.foundation.quantity_words import seconds_words
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
        """Returns the random wait after the n-th failure of a request, counted from 1."""
        doublings = min(failures, 30)  # beyond any maximum; 2**30 still converts to a float
        return rng.uniform(0, min(self.backoff_ms_max, self.backoff_ms_min * 2**doublings))


class Attempts:
    """Counts the failures of one call, and waits between its attempts."""

    def __init__(self, action: str, settings: RetrySettings, clock: Clock, rng: Random) -> None:
        self._action = action
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._began_ms = clock.monotonic_ms()
        self.uncertain = False
        """Whether an attempt that failed may have taken effect in the store."""

    @property
    def action(self) -> str:
        return self._action

    @property
    def failures(self) -> int:
        return self._failures

    def wait_after(self, failure: StoreTransient) -> None:
        """Blocks until the next attempt may begin. Raises StoreTransient when the attempts or the time are used up; the
        error is ``uncertain`` when any attempt was."""
        self._failures += 1
        self.uncertain |= failure.uncertain
        pause_ms = self._settings.backoff_ms(self._failures, self._rng)
        spent_ms = self._clock.monotonic_ms() - self._began_ms
        if self._failures >= self._settings.attempts_max or spent_ms + pause_ms > self._settings.deadline_ms:
            last = str(failure).removeprefix(f"{self._action}: ")
            raise StoreTransient(
                f"{self._action} failed {self._failures} times in {seconds_words(spent_ms / 1000)}; the last failure: "
                f"{last}",
                uncertain=self.uncertain,
            ) from failure
        self._clock.block_ms(pause_ms)

    def restart(self) -> None:
        """Forgets the failures so far, because the call made progress. A long listing may survive many failures."""
        self._failures = 0
        self._began_ms = self._clock.monotonic_ms()
