"""(t) Measures how long after the broker has acknowledged a record a ``foreachBatch`` function sees it, with a trigger
of 1 s, beside Spark's connector for Kafka on the same broker.

Records are in no object yet, so ours are read from the broker, too (``tail=auto``). A trigger of a second alone makes a
record wait half a second on average."""

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.brokers.contenders import Siltstone
from benchmarks.support.places import folder
from benchmarks.support.report import Row
from benchmarks.support.sparks import spark_with_connector
from benchmarks.support.topics import create
from oracles.broker_process import HOST
from oracles.java_artifacts import JavaArtifactsUnavailable

SECONDS = 30
RECORDS_PER_SECOND = 100
WARM_BATCHES = 5
ATTEMPTS = 3
"""Spark gives the process of a Python source ten seconds to connect, which are too few on a busy machine."""
GIVE_UP_SECONDS = 120
"""A query that has made no batch by then, or that has not caught up, is reported as such: on a busy machine a batch
takes longer than the trigger, and the records that wait only increase."""
TITLE = "(t) from acknowledged to visible in a micro-batch, trigger 1 s, beside Spark's connector for Kafka"


class NotInTime(Exception):
    """A query makes no batches, or does not catch up."""


def run(seconds: int = SECONDS) -> list[Row]:
    try:
        with spark_with_connector() as spark, folder() as place:
            prepared = Siltstone().prepared(place)
            with prepared.started():
                address = f"{HOST}:{prepared.port}"
                return _rows(spark, place, address, seconds)
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]


def _rows(spark: Any, place: Path, address: str, seconds: int) -> list[Row]:
    sources = {
        "ours": ("siltstone", {"store": str(place / "store")}),
        "the connector": ("kafka", {"kafka.bootstrap.servers": address}),
    }
    found: dict[str, list[float]] = {}
    rows = []
    for name, (kind, options) in sources.items():
        stream = spark.readStream.format(kind).options(**options, startingOffsets="earliest")
        for attempt in range(ATTEMPTS):
            topic = f"seen-by-{kind}-{attempt}"
            create(address, topic)
            checkpoint = place / f"checkpoint-{kind}-{attempt}"
            try:
                frame = stream.option("subscribe", topic).load()
                found[name] = _waits(frame, checkpoint, address, topic, seconds)
                break
            except NotInTime as reason:
                rows.append(Row(f"{name}, attempt {attempt + 1}, left out", str(reason)))
    if len(found) < len(sources):
        alone = [Row(f"{name}, median", f"{_quantile(each, 0.5):.2f} s") for name, each in found.items()]
        return [*rows, *alone]
    for title, share in (("median", 0.5), ("99 of 100", 0.99)):
        ours, theirs = (_quantile(found[name], share) for name in sources)
        rows.append(Row(f"{title}", f"{ours:.2f} s", f"the connector {theirs:.2f} s, {ours / theirs:.2f} ×"))
    return rows


def _waits(frame: Any, checkpoint: Path, address: str, topic: str, seconds: int) -> list[float]:
    """Returns the seconds of each record from its acknowledgement to its batch, without the first batches."""
    acknowledged: dict[int, float] = {}
    seen: dict[int, float] = {}
    is_warm, is_over = threading.Event(), threading.Event()

    def take(rows: Any, batch_id: int) -> None:
        numbers = [int(row.value) for row in rows.select("value").collect()]
        now = time.monotonic()
        seen.update(dict.fromkeys(numbers, now))
        if batch_id >= WARM_BATCHES:
            is_warm.set()

    producing = threading.Thread(target=_produce, args=(address, topic, acknowledged, is_over))
    query = (
        frame.writeStream.foreachBatch(take).trigger(processingTime="1 second")
        .option("checkpointLocation", str(checkpoint)).start()
    )  # fmt: skip
    producing.start()
    try:
        _wait_until(is_warm.is_set, query)
        first = len(acknowledged)
        time.sleep(seconds)
        is_over.set()
        producing.join()
        _wait_until(lambda: len(seen) == len(acknowledged), query)
    finally:
        is_over.set()
        producing.join()
        query.stop()
    return [seen[number] - at for number, at in acknowledged.items() if number >= first]


def _produce(address: str, topic: str, acknowledged: dict[int, float], is_over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    for number in itertools.count():
        if is_over.wait(1 / RECORDS_PER_SECOND):
            break

        def done(error: Any, _: Any, number: int = number) -> None:
            assert error is None, error
            acknowledged[number] = time.monotonic()

        producer.produce(topic, b"%d" % number, partition=number % 4, on_delivery=done)
        producer.poll(0)
    assert producer.flush(60) == 0


def _wait_until(is_so: Callable[[], bool], query: Any) -> None:
    """Waits for batches. Raises NotInTime."""
    give_up = time.monotonic() + GIVE_UP_SECONDS
    while not is_so():
        if not query.isActive:
            raise NotInTime(f"the query has ended: {str(query.exception()).splitlines()[0][:200]}")
        if time.monotonic() > give_up:
            batches = query.lastProgress["batchId"] + 1 if query.lastProgress else 0
            raise NotInTime(
                f"after {GIVE_UP_SECONDS} s the query has made {batches} batches, and has not caught up"
            )
        time.sleep(0.05)


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
