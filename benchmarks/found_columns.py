"""(ci) Compares the export of a topic of JSON records whose columns are found with the same export whose columns are
listed, and with what a user of Spark's connector for Kafka writes: a schema from a sample by ``schema_of_json``, then
``from_json`` into Parquet, by Structured Streaming, from our broker.

The CPU of all processes counts. Each round exports the whole topic into a table of another name, and has forgotten
which columns were found before."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import siltstone
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least
from benchmarks.support.sparks import Contest, in_turn, spark_with_connector
from benchmarks.support.table_exports import begin_table, export_whole
from benchmarks.support.topics import PARTITIONS, TOPIC, FilledTopic, Made, filled_topic
from oracles.java_artifacts import JavaArtifactsUnavailable
from siltstone.tables.inspecting import table_rows

RECORDS = 2_000_000
SAMPLE = 1_000
"""Values of which the connector's user makes a schema: an export looks at ten times as many."""
TITLE = "(ci) JSON records to Parquet, local[2], warm: columns found, listed, and from_json from Kafka's connector"
LISTED = (
    "id long, carrier string, delay double, cancelled boolean, at string, "
    "route struct<origin: string, target: string, km: long>, tags array<string>, note string"
)


def run(records: int = RECORDS) -> list[Row]:
    try:
        with (
            spark_with_connector() as spark,
            folder() as place,
            filled_topic(place, records, made=flight) as topic,
        ):
            return _rows(spark, topic, place)
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]


def flight(number: int) -> Made:
    """Returns a record of about 230 bytes, with a struct, a list, and a number that is now whole and now is not."""
    value = (
        b'{"id": %d, "carrier": "C%d", "delay": %s, "cancelled": %s, "at": "2026-11-29T%02d:%02d:00Z", '
        b'"route": {"origin": "A%02d", "target": "B%02d", "km": %d}, "tags": ["t%d", "all"], "note": "%s"}'
        % (
            number, number % 40, b"%d.5" % (number % 300) if number // PARTITIONS % 2 else b"%d" % (number % 300),
            b"true" if number % 50 == 0 else b"false", number % 24, number % 60, number % 90, number % 70,
            number % 9_000, number % 5, b"n" * (number % 60),
        )
    )  # fmt: skip
    return b"%012d" % number, value, number % PARTITIONS


def _rows(spark: Any, topic: FilledTopic, place: Path) -> list[Row]:
    numbers = itertools.count()
    tables: list[Path] = []

    def export(name: str) -> None:
        with siltstone.open_store(topic.store) as store:
            export_whole(store, spark)
            found = [row for row in table_rows(store.metadata.refresh()) if row.table == name]
            assert [(row.rows, row.dead_letters) for row in found] == [(topic.records, 0)]

    def fresh(columns: str) -> str:
        name = f"kafka.t{next(numbers)}"
        tables.append(begin_table(topic, name, format="parquet", value="json", columns=columns))
        return name

    def streamed(number: int) -> None:
        from pyspark.sql.functions import col, from_json, lit, schema_of_json

        named = {"kafka.bootstrap.servers": topic.address, "subscribe": TOPIC}
        sampled = spark.read.format("kafka").options(**named).load().limit(SAMPLE).select("value").collect()
        values = json.dumps([json.loads(row.value) for row in sampled])
        array = spark.range(1).select(schema_of_json(lit(values))).head()[0]
        schema = f"{array.removeprefix('ARRAY<').removesuffix('>>')}, _rescued_data: STRING>"
        into = place / f"streamed-{number}"
        tables.append(into)
        decoded = from_json(
            col("value").cast("string"), schema, {"columnNameOfCorruptRecord": "_rescued_data"}
        )
        stream = spark.readStream.format("kafka").options(**named, startingOffsets="earliest").load()
        query = (
            stream.select(decoded.alias("fields"), "partition", "offset", "timestamp", "key")
            .select("fields.*", "partition", "offset", "timestamp", "key")
            .writeStream.format("parquet").option("path", str(into))
            .option("checkpointLocation", str(into) + "-checkpoint").trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        assert query.exception() is None

    ways = [
        Contest(export, lambda: fresh("infer")), Contest(export, lambda: fresh(LISTED)),
        Contest(streamed, lambda: next(numbers)),
    ]  # fmt: skip
    found, listed, theirs = in_turn(ways, topic.records)
    _check(spark, tables[-3:])
    return [
        at_least(
            "columns found, a CPU second, as a multiple of listed", found.per_cpu_second / listed.per_cpu_second,
            0.8, " ×", found.beside(listed, "listed"),
        ),
        at_least(
            "… of schema_of_json and from_json from the connector", found.per_cpu_second / theirs.per_cpu_second,
            3, " ×", found.beside(theirs, "theirs"),
        ),
    ]  # fmt: skip


def _check(spark: Any, folders: Sequence[Path]) -> None:
    """Asserts that the last tables of all three ways have the same rows."""
    sums = set()
    for path in folders:
        files = [str(each) for each in path.rglob("*.parquet")]
        frame = spark.read.parquet(*files)
        rescued = "count(_rescued_data)" if "_rescued_data" in frame.columns else "0L"
        wanted = ("count(*)", "sum(id)", "sum(delay)", "sum(route.km)", "sum(size(tags))", rescued)
        sums.add(tuple(frame.selectExpr(*wanted).head()))
    assert len(sums) == 1, sums
