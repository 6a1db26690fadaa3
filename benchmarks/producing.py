"""(w) Compares producers at Siltstone with producers at Apache Kafka and at a broker that keeps its data in memory
only, every broker warm.

``python -m benchmarks.producing --help`` shows how to run some of it, shorter, or with other sizes:
``--partitions 1 --record-bytes 1000 --batch-kib 128 --rounds 5 --brokers Siltstone "Kafka, fsync"``.
"""

import argparse
import sys
from collections.abc import Iterable
from subprocess import SubprocessError

from rich.console import Console

from benchmarks.brokers.client_runs import ClientFailed
from benchmarks.brokers.contenders import CONTENDERS, Contender
from benchmarks.brokers.producing import Shapes, measure_producing
from benchmarks.kafka import Rounds, report, takes_part
from benchmarks.support.memory import first_use_seconds_per_gb
from benchmarks.support.places import folder
from benchmarks.support.report import Row, show
from oracles.broker_process import BrokerNotStarted
from siltstone.model.limits import KIB

TITLE = "(w) producers of many shapes, brokers warm"
ROUNDS = 1
"""A round of all shapes takes five minutes a broker; more of them with ``--rounds``."""


def run() -> list[Row]:
    return rows(CONTENDERS, ROUNDS, Shapes())


def rows(contenders: Iterable[Contender], rounds: int, shapes: Shapes) -> list[Row]:
    memory = f"{first_use_seconds_per_gb():.2f} s/GB"
    head = Row("first use of memory on this machine, CPU", memory, "whoever uses it")
    return [head, *report(measure(contenders, rounds, shapes))]


def measure(contenders: Iterable[Contender], rounds: int, shapes: Shapes) -> Rounds:
    """Measures all brokers. A broker that fails under a load is left out, and stderr says why."""
    found: Rounds = {each.name: [] for each in contenders if takes_part(each)}
    for _ in range(rounds):
        for contender in (each for each in contenders if each.name in found):
            try:
                with folder() as place:
                    found[contender.name].append(measure_producing(contender, place, shapes))
            except (ClientFailed, BrokerNotStarted, SubprocessError) as failure:
                print(f"without {contender.name}: {failure}", file=sys.stderr)
                del found[contender.name]
    return found


def main(arguments: list[str]) -> int:
    usual = Shapes()
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--partitions", type=int, nargs="*", default=usual.partitions)
    parser.add_argument("--record-bytes", type=int, nargs="*", default=usual.record_bytes)
    parser.add_argument(
        "--batch-kib", type=int, nargs="*", default=[each // KIB for each in usual.batch_bytes]
    )
    parser.add_argument("--producers", type=int, default=usual.producers, help="0: none")
    parser.add_argument("--messages-per-second", type=int, default=usual.messages_per_second)
    parser.add_argument("--warm", type=float, default=usual.warm_seconds, metavar="SECONDS")
    parser.add_argument("--measure", type=float, default=usual.seconds, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--brokers", nargs="*", default=[each.name for each in CONTENDERS])
    given = parser.parse_args(arguments)
    shapes = Shapes(
        tuple(given.partitions),
        tuple(given.record_bytes),
        tuple(each * KIB for each in given.batch_kib),
        given.producers,
        given.messages_per_second,
        given.warm,
        given.measure,
    )
    contenders = [each for each in CONTENDERS if each.name in given.brokers]
    if not contenders:
        parser.error(f"no such broker: there are {', '.join(each.name for each in CONTENDERS)}")
    show(TITLE, rows(contenders, given.rounds, shapes), Console())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
