"""The schedule says when each kind of maintenance is due. Pure: it is computed from timers and a time that the caller
passes.

A timer counts from the end of the last run, so a long run is not followed by all the runs that it delayed. A major
collection counts as a minor one, too (GC7).
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

COUNTS_AS: Mapping[str, tuple[str, ...]] = {"major-gc": ("minor-gc",)}
"""A run of the first kind also counts as a run of the others."""

JITTER = 0.1
"""A run is early or late by up to this part of its interval, so that many stores do not run at the same moment."""

AGAIN_MS_MIN = 1_000
"""A kind that has remaining work is due again after this time, so that other kinds run in between."""


class KindTimer(msgspec.Struct, frozen=True):
    """A kind is due ``wait_ms`` after ``last_ms``, the end of its last run by the wall clock."""

    last_ms: int
    wait_ms: int

    def due_ms(self, now_ms: int) -> int:
        """Returns when the kind is due. It is due now when the last run lies in the future, since the clock was then
        set back."""
        return now_ms if self.last_ms > now_ms else self.last_ms + self.wait_ms


class Schedule(msgspec.Struct, frozen=True):
    """``intervals_ms`` has the interval of each kind, in the order that frees space first. A kind without a timer is
    due at once."""

    intervals_ms: dict[str, int]
    timers: dict[str, KindTimer] = {}

    def due(self, now_ms: int, passed_over: Iterable[str] = ()) -> str | None:
        """Returns the first kind that is due now, without those ``passed_over``."""
        skipped = frozenset(passed_over)
        return next(
            (
                kind
                for kind in self.intervals_ms
                if kind not in skipped and self.due_ms(kind, now_ms) <= now_ms
            ),
            None,
        )

    def due_ms(self, kind: str, now_ms: int) -> int:
        timer = self.timers.get(kind)
        return now_ms if timer is None else timer.due_ms(now_ms)

    def next_due_ms(self, now_ms: int) -> int:
        """Returns the earliest time at which a kind is due; it may lie in the past."""
        return min((self.due_ms(kind, now_ms) for kind in self.intervals_ms), default=now_ms)

    def ended(self, kind: str, now_ms: int, chance: float, *, has_remaining: bool = False) -> "Schedule":
        """Returns the schedule after a run of ``kind``. ``chance`` is uniform in [0, 1) and sets the jitter. When the
        kind has remaining work, it is due again soon."""
        timers = {}
        for counted in self._counted(kind):
            wait_ms = round(self.intervals_ms[counted] * (1 + JITTER * (2 * chance - 1)))
            timers[counted] = KindTimer(
                now_ms, AGAIN_MS_MIN if has_remaining and counted == kind else wait_ms
            )
        return self._with(timers)

    def postponed(self, kind: str, now_ms: int, wait_ms: int) -> "Schedule":
        """Returns the schedule after a run of ``kind`` that ended with trouble: the kind is tried again after
        ``wait_ms``, or after its interval if that is shorter."""
        return self._with({kind: KindTimer(now_ms, min(wait_ms, self.intervals_ms[kind]))})

    def seen(self, ended_ms: Mapping[str, int], now_ms: int) -> "Schedule":
        """Returns the schedule, given when whole runs of each kind have ended in any process, so that they are not
        repeated here. Ends that lie in the future are ignored: they were noted by a clock that was ahead."""
        timers: dict[str, KindTimer] = {}
        for kind, at_ms in ended_ms.items():
            if at_ms > now_ms:
                continue
            for counted in self._counted(kind):
                known = timers.get(counted) or self.timers.get(counted)
                if known is None or known.last_ms < at_ms:
                    timers[counted] = KindTimer(at_ms, self.intervals_ms[counted])
        return self._with(timers) if timers else self

    def _counted(self, kind: str) -> Sequence[str]:
        return [each for each in (kind, *COUNTS_AS.get(kind, ())) if each in self.intervals_ms]

    def _with(self, timers: Mapping[str, KindTimer]) -> "Schedule":
        return msgspec.structs.replace(self, timers={**self.timers, **timers})
