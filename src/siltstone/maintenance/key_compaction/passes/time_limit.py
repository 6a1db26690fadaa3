"""The time limit of a task.

A task with little time left must not end with fewer records mapped and write that: what a task writes follows from its
input alone, because a second attempt may write to the same places at the same time, and the time that an attempt has
left does not follow from the input. So a task that runs late ends without a result, and reports how far it came. The
driver then gives the stream a smaller part, or more time (``planning.allowances``).

The first scan gets a part of the time only. It reads the new records once and writes nothing, while the second scan
reads all records, most of them twice, and compresses again what it keeps. A task that is too slow is therefore found
out early, at the end of a batch.
"""

from siltstone.runtime.clock import Clock

FIRST_SCAN_SHARE = 1 / 3


class RanLate(Exception):
    """The time limit has passed. Keys were mapped up to ``mapped_offset``."""

    def __init__(self, mapped_offset: int) -> None:
        super().__init__(mapped_offset)
        self.mapped_offset = mapped_offset


class PassTimeLimit:
    """Begins when it is made. ``pass_ms_max`` 0 means no limit."""

    def __init__(self, clock: Clock, pass_ms_max: int) -> None:
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._pass_ms_max = pass_ms_max

    def check_first_scan(self, mapped_offset: int) -> None:
        """Raises RanLate."""
        self._check(self._pass_ms_max * FIRST_SCAN_SHARE, mapped_offset)

    def check_second_scan(self, mapped_offset: int) -> None:
        """Raises RanLate."""
        self._check(self._pass_ms_max, mapped_offset)

    def _check(self, most_ms: float, mapped_offset: int) -> None:
        if self._pass_ms_max and self._clock.monotonic_ms() - self._began_ms > most_ms:
            raise RanLate(mapped_offset)
