"""How long a step will still take, from how far it is: a straight line from its beginning."""

from siltstone.maintenance.pipeline.watch import Told
from siltstone.runtime.clock import Clock

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
