"""A limit on the bytes that are copied in a second. The driver waits between tasks, so that no task is held up in the
middle (GC16).

A byte that is copied counts once, though it is read and written. A driver that was idle does not catch up: the bucket
holds the tokens of one second at most.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from siltstone.maintenance.tasks.runner import LabelOf, Runner, Task, TaskEnd
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import OnProgress

SLICE_MS = 250
"""The longest wait for tokens before ``check`` is called again: cancelling takes effect after that."""


class Throttle:
    """A token bucket of bytes. ``bytes_per_second`` 0 means no limit."""

    def __init__(self, bytes_per_second: int, clock: Clock) -> None:
        assert bytes_per_second >= 0
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._tokens = 0.0
        self._counted_ms = clock.monotonic_ms()

    @property
    def is_limited(self) -> bool:
        return self._bytes_per_second > 0

    def take(self, size_bytes: int, check: Callable[[], None]) -> None:
        """Waits until ``size_bytes`` may be copied. Calls ``check`` before and while it waits; what ``check`` raises
        ends the wait."""
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
    """Gives task inputs to a runner one by one, each when the throttle allows it; without a limit, all at once.

    ``bytes_of`` returns how many bytes a task input copies. ``check`` raises when no further task may be begun.
    """

    def __init__(
        self, runner: Runner, throttle: Throttle, bytes_of: Callable[[bytes], int], check: Callable[[], None]
    ) -> None:
        self._runner = runner
        self._throttle = throttle
        self._bytes_of = bytes_of
        self._check = check

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        if not self._throttle.is_limited:
            self._throttle.take(0, self._check)
            return self._runner.run(task, inputs, on_progress, label)
        results: list[bytes] = []
        for at in range(len(inputs)):
            given = inputs[at]
            self._throttle.take(self._bytes_of(given), self._check)
            results += self._runner.run(task, [given], label=label)
            if on_progress is not None:
                on_progress(len(results), len(inputs))
        return results

    def run_each(
        self,
        task: Task,
        inputs: Iterable[bytes],
        on_waiting: Callable[[], None] | None = None,
        label_of: LabelOf | None = None,
    ) -> Generator[TaskEnd, None, None]:
        return self._runner.run_each(task, self._taken(inputs), on_waiting, label_of)

    def _taken(self, inputs: Iterable[bytes]) -> Iterator[bytes]:
        for given in inputs:
            self._throttle.take(self._bytes_of(given), self._check)
            yield given

    @property
    def is_lost(self) -> bool:
        return self._runner.is_lost

    def close(self) -> None:
        self._runner.close()
