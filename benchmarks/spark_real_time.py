"""(tr) Measures how long a record takes through a query in Spark's real-time mode, from the producer to the consumer of
the answer: Spark's own connector between two topics, on our broker and on Apache Kafka."""

import itertools
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Consumer, Producer

from benchmarks.brokers.contenders import KAFKA_DEFAULT, SILTSTONE, Contender
from benchmarks.support.places import folder
from benchmarks.support.report import Row
from benchmarks.support.sparks import spark_with_connector
from benchmarks.support.topics import create
from oracles.java_artifacts import JavaArtifactsUnavailable

TITLE = "(tr) from sent to answered through Spark's real-time mode, beside Apache Kafka"
SECONDS = 20.0
WARM_SECONDS = 15.0
PAUSE_SECONDS = 0.01
ROUNDS = 3


def run() -> list[Row]:
    found: dict[str, list[tuple[float, float]]] = {SILTSTONE.name: [], KAFKA_DEFAULT.name: []}
    try:
        with spark_with_connector() as spark:
            for _ in range(ROUNDS):
                for contender in (SILTSTONE, KAFKA_DEFAULT):
                    with folder() as place:
                        found[contender.name].append(_quantiles(spark, contender, place))
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]
    rows = []
    for at, name in enumerate(("p50", "p99")):
        ours, theirs = (median(each[at] for each in of_one) for of_one in found.values())
        against = f"Apache Kafka without fsync {theirs * 1000:.1f} ms, {ours / theirs:.2f} ×"
        rows.append(Row(f"{name}, median of {ROUNDS} rounds", f"{ours * 1000:.1f} ms", against))
    return rows


def _quantiles(spark: Any, contender: Contender, place: Path) -> tuple[float, float]:
    """Returns p50 and p99 in seconds."""
    with contender.prepared(place).started() as broker:
        address = broker.bootstrap_servers
        for topic in ("sent", "answered"):
            create(address, topic, partitions=1)
        brokers = {"kafka.bootstrap.servers": address}
        query = (
            spark.readStream.format("kafka").options(**brokers, subscribe="sent").load()
            .select("key", "value")
            .writeStream.format("kafka")
            .options(**brokers, topic="answered", checkpointLocation=str(place / "checkpoint"))
            .outputMode("update").trigger(realTime="10 seconds").start()
        )  # fmt: skip
        try:
            waits = sorted(_waits(address))
        finally:
            query.stop()
    return waits[len(waits) // 2], waits[int(len(waits) * 0.99)]


def _waits(address: str) -> list[float]:
    """Returns the seconds of each record, without those that were sent while Spark was warming up."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["answered"])
    sent: list[float] = []
    waits: dict[int, float] = {}
    is_over = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
        for number in itertools.count():
            if is_over.wait(PAUSE_SECONDS):
                break
            sent.append(time.monotonic())
            producer.produce("sent", b"%d" % number)
            producer.poll(0)
        producer.flush(60)

    producing = threading.Thread(target=produce)
    producing.start()
    begun = time.monotonic()
    while time.monotonic() < begun + WARM_SECONDS + SECONDS + 1:
        if time.monotonic() > begun + WARM_SECONDS + SECONDS:
            is_over.set()
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            number = int(message.value())
            waits[number] = time.monotonic() - sent[number]
    is_over.set()
    producing.join()
    consumer.close()
    return [wait for number, wait in waits.items() if sent[number] > begun + WARM_SECONDS]
