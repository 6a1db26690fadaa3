"""(s) Rows of a DataFrame into a topic of our broker: by ``format("siltstone")``, exactly once, against Spark's own
sink for Kafka, at least once, into the same broker.

The rows are made by Spark and cost what a write of them to nowhere costs, which is in both. CPU is that of all
processes, the broker included."""

import itertools
from typing import Any

from benchmarks.brokers.contenders import Siltstone
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least
from benchmarks.support.sparks import Contest, in_turn, spark_with_connector
from benchmarks.support.topics import create
from oracles.broker_process import HOST
from oracles.java_artifacts import JavaArtifactsUnavailable

RECORDS = 10_000_000
PARTS = 8
TITLE = "(s) a DataFrame into a topic, local[2], warm, against Spark's sink for Kafka into the same broker"
AIMS = {"relay": 1.0}
"""By the mode of our sink, the aim as a multiple of theirs. A mode that writes without a broker gets its row here, and
then stops the broker for its part."""


def run(records: int = RECORDS) -> list[Row]:
    try:
        with spark_with_connector() as spark, folder() as place:
            prepared = Siltstone().prepared(place)
            with prepared.started():
                return _rows(spark, str(place / "store"), f"{HOST}:{prepared.port}", records)
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]


def _rows(spark: Any, store: str, address: str, records: int) -> list[Row]:
    rows = spark.range(0, records, numPartitions=PARTS).selectExpr(
        "cast(lpad(cast(id % 100000 as string), 12, '0') as binary) as key",
        "cast(rpad(concat(id, ' ', id * 7919), 80, '.') as binary) as value",
    )
    numbers = itertools.count()

    def topic() -> str:
        name = f"written-{next(numbers)}"
        create(address, name)
        return name

    def ours(mode: str) -> Contest:
        def write(name: str) -> None:
            rows.write.format("siltstone").options(store=store, topic=name, mode=mode).mode("append").save()

        return Contest(write, topic)

    def theirs(name: str) -> None:
        named = {"kafka.bootstrap.servers": address, "topic": name, "kafka.compression.type": "lz4"}
        rows.write.format("kafka").options(**named).mode("append").save()

    *our, their = in_turn([*(ours(mode) for mode in AIMS), Contest(theirs, topic)], records)
    return [
        at_least(
            f"mode {mode}, records a second", each.per_second / their.per_second, aim, " ×",
            each.beside(their, "theirs"),
        )
        for (mode, aim), each in zip(AIMS.items(), our, strict=True)
    ]  # fmt: skip
