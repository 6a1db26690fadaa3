"""Who looks on while a run works: is told how far it is, may stop it, and knows when its time is over.

How long a step will still take, from how far it is: a straight line from its beginning.
"""

from collections.abc import Callable
from threading import Event

import msgspec

from siltstone.model.errors import SiltstoneError
from siltstone.runtime.clock import Clock


class Cancelled(SiltstoneError):
    """Somebody stopped the run. What it had committed stands; everything else is as it was."""


class Told(msgspec.Struct, frozen=True):
    """``step`` of ``kind``: so many of the units, or tasks, and bytes are done."""

    kind: str
    step: str
    done: int
    total: int
    bytes_done: int
    bytes_total: int


OnTold = Callable[[Told], None]


class Watch:
    """Of one run of one kind. Any thread may call ``cancel``."""

    def __init__(
        self, kind: str, clock: Clock, *, seconds_max: float | None = None, on_told: OnTold | None = None
    ) -> None:
        self.kind = kind
        self._clock = clock
        self._until_ms = None if seconds_max is None else clock.monotonic_ms() + seconds_max * 1000
        self._on_told = on_told
        self._cancelled = Event()
        self._reason = ""

    def tell(self, step: str, done: int, total: int, bytes_done: int = 0, bytes_total: int = 0) -> None:
        """Raises Cancelled."""
        self.check()
        if self._on_told is not None:
            self._on_told(Told(self.kind, step, done, total, bytes_done, bytes_total))

    def steps(self, step: str, bytes_total: int = 0) -> Callable[[int, int], None]:
        """Takes (done, total), as runners tell it."""
        return lambda done, total: self.tell(
            step, done, total, bytes_total * done // total if total else 0, bytes_total
        )

    def cancel(self, reason: str) -> None:
        """The first reason is the one that is told."""
        self._reason = self._reason or reason
        self._cancelled.set()

    @property
    def why_cancelled(self) -> str:
        """Empty when it is not."""
        return self._reason

    def check(self) -> None:
        """Raises Cancelled."""
        if self._cancelled.is_set():
            raise Cancelled(self._reason)

    @property
    def is_over(self) -> bool:
        """Whether nothing new should be begun: its time has passed."""
        return self._until_ms is not None and self._clock.monotonic_ms() >= self._until_ms


SECONDS_MIN = 2.0
"""Before that, any number would be a guess."""


class Pace:
    """Of one step after another."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step: tuple[str, str] | None = None
        self._began_ms = 0.0

    def seconds_left(self, told: Told) -> float | None:
        """None: not known yet."""
        now_ms = self._clock.monotonic_ms()
        if (told.kind, told.step) != self._step:
            self._step, self._began_ms = (told.kind, told.step), now_ms
        seconds = (now_ms - self._began_ms) / 1000
        part = part_done(told)
        return None if seconds < SECONDS_MIN or not part else seconds * (1 - part) / part


def part_done(told: Told) -> float:
    """In [0, 1]: by bytes where they are told."""
    done, total = (told.bytes_done, told.bytes_total) if told.bytes_total else (told.done, told.total)
    return min(1.0, done / total) if total else 0.0
