"""Asking again: for as long as a person waits, and less and less often."""

from collections.abc import Callable
from typing import TypeVar

from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random

T = TypeVar("T")

PAUSE_MS_MIN = 50
PAUSE_MS_MAX = 1_000
TIME_LIMIT_MS = 15_000
"""A coordinator that is loading or a leader that moves takes seconds; a person who waits longer wants to know why."""


class Patience:
    """One wait: its pauses double, and it ends."""

    def __init__(self, clock: Clock, rng: Random, time_limit_ms: float = TIME_LIMIT_MS) -> None:
        self._clock = clock
        self._rng = rng
        self._time_limit_ms = time_limit_ms
        self._began_ms = clock.monotonic_ms()
        self._failures = 0

    def wait_after(self, failure: Exception) -> None:
        """Raises ``failure`` when the time is over."""
        ceiling_ms = min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** min(self._failures, 10))
        self._failures += 1
        if self._clock.monotonic_ms() - self._began_ms + ceiling_ms > self._time_limit_ms:
            raise failure
        self._clock.block_ms(self._rng.uniform(ceiling_ms / 2, ceiling_ms))

    def restart(self) -> None:
        """Something went well."""
        self._failures = 0
        self._began_ms = self._clock.monotonic_ms()


def patiently(patience: Patience, attempt: Callable[[], T], *transient: type[Unavailable]) -> T:
    """The first attempt that does not fail with one of these. Raises the last failure."""
    while True:
        try:
            return attempt()
        except transient as failure:
            patience.wait_after(failure)
