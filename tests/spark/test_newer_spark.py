"""What Spark 4.2 and 4.3 added for streams, with topics as sources: sources with names, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.spark.checkpoints import CheckpointRefused
from support.kafka.quiet_client import QUIET

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("newer") / "store") as running:
        for topic in ("first", "second"):
            running.create_topic(topic)
            produce(running, topic, 5)
        yield running


def produce(broker: siltstone.Broker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0


def stream_of(spark: Any, broker: siltstone.Broker, topic: str, name: str = "") -> Any:
    reader = spark.readStream.format("siltstone").options(store=str(broker.folder), subscribe=topic)
    reader = reader.option("startingOffsets", "earliest")
    return (reader.name(name) if name else reader).load().select("topic", "offset")


def run(frame: Any, folder: Path) -> int:
    """Returns how many rows the query read until it had all there is."""
    found: list[int] = []
    writer = frame.writeStream.option("checkpointLocation", str(folder)).trigger(availableNow=True)
    writer.foreachBatch(lambda batch, _: found.append(batch.count())).start().awaitTermination()
    return sum(found)


@pytest.mark.nightly(tried="checkpoints")
def test_ss21_a_source_with_a_name_continues_and_another_one_is_added_to_an_old_checkpoint(
    spark: Any, broker: siltstone.Broker, tmp_path: Path
) -> None:
    spark.conf.set(EVOLUTION, "true")
    try:
        assert run(stream_of(spark, broker, "first", "one"), tmp_path) == 5
        produce(broker, "first", 2)
        both = stream_of(spark, broker, "second", "two").union(stream_of(spark, broker, "first", "one"))
        assert run(both, tmp_path) == 5 + 2
    finally:
        spark.conf.unset(EVOLUTION)
    with pytest.raises(CheckpointRefused, match="Sources with names have another"):
        print(siltstone.spark.checkpoint(tmp_path))


def test_ss22_real_time_mode_and_changes_are_refused(
    spark: Any, broker: siltstone.Broker, tmp_path: Path
) -> None:
    writer = stream_of(spark, broker, "first").writeStream.format("console").outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 seconds")
    with pytest.raises(Exception, match="STREAMING_REAL_TIME_MODE"):
        query.start().awaitTermination()
    with pytest.raises(Exception, match="does not support Change Data Capture"):
        spark.readStream.option("startingVersion", "0").changes("first").printSchema()
