"""Which two streams are read to show what reading costs: the busiest, and a quiet one that goes on all year."""

from collections import Counter
from collections.abc import Iterable, Mapping

from siltstone.cli.demo.flights import Flight, StreamName
from siltstone.model.limits import HOUR_MS

_DAY_MS = 24 * HOUR_MS


def busiest_and_quiet(flights: Iterable[Flight]) -> tuple[StreamName, StreamName]:
    """The quiet one has the fewest flights of those that fly on at least half the days: one flight a day, say, spread
    over every object there is. A stream of a single day would be found in one object before and after."""
    counts: Counter[StreamName] = Counter()
    days: dict[StreamName, set[int]] = {}
    for flight in flights:
        counts[flight.stream] += 1
        days.setdefault(flight.stream, set()).add(flight.departure_ms // _DAY_MS)
    return max(counts, key=lambda name: (counts[name], name)), _quietest(counts, days)


def _quietest(counts: Mapping[StreamName, int], days: Mapping[StreamName, set[int]]) -> StreamName:
    all_days = len(set().union(*days.values()))
    steady = [name for name in counts if 2 * len(days[name]) >= all_days]
    return min(steady or counts, key=lambda name: (counts[name], name))
