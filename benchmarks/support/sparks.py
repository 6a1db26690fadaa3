"""Starts a Spark for benchmarks, with its connector for Kafka, and measures what one action costs all processes of a
benchmark."""

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import msgspec

import siltstone
from benchmarks.brokers.process_cost import cost_of
from oracles.java_artifacts import SPARK_KAFKA_CONNECTOR, fetch_jars

ROUNDS = 3


@contextmanager
def spark_with_connector() -> Iterator[Any]:
    """Starts a Spark. Raises JavaArtifactsUnavailable."""
    jars = ",".join(map(str, fetch_jars(SPARK_KAFKA_CONNECTOR)))
    spark = siltstone.spark.session("local[2]", {"spark.jars": jars, "spark.driver.memory": "4g"})
    try:
        yield spark
    finally:
        spark.stop()


class Measured(msgspec.Struct, frozen=True):
    """The records for each second, and for each CPU second of all processes that take part."""

    per_second: float
    per_cpu_second: float

    def beside(self, other: "Measured", name: str) -> str:
        cpu = f"{_millions(self.per_cpu_second)} a CPU second, {name} {_millions(other.per_cpu_second)}"
        return f"{cpu}; wall {_millions(self.per_second)} and {_millions(other.per_second)} a second"


class Contest(msgspec.Struct, frozen=True):
    """One of the ways that are compared. ``prepare`` is not measured, and its result is passed to ``action``. The CPU
    of the processes of ``idle_pids``, brokers of other ways, does not count."""

    action: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None
    idle_pids: Collection[int] = ()


def in_turn(contests: Sequence[Contest], records: int, rounds: int = ROUNDS) -> list[Measured]:
    """Measures the ways in turn, A B C A B C …, and returns the medians of each; the first round is not counted."""
    found: list[list[Measured]] = [[] for _ in contests]
    for number in range(rounds + 1):
        for of_one, contest in zip(found, contests, strict=True):
            measured = _measured(contest, records)
            if number:
                of_one.append(measured)
    return [
        Measured(median(each.per_second for each in one), median(each.per_cpu_second for each in one))
        for one in found
    ]


def _measured(contest: Contest, records: int) -> Measured:
    given = contest.prepare()
    begun, cpu = time.perf_counter(), cpu_seconds(contest.idle_pids)
    contest.action(given)
    return Measured(records / (time.perf_counter() - begun), records / (cpu_seconds(contest.idle_pids) - cpu))


def cpu_seconds(idle_pids: Collection[int] = ()) -> float:
    """Returns the CPU of this process and all below it: Spark's JVM, its workers and the brokers, except those that are
    idle."""
    return cost_of(os.getpid()).cpu_seconds - sum(cost_of(pid).cpu_seconds for pid in idle_pids)


def nowhere(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _millions(rate: float) -> str:
    return f"{rate / 1e6:.2f} M"
