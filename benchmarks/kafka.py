"""(kafka) Compares Siltstone with Apache Kafka and a broker that keeps its data in memory only: one client, one script.

In turn, each on an empty folder of the same disk. Figures are medians over the rounds, ratios medians of the ratios
within a round. "Kafka, fsync" syncs before it answers, as ours does; "Kafka" leaves that to the operating system.
"""

import statistics
import sys
from collections.abc import Iterable

from benchmarks.brokers.contenders import CONTENDERS, SILTSTONE, Contender
from benchmarks.brokers.measuring import Figure, Scale, measure_round
from benchmarks.support.memory import first_use_seconds_per_gb
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_most

TITLE = "(kafka) brokers of one node, one client, one machine"
ROUNDS = 3
AIMS_AT_MOST = {
    "from start to first message": 1.0,
    "end to end at 1,000 messages/s, p99": 15.0,
    "produce, batches of 128 KiB: CPU of the broker": 1.5,
    "… that is": 2.0,
}
"""The aims of Siltstone, in the unit of the figure."""

Rounds = dict[str, list[list[Figure]]]
"""Name of a broker → the figures of each round."""


def run() -> list[Row]:
    memory = Row(
        "first use of memory on this machine, CPU",
        f"{first_use_seconds_per_gb():.2f} s/GB",
        "whoever uses it",
    )
    return [memory, *report(measure(CONTENDERS, ROUNDS, Scale()))]


def measure(contenders: Iterable[Contender], rounds: int, scale: Scale) -> Rounds:
    taking_part = [each for each in contenders if takes_part(each)]
    found: Rounds = {each.name: [] for each in taking_part}
    for _ in range(rounds):
        for contender in taking_part:
            with folder() as place:
                found[contender.name].append(measure_round(contender, place, scale))
    return found


def report(rounds: Rounds) -> list[Row]:
    """Makes a row for each measure: the figure of the first broker, and those of the others."""
    first = next(iter(rounds))
    head = Row("the figures are those of", first, "the other's figure (the first as a multiple of it)")
    return [head, *(_row(number, first, rounds) for number in range(len(rounds[first][0])))]


def takes_part(contender: Contender) -> bool:
    if reason := contender.why_not():
        print(f"without {contender.name}: {reason}", file=sys.stderr)
    return reason is None


def _row(number: int, first: str, rounds: Rounds) -> Row:
    measure, unit = rounds[first][0][number].measure, rounds[first][0][number].unit
    value = _median(rounds, first, number)
    against = "; ".join(_against(number, first, other, rounds) for other in rounds if other != first)
    if first == SILTSTONE.name and measure in AIMS_AT_MOST:
        return at_most(measure, value, AIMS_AT_MOST[measure], f" {unit}", against)
    return Row(measure, f"{_readable(value)} {unit}", against)


def _against(number: int, first: str, other: str, rounds: Rounds) -> str:
    pairs = zip(rounds[first], rounds[other], strict=True)
    ratio = statistics.median(ours[number].value / theirs[number].value for ours, theirs in pairs)
    return f"{other} {_readable(_median(rounds, other, number))} ({_readable(ratio)} ×)"


def _median(rounds: Rounds, name: str, number: int) -> float:
    return statistics.median(figures[number].value for figures in rounds[name])


def _readable(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
