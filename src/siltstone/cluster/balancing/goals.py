"""The goals of balancing, in their order: bytes in, bytes out, requests, and the number of partitions. Pure.

For each goal a node is *in its band* when its load lies within BAND of the mean of all fit nodes. Loads below a floor
are nothing to balance: moving partitions of an idle cluster gains nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from siltstone.model.limits import MIB

BAND = 0.2
"""How far from the mean a node may be, as a part of the mean (AutoMQ: 0.1, which moves partitions for noise)."""

GAIN_MIN = 0.05
"""A move must bring the two nodes closer by so much of the mean (AutoMQ: 0.05)."""


class Load(NamedTuple):
    """The load of a partition or of a node: bytes and requests a second, and partitions."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0
    requests: float = 0.0
    partitions: float = 0.0

    def plus(self, other: "Load") -> "Load":
        return Load(*(one + more for one, more in zip(self, other, strict=True)))

    def minus(self, other: "Load") -> "Load":
        return Load(*(one - less for one, less in zip(self, other, strict=True)))


class Goal(msgspec.Struct, frozen=True):
    """``field``: of Load. ``floor``: a mean below it is in band, whatever the nodes have. ``words``: what is said."""

    field: str
    floor: float
    words: str

    def of(self, load: Load) -> float:
        value: float = getattr(load, self.field)
        return value


GOALS = (
    Goal("bytes_in", 1 * MIB, "bytes in"),
    Goal("bytes_out", 1 * MIB, "bytes out"),
    Goal("requests", 100.0, "requests"),
    Goal("partitions", 1.0, "partitions"),
)


def mean_of(goal: Goal, loads: Mapping[int, Load]) -> float:
    return sum(map(goal.of, loads.values())) / len(loads)


def is_in_band(goal: Goal, load: Load, mean: float) -> bool:
    """Whole partitions cannot be halved, so one more or less than the mean is in band."""
    value = goal.of(load)
    if goal.field == "partitions" and abs(value - mean) <= 1.0:
        return True
    return mean < goal.floor or abs(value - mean) <= BAND * mean
