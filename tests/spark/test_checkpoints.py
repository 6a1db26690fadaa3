"""A query of Spark's Kafka source is stopped, handed over, and continues with format siltstone: each record once."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import siltstone
from oracles.java_artifacts import SPARK_KAFKA_CONNECTOR, JavaArtifactsUnavailable, fetch_jars
from siltstone.scanning.failures import TopicNotThere
from siltstone.spark.checkpoints import CheckpointRefused
from support.kafka.quiet_client import QUIET

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    try:
        fetch_jars(SPARK_KAFKA_CONNECTOR)
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))
    with siltstone.Broker(tmp_path_factory.mktemp("checkpoints") / "store") as running:
        yield running


def produce(broker: siltstone.Broker, topic: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % 2, timestamp=1_000 * (number + 1))
    assert producer.flush(60) == 0


Started = Callable[..., Any]


@pytest.fixture
def started(spark: Any, broker: siltstone.Broker, tmp_path: Path) -> Started:
    """Starts the query with one of two sources; its rows go into Parquet files, each once."""

    def start(source: str, topic: str, **trigger: Any) -> Any:
        place = (
            {"kafka.bootstrap.servers": broker.bootstrap_servers}
            if source == "kafka"
            else {"store": str(broker.folder)}
        )
        reader = spark.readStream.format(source).options(**place, subscribe=topic, startingOffsets="earliest")
        frame = reader.option("maxOffsetsPerTrigger", 40).load().selectExpr("cast(value as string) as value")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "query"))
        return writer.trigger(**(trigger or {"availableNow": True})).start(str(tmp_path / "out"))

    return start


def found(spark: Any, folder: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(folder / "out")).collect())


@pytest.mark.nightly(tried="checkpoints")
def test_ss18_a_query_of_the_kafka_source_continues_as_one_of_siltstone(
    spark: Any, broker: siltstone.Broker, started: Started, tmp_path: Path
) -> None:
    broker.create_topic("handed-over", partitions=2)
    produce(broker, "handed-over", range(100))
    started("kafka", "handed-over").awaitTermination()
    checkpoint = siltstone.spark.checkpoint(tmp_path / "query")
    assert checkpoint.is_finished
    (before,) = checkpoint.sources
    assert (before.form, before.offsets) == ("kafka", {("handed-over", 0): 50, ("handed-over", 1): 50})
    assert str(checkpoint).endswith("kafka: handed-over-0 at 50, handed-over-1 at 50")
    batch_id = checkpoint.batch_id
    produce(broker, "handed-over", range(100, 160))
    with pytest.raises(Exception, match="offsets that Spark's Kafka source wrote"):
        started("siltstone", "handed-over").awaitTermination()
    checkpoint.to_siltstone(store=broker.folder)
    (after,) = checkpoint.sources
    assert (after.form, after.offsets) == ("siltstone", before.offsets)
    (backup,) = (tmp_path / "query" / "siltstone-backups").iterdir()
    assert backup.name == f"{batch_id}.0" and '{"handed-over":{' in backup.read_text()
    started("siltstone", "handed-over").awaitTermination()
    assert found(spark, tmp_path) == list(range(160)), "each record once across the change"
    assert siltstone.spark.checkpoint(tmp_path / "query").batch_id > batch_id


@pytest.mark.nightly(tried="checkpoints")
def test_ss19_a_query_is_rewound_to_a_time_and_moved_to_offsets(
    spark: Any, broker: siltstone.Broker, started: Started, tmp_path: Path
) -> None:
    broker.create_topic("rewound", partitions=2)
    produce(broker, "rewound", range(40))
    for source in ("kafka", "siltstone"):
        started(source, "rewound").awaitTermination()
        checkpoint = siltstone.spark.checkpoint(f"file://{tmp_path}/query")
        checkpoint.rewind(datetime.fromtimestamp(36, UTC), store=broker.folder)
        (position,) = checkpoint.sources
        assert position.offsets == {("rewound", 0): 18, ("rewound", 1): 17}, "35 and later"
        checkpoint.move({"rewound-0": 19})
        if source == "kafka":
            checkpoint.to_siltstone(store=broker.folder)
    started("siltstone", "rewound").awaitTermination()
    again = [35, 37, 38, 39]
    assert found(spark, tmp_path) == sorted([*range(40), *again, *again])


def test_ss20_a_query_that_runs_or_is_in_a_micro_batch_is_not_moved(
    broker: siltstone.Broker, started: Started, tmp_path: Path
) -> None:
    broker.create_topic("running", partitions=2)
    produce(broker, "running", range(10))
    query = started("kafka", "running", processingTime="0 seconds")
    try:
        query.processAllAvailable()
        with pytest.raises(CheckpointRefused, match="runs in this Spark: stop it first"):
            siltstone.spark.checkpoint(tmp_path / "query").to_siltstone(store=broker.folder)
    finally:
        query.stop()
    checkpoint = siltstone.spark.checkpoint(tmp_path / "query")
    commit = tmp_path / "query" / "commits" / str(checkpoint.batch_id)
    kept = commit.rename(commit.with_name("kept"))
    with pytest.raises(CheckpointRefused, match="is not finished: the query runs, or was killed"):
        checkpoint.move({"running-0": 0})
    kept.rename(commit)
    checkpoint.move({"running-0": 0})
    with pytest.raises(CheckpointRefused, match="has not read from runing-0; its partitions are running-0"):
        checkpoint.move({"runing-0": 0})
    checkpoint.move({"running-1": 10_000})
    with pytest.raises(Exception, match="10000"):
        checkpoint.to_siltstone(store=broker.folder)
    checkpoint.move({"running-1": 5})
    offsets = tmp_path / "query" / "offsets" / str(checkpoint.batch_id)
    lines = offsets.read_text().splitlines()
    offsets.write_text("\n".join([*lines[:-1], json.dumps({"gone": {"0": 1}})]))
    with pytest.raises(TopicNotThere, match="no topic 'gone', from which the query has read"):
        checkpoint.to_siltstone(store=broker.folder)
