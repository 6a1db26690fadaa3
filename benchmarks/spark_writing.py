"""(s) Compares writes of a DataFrame into a topic of our broker: by ``format("siltstone")``, exactly once, and by
Spark's own sink for Kafka, at least once, into the same broker.

In mode ``objects`` our sink writes without a broker, which is stopped for that and started again for the others. The
rows are in Spark's memory (``cache``), because making them takes more than three times the CPU of our write. CPU is
that of all processes, the broker included. The last row has a task's own work, without Spark: rows to record
batches."""

import itertools
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.brokers.contenders import PreparedSiltstone, Siltstone
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least
from benchmarks.support.sparks import Contest, in_turn, spark_with_connector
from benchmarks.support.topics import create
from oracles.broker_process import HOST
from oracles.java_artifacts import JavaArtifactsUnavailable
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.model.limits import MIB
from siltstone.sinking.encoding import RowEncoder
from siltstone.sinking.plan import SinkPlan, TopicPlace

RECORDS = 10_000_000
PARTS = 8
FOREVER_MS = 2**60
TITLE = "(s) a DataFrame into a topic, local[2], warm, against Spark's sink for Kafka into the same broker"
RELAY, OBJECTS = "relay", "objects"
AIMS = {RELAY: 1.0, OBJECTS: 3.0}
"""Mode of our sink → the aim, as a multiple of Spark's sink."""


class Served:
    """A broker that can be stopped and started."""

    def __init__(self, prepared: PreparedSiltstone) -> None:
        self._prepared = prepared
        self._running: ExitStack | None = None
        self.address = f"{HOST}:{prepared.port}"

    def up(self) -> None:
        if self._running is None:
            self._running = ExitStack()
            self._running.enter_context(self._prepared.started())

    def down(self) -> None:
        """Stops the broker cleanly, so that no stream is open."""
        if self._running is not None:
            self._running.close()
            self._running = None


def run(records: int = RECORDS) -> list[Row]:
    try:
        with spark_with_connector() as spark, folder() as place, ExitStack() as stack:
            served = Served(Siltstone().prepared(place))
            stack.callback(served.down)
            return [*_rows(spark, place / "store", served, records), _encoding()]
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]


def _rows(spark: Any, store: Path, served: Served, records: int) -> list[Row]:
    rows = (
        spark.range(0, records, numPartitions=PARTS)
        .selectExpr(
            "cast(lpad(cast(id % 100000 as string), 12, '0') as binary) as key",
            "cast(rpad(concat(id, ' ', id * 7919), 80, '.') as binary) as value",
        )
        .cache()
    )
    assert rows.count() == records
    numbers = itertools.count()

    def topic(mode: str = RELAY) -> str:
        name = f"written-{next(numbers)}"
        served.up()
        create(served.address, name)
        if mode == OBJECTS:
            served.down()
        return name

    def ours(mode: str) -> Contest:
        def write(name: str) -> None:
            named = {"store": str(store), "topic": name, "mode": mode}
            rows.write.format("siltstone").options(**named).mode("append").save()

        return Contest(write, lambda: topic(mode))

    def theirs(name: str) -> None:
        named = {"kafka.bootstrap.servers": served.address, "topic": name, "kafka.compression.type": "lz4"}
        rows.write.format("kafka").options(**named).mode("append").save()

    *our, their = in_turn([*(ours(mode) for mode in AIMS), Contest(theirs, topic)], records)
    return [
        at_least(
            f"mode {mode}, records a second", each.per_second / their.per_second, aim, " ×",
            each.beside(their, "theirs"),
        )
        for (mode, aim), each in zip(AIMS.items(), our, strict=True)
    ]  # fmt: skip


def _encoding(count: int = 200_000) -> Row:
    """The work of a task with its rows, once it is warm."""
    numbers = range(10_000)
    rows = pa.record_batch(
        {
            "key": [b"%012d" % number for number in numbers],
            "value": [(b"%d %d" % (number, number * 7919)).ljust(80, b".") for number in numbers],
        }
    )
    place = TopicPlace("t", "", (0, 1, 2, 3), Codec.LZ4, MIB, False, True, FOREVER_MS, FOREVER_MS)
    plan = SinkPlan(1, "", "", "t", "", (place,))
    cpu = 0.0
    for _ in range(2):
        encoder = RowEncoder(plan, 0, 0, lambda *_: None)
        begun = time.process_time()
        for _ in range(count // rows.num_rows):
            encoder.add_all(rows)
        encoder.seal_all()
        cpu = time.process_time() - begun
    return Row("a task's rows to record batches of lz4, a CPU second", f"{count / cpu / 1e6:.2f} M")
