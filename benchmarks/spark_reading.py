"""(q) Compares a topic read by Spark through ``format("siltstone")``, from the objects, with Spark's own connector for
Kafka reading the same topic from our broker, and the same records from Apache Kafka: count, all columns to nowhere, one
column to nowhere, Parquet.

Rows for each CPU second count the CPU of all processes: Spark's JVM, its Python workers, this driver, and the
broker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import siltstone
from benchmarks.brokers.contenders import KAFKA_DEFAULT
from benchmarks.brokers.process_cost import cost_of
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least, at_most
from benchmarks.support.sparks import Contest, in_turn, nowhere, spark_with_connector
from benchmarks.support.topics import TOPIC, FilledTopic, filled_topic, produce
from oracles.java_artifacts import JavaArtifactsUnavailable

RECORDS = 10_000_000
TITLE = "(q) a topic on Spark, local[2], warm, against its connector for Kafka"

Action = Callable[[Any], object]


class ApacheTopic(msgspec.Struct, frozen=True):
    address: str
    pid: int


def run(records: int = RECORDS) -> list[Row]:
    try:
        with spark_with_connector() as spark, folder() as place:
            (place / "ours").mkdir()
            with filled_topic(place / "ours", records) as topic, apache_topic(place, records) as apache:
                return _rows(spark, topic, apache, place)
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]


@contextmanager
def apache_topic(place: Path, records: int) -> Iterator[ApacheTopic | None]:
    """Fills a topic of Apache Kafka with the same records; None where Kafka is not available."""
    if KAFKA_DEFAULT.why_not() is not None:
        yield None
        return
    (place / "apache").mkdir()
    with KAFKA_DEFAULT.prepared(place / "apache").started() as broker:
        produce(broker.bootstrap_servers, records)
        yield ApacheTopic(broker.bootstrap_servers, broker.pid)


def _rows(spark: Any, topic: FilledTopic, apache: ApacheTopic | None, place: Path) -> list[Row]:
    def ours(columns: str | None = None) -> Any:
        return siltstone.spark.read(TOPIC, store=topic.store, spark=spark, columns=columns)

    def theirs(address: str, columns: str | None = None) -> Any:
        named = {"kafka.bootstrap.servers": address, "subscribe": TOPIC}
        frame = spark.read.format("kafka").options(**named).load()
        return frame if columns is None else frame.select(columns)

    def parquet(frame: Any) -> None:
        frame.write.mode("overwrite").parquet(str(place / "parquet"))

    actions: list[tuple[str, str | None, Action, float | None]] = [
        ("count", None, lambda frame: frame.count(), 4), ("all columns to nowhere", None, nowhere, 2.3),
        ("the values to nowhere", "value", nowhere, 4), ("to Parquet", None, parquet, None),
    ]  # fmt: skip
    assert ours().count() == theirs(topic.address).count() == topic.records
    assert apache is None or theirs(apache.address).count() == topic.records
    rows = []
    for name, columns, action, aim in actions:
        ways = [
            Contest(lambda _, a=action, c=columns: a(ours(c)), idle_pids=_pids(apache)),
            Contest(lambda _, a=action, c=columns: a(theirs(topic.address, c)), idle_pids=_pids(apache)),
        ]
        if apache is not None:
            ways.append(
                Contest(lambda _, a=action, c=columns: a(theirs(apache.address, c)), idle_pids=[topic.pid])
            )
        our, *others = in_turn(ways, topic.records)
        for their, of in zip(others, ("from our broker", "from Apache Kafka"), strict=False):
            ratio = our.per_cpu_second / their.per_cpu_second
            against = our.beside(their, "theirs")
            shown = f"{name}, against the connector {of}"
            rows.append(
                Row(shown, f"{ratio:.1f}×", against)
                if aim is None
                else at_least(shown, ratio, aim, " ×", against)
            )
    rows.append(_count_of_one_column(ours, theirs, topic, apache))
    before = cost_of(topic.pid).cpu_seconds
    nowhere(ours())
    rows.append(
        at_most("CPU of the broker during a read", cost_of(topic.pid).cpu_seconds - before, 0.2, " s")
    )
    return rows


def _count_of_one_column(
    ours: Callable[[str], Any], theirs: Callable[[str], Any], topic: FilledTopic, apache: ApacheTopic | None
) -> Row:
    """Counts with ``columns="offset"``: Spark asks a source in Python for all its columns, whatever it then drops."""
    ways = [
        Contest(lambda _: ours("offset").count(), idle_pids=_pids(apache)),
        Contest(lambda _: theirs(topic.address).count(), idle_pids=_pids(apache)),
    ]
    our, their = in_turn(ways, topic.records)
    ratio = our.per_cpu_second / their.per_cpu_second
    shown = "count with columns=offset, against the connector from our broker"
    return Row(shown, f"{ratio:.1f}×", our.beside(their, "theirs"))


def _pids(apache: ApacheTopic | None) -> list[int]:
    return [] if apache is None else [apache.pid]
