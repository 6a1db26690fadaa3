"""``RunRate`` is a value that says how fast a run copies, in which grade, and why."""

import msgspec

from siltstone.foundation.quantity_words import seconds_words, size_words
from siltstone.maintenance.tasks.pacing import TaskPace
from siltstone.object_store.bandwidth.grades import BandwidthSettings, Grade

COUNTS_COPIES = frozenset({"minor-gc", "major-gc"})
"""The kinds whose rate also counts bytes that are copied inside the store, without being read by a task."""


class RunRate(msgspec.Struct, frozen=True, kw_only=True):
    """``bytes_per_second`` 0: no rate. ``spread_ms``: the time over which the bytes are spread; 0: the run is not
    spread, or another rate is lower. ``urgency`` says why the grade is URGENT."""

    bytes_per_second: int = 0
    spread_ms: int = 0
    urgency: str = ""

    @property
    def grade(self) -> Grade:
        return Grade.URGENT if self.urgency else Grade.MAINTENANCE

    @property
    def words(self) -> str:
        """Describes the rate, such as "at 2.1 MiB/s, spread over 19 min"; empty when there is none."""
        rate = f"at {size_words(self.bytes_per_second)}/s" if self.bytes_per_second else ""
        spread = f"spread over {seconds_words(self.spread_ms / 1000)}" if self.spread_ms else ""
        return ", ".join(filter(None, (rate, spread, f"urgent: {self.urgency}" if self.urgency else "")))

    def pace(self, kind: str, limits: BandwidthSettings) -> TaskPace:
        return TaskPace(self.bytes_per_second, self.grade, kind in COUNTS_COPIES, limits)


NO_RATE = RunRate()
