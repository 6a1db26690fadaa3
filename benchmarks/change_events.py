"""(ch) Compares a million change events of Debezium into a Delta table with the newest row of each key, by table export
on Spark, with what users of Spark write: ``foreachBatch`` that takes the newest event of each key and does a ``MERGE``
into a Delta table.

Delta's ``MERGE`` does not work with the Spark of ``.venv``, so that one runs on Spark 4.0.1 in a process of its own.
Both read the same topic of our broker, in ten parts, since such events come over time and each part changes rows of
the parts before. The CPU of all processes counts, except that of the other Spark."""

import itertools
from pathlib import Path
from typing import Any

import deltalake
import psutil
import pyarrow.compute as pc

import siltstone
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least
from benchmarks.support.sparks import Contest, in_turn, spark_with_connector
from benchmarks.support.table_exports import begin_table
from benchmarks.support.topics import PARTITIONS, TOPIC, FilledTopic, Made, filled_topic
from oracles.foreign_streams import ForeignStreams, query
from oracles.java_artifacts import JavaArtifactsUnavailable
from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.metadata.lookup import bytes_by_bucket
from siltstone.spark.spark_runner import SparkRunner
from siltstone.tables.kind import TableExport

RECORDS = 1_000_000
KEYS = 200_000
PARTS = 10
TITLE = "(ch) change events of Debezium into a Delta table, local[2], warm, against foreachBatch and MERGE"
COLUMNS = "id long, name string, price double, paid boolean, at string"
AIM = 4.0


def run(records: int = RECORDS, keys: int = KEYS) -> list[Row]:
    try:
        with (
            spark_with_connector() as spark,
            folder() as place,
            ForeignStreams(place) as foreign,
            filled_topic(place, records, made=lambda number: event(number, keys)) as topic,
        ):
            return _rows(spark, foreign, topic, place, keys)
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]


def event(number: int, keys: int) -> Made:
    """Returns the envelope of a change. Each key has an event in each stage; in each but the first a tenth of the keys
    is deleted, and is made again in the next one."""
    stage, key = number // keys, number * 7919 % keys
    before = b"null" if stage == 0 or _is_deleted(key, stage - 1) else _row(key, stage - 1)
    after = b"null" if _is_deleted(key, stage) else _row(key, stage)
    op = b"d" if after == b"null" else b"c" if before == b"null" else b"u"
    value = (
        b'{"before": %s, "after": %s, "source": {"version": "3.3.1.Final", "connector": "postgresql", "name": "shop", '
        b'"ts_ms": %d, "snapshot": "false", "db": "postgres", "schema": "public", "table": "orders", "txId": %d, '
        b'"lsn": %d}, "op": "%s", "ts_ms": %d, "transaction": null}'
        % (
            before,
            after,
            1_764_000_000_000 + number,
            number // 3,
            number * 64,
            op,
            1_764_000_000_100 + number,
        )
    )
    return b'{"id": %d}' % key, value, key % PARTITIONS


def _is_deleted(key: int, stage: int) -> bool:
    return stage > 0 and (key + stage) % 10 == 0


def _row(key: int, stage: int) -> bytes:
    return b'{"id": %d, "name": "name of %d", "price": %d.25, "paid": %s, "at": "2026-11-29T12:%02d:00Z"}' % (
        key, key, key % 1_000 + stage, b"true" if (key + stage) % 3 else b"false", stage,
    )  # fmt: skip


Sums = tuple[int, int, float]


def expected(records: int, keys: int) -> Sums:
    """Returns the number of rows, the sum of their ids and of their prices, by the plain rule."""
    rows: dict[int, float] = {}
    for number in range(records):
        stage, key = number // keys, number * 7919 % keys
        rows.pop(key, None)
        if not _is_deleted(key, stage):
            rows[key] = key % 1_000 + stage + 0.25
    return len(rows), sum(rows), sum(rows.values())


def _rows(spark: Any, foreign: ForeignStreams, topic: FilledTopic, place: Path, keys: int) -> list[Row]:
    numbers = itertools.count()
    wanted, runner = expected(topic.records, keys), SparkRunner(spark.sparkContext)
    rounds: list[int] = []
    tables: list[Path] = []

    def export(_: None) -> None:
        with siltstone.open_store(topic.store) as store:
            round_bytes = sum(bytes_by_bucket(store.metadata.refresh()).values()) // PARTS + 1
            kind = TableExport(store.kind_settings.tables, None, round_bytes)
            driver = Driver(store.context, lambda: runner, Scope(is_forced=True), Budget())
            count = 0
            while True:
                reports = list(driver.run([kind]))
                assert all(each.is_well for each in reports), reports
                if not any(each.done for each in reports):
                    break
                count += 1
            rounds.append(count)

    def fresh() -> None:
        table = begin_table(
            topic, f"kafka.t{next(numbers)}", format="delta", value="json", columns=COLUMNS, mode="upsert",
            change="debezium", key="json", key_columns="id long",
        )  # fmt: skip
        tables.append(table)

    def merge(into: Path) -> None:
        per_batch = topic.records // PARTS
        foreign.run(
            query(
                "merge",
                topic.address,
                TOPIC,
                str(into),
                into / "checkpoint",
                per_batch=per_batch,
                columns=COLUMNS,
            ),
            waits=True,
        )

    def empty() -> Path:
        into = place / f"merged-{next(numbers)}"
        foreign.sql(f"CREATE TABLE delta.`{into}` ({COLUMNS}) USING delta")
        tables.append(into)
        return into

    ways = [Contest(export, fresh, idle_pids=[foreign.pid]), Contest(merge, empty, idle_pids=_jvms())]
    ours, theirs = in_turn(ways, topic.records)
    for path in tables[-2:]:
        table = deltalake.DeltaTable(str(path)).to_pyarrow_table()
        assert (len(table), pc.sum(table["id"]).as_py(), pc.sum(table["price"]).as_py()) == wanted, path
    against = f"{ours.beside(theirs, 'MERGE')}; {rounds[-1]} and {PARTS} parts"
    return [
        at_least(
            "events a CPU second, as a multiple",
            ours.per_cpu_second / theirs.per_cpu_second,
            AIM,
            " ×",
            against,
        ),
        Row("events a second, as a multiple", f"{ours.per_second / theirs.per_second:.1f} ×"),
    ]


def _jvms() -> list[int]:
    """Returns the JVM of our Spark, which is idle while the other Spark works."""
    return [each.pid for each in psutil.Process().children() if each.name() == "java"]
