"""Decides the rate and the grade of a run, without I/O.

A kind that copies keeps to the lowest of three rates: its own, that of all kinds, and the one that spreads its bytes
over the time of a scheduled run, if the run is to be spread. A run that is *urgent* is not spread, and has priority
over other maintenance.
"""

from siltstone.carrying.pipeline.kind import Plan
from siltstone.model.limits import MINUTE_MS, SPREAD_BYTES_PER_SECOND_MIN
from siltstone.offline.pressure import Measured, Pressure
from siltstone.offline.settings import CopyRates, lowest_rate
from siltstone.offline.tasks.pacing import RunRate


def spread_ms(interval_ms: int) -> int:
    """Returns the time over which a kind that runs at this interval spreads its bytes: all but the last minute of the
    interval, so that one run has ended when the next is due [AutoMQ]."""
    return max(interval_ms - MINUTE_MS, MINUTE_MS)


def rate_of(plan: Plan, size_bytes: int, rates: CopyRates, spread_over_ms: int, space: Measured) -> RunRate:
    """Decides the rate of a run of the plan, which reads so many bytes. ``spread_over_ms`` 0: the run is not spread.

    A spread run has at least SPREAD_BYTES_PER_SECOND_MIN, so that a small run ends soon."""
    urgency = _urgency(plan, space)
    set_rate = lowest_rate(rates.of(plan.kind), plan.bytes_per_second)
    if urgency or not spread_over_ms:
        return RunRate(bytes_per_second=set_rate, urgency=urgency)
    spread = max(SPREAD_BYTES_PER_SECOND_MIN, -(-size_bytes * 1000 // spread_over_ms))
    lowest = lowest_rate(set_rate, spread)
    is_spread = lowest == spread and spread > SPREAD_BYTES_PER_SECOND_MIN
    return RunRate(bytes_per_second=lowest, spread_ms=spread_over_ms if is_spread else 0)


def _urgency(plan: Plan, space: Measured) -> str:
    """Says why the run must not wait; empty when it may."""
    fullest = space.fullest
    if fullest is not None and space.pressure is not Pressure.NONE:
        return f"{fullest.name} is {fullest.use:.0%} full"
    return plan.urgency
