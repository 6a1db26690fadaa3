"""Retries with growing pauses, up to a time limit that suits a person who waits for a command."""

from collections.abc import Callable
from typing import TypeVar

from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random

T = TypeVar("T")

PAUSE_MS_MIN = 50
PAUSE_MS_MAX = 1_000
TIME_LIMIT_MS = 15_000
"""A coordinator takes seconds to load, a leader takes seconds to move; after that a person wants to see the reason."""


class Patience:
    """The retries of one operation: pauses double up to PAUSE_MS_MAX and end at the time limit."""

    def __init__(self, clock: Clock, rng: Random, time_limit_ms: float = TIME_LIMIT_MS) -> None:
        self._clock = clock
        self._rng = rng
        self._time_limit_ms = time_limit_ms
        self._began_ms = clock.monotonic_ms()
        self._failures = 0

    def wait_after(self, failure: Exception) -> None:
        """Blocks for the next pause; raises ``failure`` if that would pass the time limit."""
        ceiling_ms = min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** min(self._failures, 10))
        self._failures += 1
        if self._clock.monotonic_ms() - self._began_ms + ceiling_ms > self._time_limit_ms:
            raise failure
        self._clock.block_ms(self._rng.uniform(ceiling_ms / 2, ceiling_ms))

    def restart(self) -> None:
        """Starts the time limit and the pauses again, after a success."""
        self._failures = 0
        self._began_ms = self._clock.monotonic_ms()


def patiently(patience: Patience, attempt: Callable[[], T], *transient: type[Unavailable]) -> T:
    """Repeats ``attempt`` while it raises one of ``transient``; returns its first result. Raises the last failure
    when the time limit is over."""
    while True:
        try:
            return attempt()
        except transient as failure:
            patience.wait_after(failure)
