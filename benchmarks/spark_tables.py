"""(r) Compares the export of a topic to Parquet and to Iceberg by maintenance on Spark with Structured Streaming from
Spark's connector for Kafka into Parquet, from our broker; and measures the memory of a task of the export.

The CPU of all processes counts. Each round exports the whole topic into a table of another name."""

import itertools
from pathlib import Path
from typing import Any

import siltstone
from benchmarks.support.idle_task import idle_task
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least, at_most
from benchmarks.support.sparks import Contest, in_turn, spark_with_connector
from benchmarks.support.table_exports import export_whole
from benchmarks.support.topics import TOPIC, FilledTopic, filled_topic
from oracles.java_artifacts import JavaArtifactsUnavailable
from siltstone.model.limits import MIB
from siltstone.spark.spark_runner import SparkRunner

RECORDS = 10_000_000
TITLE = (
    "(r) a topic to a table, local[2], warm, against Structured Streaming from Kafka's connector into Parquet"
)
MEMORY_ADDED_MIB = 512
PER_SECOND = 1_000_000


def run(records: int = RECORDS) -> list[Row]:
    try:
        with spark_with_connector() as spark, folder() as place, filled_topic(place, records) as topic:
            return _rows(spark, topic, place)
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]


def _rows(spark: Any, topic: FilledTopic, place: Path) -> list[Row]:
    (idle,) = SparkRunner(spark.sparkContext).run(idle_task, [b""])
    numbers = itertools.count()
    peaks: list[int] = []

    def export(name: str) -> None:
        with siltstone.open_store(topic.store) as store:
            peaks.extend(each.peak_memory_bytes for each in export_whole(store, spark))
            progress = [row for row in _tables(store) if row.table == name]
            assert [row.rows for row in progress] == [topic.records]

    def anew(table_format: str) -> str:
        name = f"kafka.{table_format}_{next(numbers)}"
        _configure(topic.address, {"siltstone.table.format": table_format, "siltstone.table.name": name})
        return name

    def streamed(number: int) -> None:
        named = {"kafka.bootstrap.servers": topic.address, "subscribe": TOPIC, "startingOffsets": "earliest"}
        into = place / f"streamed-{number}"
        query = (
            spark.readStream.format("kafka").options(**named).load()
            .writeStream.format("parquet").option("path", str(into))
            .option("checkpointLocation", str(into) + "-checkpoint").trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        assert query.exception() is None

    ways = [
        Contest(export, lambda: anew("parquet")), Contest(export, lambda: anew("iceberg")),
        Contest(streamed, lambda: next(numbers)),
    ]  # fmt: skip
    parquet, iceberg, theirs = in_turn(ways, topic.records)
    rows = []
    for name, ours in (("Parquet", parquet), ("Iceberg", iceberg)):
        against = ours.beside(theirs, "Structured Streaming")
        rows.append(at_least(f"to {name}, records a second", ours.per_second, PER_SECOND, "", against))
        rows.append(
            Row("… a CPU second, as a multiple", f"{ours.per_cpu_second / theirs.per_cpu_second:.1f} ×")
        )
    added = max(peaks) / MIB - float(idle)
    against = f"an idle worker has {float(idle):.0f} MiB"
    rows.append(at_most("memory that a task adds to its process", added, MEMORY_ADDED_MIB, " MiB", against))
    return rows


def _tables(store: Any) -> list[Any]:
    from siltstone.tables.inspecting import table_rows

    return table_rows(store.metadata.refresh())


def _configure(address: str, values: dict[str, str]) -> None:
    from siltstone.cli.demo.kafka_client import configure

    configure(address, TOPIC, values)
