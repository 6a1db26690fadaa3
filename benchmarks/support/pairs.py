"""Measures two ways of the same work in turn, A B A B …, so that a drifting machine affects both."""

import gc
import resource
import statistics
import time
from collections.abc import Callable

import msgspec


class Timing(msgspec.Struct, frozen=True):
    """The seconds of wall time, and of CPU of this process and its ended children."""

    wall_s: float
    cpu_s: float


class Pair(msgspec.Struct, frozen=True):
    ours: list[Timing]
    theirs: list[Timing]

    @property
    def speed_ratio(self) -> float:
        """Returns the speed of ours as a share of theirs: the median over the pairs of theirs / ours."""
        return statistics.median(
            their.wall_s / our.wall_s for our, their in zip(self.ours, self.theirs, strict=True)
        )

    def our_median(self) -> Timing:
        return _median(self.ours)

    def their_median(self) -> Timing:
        return _median(self.theirs)


def measure_pairs(ours: Callable[[], None], theirs: Callable[[], None], rounds: int = 5) -> Pair:
    """Measures the pairs, after a first round that is not counted."""
    pair = Pair([], [])
    for number in range(rounds + 1):
        our, their = timed(ours), timed(theirs)
        if number:
            pair.ours.append(our)
            pair.theirs.append(their)
    return pair


def timed(action: Callable[[], None]) -> Timing:
    gc.collect()
    wall, cpu = time.perf_counter(), _cpu_s()
    action()
    return Timing(time.perf_counter() - wall, _cpu_s() - cpu)


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _median(timings: list[Timing]) -> Timing:
    return Timing(
        statistics.median(timing.wall_s for timing in timings),
        statistics.median(timing.cpu_s for timing in timings),
    )
