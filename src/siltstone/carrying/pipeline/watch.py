"""``Watch`` reports the progress of a run, cancels the run, and knows when its time limit has passed.

``RunPace`` estimates how long a step will still take, assuming that it continues as fast as it has since it began.
"""

from collections.abc import Callable
from threading import Event, RLock

import msgspec

from siltstone.model.errors import SiltstoneError
from siltstone.offline.tasks.pacing import NO_RATE
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import OnProgress


class Cancelled(SiltstoneError):
    """The run was cancelled. What it has committed stays; nothing else has changed."""


class StepProgress(msgspec.Struct, frozen=True):
    """The progress of one ``step`` of ``kind``: how many of its units or tasks, and of its bytes, are done."""

    kind: str
    step: str
    done: int
    total: int
    bytes_done: int
    bytes_total: int


OnStepProgress = Callable[[StepProgress], None]


class Watch:
    """The watch of one run of one kind. Any thread may call ``cancel``."""

    def __init__(
        self,
        kind: str,
        clock: Clock,
        *,
        seconds_max: float | None = None,
        on_step_progress: OnStepProgress | None = None,
    ) -> None:
        self.kind = kind
        self._clock = clock
        self._until_ms = None if seconds_max is None else clock.monotonic_ms() + seconds_max * 1000
        self._on_step_progress = on_step_progress
        self._cancelled = Event()
        self._reason = ""
        self._has_begun = False
        self.rate = NO_RATE
        """The rate and the grade of the run's copies."""
        self.held_ms = 0.0
        """How long tasks that have ended waited for their rate, all together."""

    def report(self, step: str, done: int, total: int, bytes_done: int = 0, bytes_total: int = 0) -> None:
        """Reports progress. Raises Cancelled."""
        self.check()
        if self._on_step_progress is not None:
            self._on_step_progress(StepProgress(self.kind, step, done, total, bytes_done, bytes_total))

    def steps(self, step: str, bytes_total: int = 0) -> OnProgress:
        """Reports the progress of ``step`` when it is called; bytes are taken in proportion to the parts done."""
        return lambda done, total: self.report(
            step, done, total, bytes_total * done // total if total else 0, bytes_total
        )

    def held(self, duration_ms: float) -> None:
        """Adds the time for which a task was held by the rate."""
        self.held_ms += duration_ms

    def cancel(self, reason: str) -> None:
        """Cancels the run. If it is called several times, the first reason is kept."""
        self._reason = self._reason or reason
        self._cancelled.set()

    @property
    def why_cancelled(self) -> str:
        """The reason of the first ``cancel``; empty when the run was not cancelled."""
        return self._reason

    def check(self) -> None:
        """Raises Cancelled when the run was cancelled."""
        if self._cancelled.is_set():
            raise Cancelled(self._reason)

    @property
    def is_over(self) -> bool:
        """Whether the time limit has passed."""
        return self._until_ms is not None and self._clock.monotonic_ms() >= self._until_ms

    def may_begin(self) -> bool:
        """Returns whether the run may begin a unit: its first one always, since a plan that took longer than the time
        limit would otherwise be made again and again and never be carried out; each further one until the time limit
        has passed. A kind that carries out several units together asks once for all of them. Raises Cancelled."""
        self.check()
        is_first, self._has_begun = not self._has_begun, True
        return is_first or not self.is_over


class RunningWatch:
    """Holds the watch of the current run, for a program that does one run at a time. Any thread may call ``cancel``,
    also a signal handler: it cancels the current run and all later runs."""

    def __init__(self) -> None:
        self._changing = RLock()  # a signal handler may call cancel while this thread holds the lock
        self._reason = ""
        self._watch: Watch | None = None

    @property
    def is_cancelled(self) -> bool:
        return bool(self._reason)

    def cancel(self, reason: str) -> None:
        """Of several reasons the first is kept."""
        with self._changing:
            self._reason = self._reason or reason
            if self._watch is not None:
                self._watch.cancel(reason)

    def replace(self, watch: Watch) -> Watch:
        """Makes ``watch`` the current one, and returns it. The watch is cancelled at once when ``cancel`` was called
        before."""
        with self._changing:
            self._watch = watch
            if self._reason:
                watch.cancel(self._reason)
        return watch


SECONDS_MIN = 2.0
"""No estimate is made earlier than this after the start of a step."""


class RunPace:
    """Measures the pace of steps that follow each other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step: tuple[str, str] | None = None
        self._began_ms = 0.0

    def seconds_left(self, progress: StepProgress) -> float | None:
        """Returns the time that the step will still take; None while it is not known yet."""
        now_ms = self._clock.monotonic_ms()
        if (progress.kind, progress.step) != self._step:
            self._step, self._began_ms = (progress.kind, progress.step), now_ms
        seconds = (now_ms - self._began_ms) / 1000
        part = part_done(progress)
        return None if seconds < SECONDS_MIN or not part else seconds * (1 - part) / part


def part_done(progress: StepProgress) -> float:
    """Returns the share that is done, in [0, 1]: of the bytes where they are reported, else of the parts."""
    done, total = (
        (progress.bytes_done, progress.bytes_total)
        if progress.bytes_total
        else (progress.done, progress.total)
    )
    return min(1.0, done / total) if total else 0.0
