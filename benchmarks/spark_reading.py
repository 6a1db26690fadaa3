"""(q) A topic read by Spark through ``format("siltstone")``, from the objects, against Spark's own connector for Kafka
reading the same topic from our broker: count, all columns to nowhere, one column to nowhere, Parquet.

Rows a CPU second are those of all processes: Spark's JVM, its Python workers, this driver, and the broker."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import siltstone
from benchmarks.brokers.process_cost import cost_of
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least, at_most
from benchmarks.support.topics import TOPIC, FilledTopic, filled_topic
from oracles.java_artifacts import SPARK_KAFKA_CONNECTOR, JavaArtifactsUnavailable, fetch_jars

RECORDS = 10_000_000
ROUNDS = 3
TITLE = "(q) a topic on Spark, local[2], warm, against its connector for Kafka"

Action = Callable[[Any], object]
Measured = tuple[float, float]
"""Rows a second, and rows a CPU second of all processes."""


def run(records: int = RECORDS) -> list[Row]:
    try:
        jars = ",".join(map(str, fetch_jars(SPARK_KAFKA_CONNECTOR)))
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]
    spark = siltstone.spark.session("local[2]", {"spark.jars": jars, "spark.driver.memory": "4g"})
    try:
        with folder() as place, filled_topic(place, records) as topic:
            return _rows(spark, topic, place)
    finally:
        spark.stop()


def _rows(spark: Any, topic: FilledTopic, place: Path) -> list[Row]:
    def ours(columns: str | None = None) -> Any:
        return siltstone.spark.read(TOPIC, store=topic.store, spark=spark, columns=columns)

    def theirs(columns: str | None = None) -> Any:
        frame = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", topic.address)
            .option("subscribe", TOPIC)
        )
        return frame.load() if columns is None else frame.load().select(columns)

    def parquet(frame: Any) -> None:
        frame.write.mode("overwrite").parquet(str(place / "parquet"))

    actions: list[tuple[str, str | None, Action, float | None]] = [
        ("count", None, lambda frame: frame.count(), 4), ("all columns to nowhere", None, _nowhere, 2.3),
        ("the values to nowhere", "value", _nowhere, 4), ("to Parquet", None, parquet, None),
    ]  # fmt: skip
    assert ours().count() == theirs().count() == topic.records
    rows = []
    for name, columns, action, aim in actions:
        our, their = _in_turn(topic, lambda c=columns: ours(c), lambda c=columns: theirs(c), action)
        ratio = our[1] / their[1]
        against = f"{our[1] / 1e6:.2f} M rows a CPU second, theirs {their[1] / 1e6:.2f} M"
        walls = f"; wall {our[0] / 1e6:.2f} and {their[0] / 1e6:.2f} M rows/s"
        rows.append(
            Row(name, f"{ratio:.1f}×", against + walls)
            if aim is None
            else at_least(name, ratio, aim, " ×", against + walls)
        )
    before = cost_of(topic.pid).cpu_seconds
    _nowhere(ours())
    rows.append(
        at_most("CPU of the broker during a read", cost_of(topic.pid).cpu_seconds - before, 0.2, " s")
    )
    return rows


def _nowhere(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _in_turn(
    topic: FilledTopic, ours: Callable[[], Any], theirs: Callable[[], Any], action: Action
) -> tuple[Measured, Measured]:
    """Medians; one round of each is not counted."""
    found: tuple[list[Measured], list[Measured]] = ([], [])
    for number in range(ROUNDS + 1):
        for of_one, made in zip(found, (ours, theirs), strict=True):
            measured = _measured(topic, made, action)
            if number:
                of_one.append(measured)
    our, their = ((median(each[0] for each in one), median(each[1] for each in one)) for one in found)
    return our, their


def _measured(topic: FilledTopic, made: Callable[[], Any], action: Action) -> Measured:
    begun, cpu = time.perf_counter(), _cpu_seconds(topic)
    action(made())
    return topic.records / (time.perf_counter() - begun), topic.records / (_cpu_seconds(topic) - cpu)


def _cpu_seconds(topic: FilledTopic) -> float:
    """This process has Spark's JVM and its workers below it, and the broker."""
    return cost_of(os.getpid()).cpu_seconds
