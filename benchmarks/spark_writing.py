"""(s) A DataFrame written into a topic: by ``format("siltstone")`` in both modes, against Spark's own sink for Kafka
into the same broker.

Rows a CPU second are those of all processes: Spark's JVM, its Python workers, this driver, and the broker. In mode
``objects`` there is no broker: its store is another one, in which the topic is closed."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from benchmarks.brokers.contenders import Siltstone
from benchmarks.brokers.process_cost import cost_of
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least
from benchmarks.support.topics import PARTITIONS, TOPIC, VALUE_BYTES
from oracles.broker_process import HOST
from oracles.java_artifacts import SPARK_KAFKA_CONNECTOR, JavaArtifactsUnavailable, fetch_jars

RECORDS = 10_000_000
ROUNDS = 3
TITLE = "(s) a DataFrame into a topic, Spark local[2], warm, against its sink for Kafka into the same broker"

Written = Callable[[Any], object]
Measured = tuple[float, float]
"""Rows a second, and rows a CPU second of all processes."""


def run(records: int = RECORDS) -> list[Row]:
    try:
        jars = ",".join(map(str, fetch_jars(SPARK_KAFKA_CONNECTOR)))
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]
    with ExitStack() as opened:
        spark = siltstone.spark.session("local[2]", {"spark.jars": jars, "spark.driver.memory": "4g"})
        opened.callback(spark.stop)
        served, closed = (opened.enter_context(folder()) for _ in range(2))
        return _rows(spark, opened, served, closed, records)


def _rows(spark: Any, opened: ExitStack, served: Path, closed: Path, records: int) -> list[Row]:
    without = Siltstone().prepared(closed)
    with without.started():
        _create(f"{HOST}:{without.port}")
    prepared = Siltstone().prepared(served)
    opened.enter_context(prepared.started())
    address = f"{HOST}:{prepared.port}"
    _create(address)
    rows = spark.range(0, records, 1, PARTITIONS).selectExpr(
        "lpad(cast(id % 100000 as string), 12, '0') as key",
        f"rpad(concat(id, ' ', id * 7919), {VALUE_BYTES}, '.') as value",
    )

    def kafka(frame: Any) -> None:
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", address)
        writer.options(**{"topic": TOPIC, "kafka.compression.type": "lz4", "kafka.linger.ms": "50"}).save()

    def ours(store: Path, mode: str) -> Written:
        def write(frame: Any) -> None:
            writer = frame.write.format("siltstone").options(store=str(store), topic=TOPIC, mode=mode)
            writer.mode("append").save()

        return write

    ways = (kafka, ours(served / "store", "relay"), ours(closed / "store", "objects"))
    theirs, relay, objects = _in_turn(rows, records, ways)
    return [
        at_least(name, our[1] / theirs[1], aim, " ×", _against(our, theirs))
        for name, our, aim in (("mode relay", relay, 1.0), ("mode objects", objects, 3.0))
    ]


def _create(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(60)


def _against(our: Measured, their: Measured) -> str:
    each = f"{our[1] / 1e6:.2f} M rows a CPU second, theirs {their[1] / 1e6:.2f} M"
    return f"{each}; wall {our[0] / 1e6:.2f} and {their[0] / 1e6:.2f} M rows/s"


def _in_turn(rows: Any, records: int, ways: tuple[Written, ...]) -> list[Measured]:
    """Medians; one round of each is not counted."""
    found: list[list[Measured]] = [[] for _ in ways]
    for number in range(ROUNDS + 1):
        for of_one, write in zip(found, ways, strict=True):
            begun, cpu = time.perf_counter(), _cpu_seconds()
            write(rows)
            if number:
                seconds, used = time.perf_counter() - begun, _cpu_seconds() - cpu
                of_one.append((records / seconds, records / used))
    return [(median(each[0] for each in one), median(each[1] for each in one)) for one in found]


def _cpu_seconds() -> float:
    """This process has Spark's JVM and its workers below it, and the broker."""
    return cost_of(os.getpid()).cpu_seconds
