"""Copying at a limited rate: between tasks, so that no task is ever held in the middle (GC16).

The rate is that of bytes copied: each is read once and written once. A driver that was idle does not catch up: the
tokens of one second at most are kept.
"""

from collections.abc import Callable, Sequence
from threading import Event

from siltstone.maintenance.runner import Runner, Task
from siltstone.runtime.clock import Clock

SLICE_MS = 250
"""So long at a time is waited for tokens, or for the end of a pause: cancelling takes effect after that."""

OnProgress = Callable[[int, int], None]


class Throttle:
    """One for all that copies. Any thread may pause it and let it go on; ``bytes_per_second`` 0: no limit."""

    def __init__(self, bytes_per_second: int, clock: Clock) -> None:
        assert bytes_per_second >= 0
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._paused = Event()
        self._tokens = 0.0
        self._counted_ms = clock.monotonic_ms()

    @property
    def is_limited(self) -> bool:
        return self._bytes_per_second > 0

    def pause(self) -> None:
        """What is being copied is finished, nothing else is begun."""
        self._paused.set()

    def resume(self) -> None:
        self._paused.clear()

    def take(self, size_bytes: int, check: Callable[[], None]) -> None:
        """Returns when so many bytes may be copied. ``check`` is asked while waiting, and may raise."""
        check()
        while self._paused.is_set():
            self._clock.block_ms(SLICE_MS)
            check()
        self._count()
        self._tokens -= size_bytes
        while self.is_limited and self._tokens < 0:
            missing_ms = -self._tokens / self._bytes_per_second * 1000
            self._clock.block_ms(min(SLICE_MS, max(1, missing_ms)))
            check()
            self._count()

    def _count(self) -> None:
        now_ms = self._clock.monotonic_ms()
        earned = (now_ms - self._counted_ms) / 1000 * self._bytes_per_second
        self._tokens = min(self._tokens + earned, float(self._bytes_per_second))
        self._counted_ms = now_ms


class ThrottledRunner:
    """Gives the runner as many units at once as the throttle has let through; without a limit, all of them.

    ``bytes_of``: what a unit copies. ``check`` raises when nothing more is to be begun.
    """

    def __init__(
        self, runner: Runner, throttle: Throttle, bytes_of: Callable[[bytes], int], check: Callable[[], None]
    ) -> None:
        self._runner = runner
        self._throttle = throttle
        self._bytes_of = bytes_of
        self._check = check

    def run(self, task: Task, units: Sequence[bytes], on_progress: OnProgress | None = None) -> list[bytes]:
        if not self._throttle.is_limited:
            self._throttle.take(0, self._check)
            return self._runner.run(task, units, on_progress)
        results: list[bytes] = []
        for at in range(len(units)):
            unit = units[at]
            self._throttle.take(self._bytes_of(unit), self._check)
            results += self._runner.run(task, [unit])
            if on_progress is not None:
                on_progress(len(results), len(units))
        return results

    def close(self) -> None:
        self._runner.close()
