"""Spark's own Kafka connector on a broker: batch and stream, read and write, as its users write it.

It asks an Admin for offsets and reads with consumers that are assigned partitions and seek, never as a member of a
group; it writes with an idempotent producer.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from oracles.java_artifacts import SPARK_KAFKA_CONNECTOR, JavaArtifactsUnavailable, fetch_jars

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(600)]

DAY_MS = 86_400_000
_numbers = count(1)


@pytest.fixture(scope="module", autouse=True)
def connector() -> None:
    try:
        fetch_jars(SPARK_KAFKA_CONNECTOR)
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def admin(kafka_address: str) -> Iterator[AdminClient]:
    return AdminClient({"bootstrap.servers": kafka_address})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    """Two partitions, empty."""
    return new_topic(admin)


def new_topic(admin: AdminClient) -> str:
    name = f"spark-{next(_numbers)}"
    admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])[name].result(60)
    return name


class Broker:
    """What the tests do with the topic besides Spark."""

    def __init__(self, address: str, spark: Any) -> None:
        self.address = address
        self.spark = spark

    def write(self, topic: str, values: Sequence[str], partition: int = 0, first_day: int = 0) -> None:
        """Each value a day after the one before it."""
        producer = Producer({"bootstrap.servers": self.address})
        for day, value in enumerate(values, first_day):
            producer.produce(topic, value, partition=partition, timestamp=(day + 1) * DAY_MS)
        assert producer.flush(60) == 0

    def rows(self, topic: str, **options: Any) -> list[Any]:
        """A batch read, in the order of partitions and offsets."""
        found = self._options(self.spark.read, options).option("subscribe", topic).load().collect()
        return sorted(found, key=lambda row: (row.partition, row.offset))

    def values(self, topic: str, **options: Any) -> list[str]:
        return [bytes(row.value).decode() for row in self.rows(topic, **options)]

    def read_stream(self, topic: str, **options: Any) -> Any:
        return self._options(self.spark.readStream, options).option("subscribe", topic).load()

    def all_there_is(self, stream: Any, folder: Path) -> list[str]:
        """What a streaming query whose checkpoint is in ``folder`` finds now that it did not before."""
        found: list[str] = []

        def take(batch: Any, _: int) -> None:
            found.extend(bytes(row.value).decode() for row in batch.orderBy("partition", "offset").collect())

        writer = stream.writeStream.option("checkpointLocation", str(folder)).trigger(availableNow=True)
        writer.foreachBatch(take).start().awaitTermination()
        return found

    def _options(self, reader: Any, options: dict[str, Any]) -> Any:
        chosen = reader.format("kafka").option("kafka.bootstrap.servers", self.address)
        for name, value in options.items():
            chosen = chosen.option(name, value if isinstance(value, str | int) else json.dumps(value))
        return chosen


@pytest.fixture(scope="module")
def broker(kafka_address: str, spark: Any) -> Broker:
    return Broker(kafka_address, spark)


def test_batch_read_gives_every_column(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(
        topic, b"value", b"key", partition=1, timestamp=7 * DAY_MS, headers=[("h", b"1"), ("n", None)]
    )
    assert producer.flush(60) == 0
    (row,) = broker.rows(topic, startingOffsets="earliest", includeHeaders="true")
    assert (row.topic, row.partition, row.offset, row.timestampType) == (topic, 1, 0, 0)
    assert (row.timestamp.timestamp(), row.key, row.value) == (7 * DAY_MS / 1000, b"key", b"value")
    assert [(header.key, header.value) for header in row.headers] == [("h", b"1"), ("n", None)]


def test_batch_read_between_offsets(broker: Broker, topic: str) -> None:
    broker.write(topic, ["a0", "a1", "a2", "a3"])
    broker.write(topic, ["b0", "b1"], partition=1)
    starting, ending = {topic: {"0": 1, "1": -2}}, {topic: {"0": 3, "1": -1}}
    assert broker.values(topic, startingOffsets=starting, endingOffsets=ending) == ["a1", "a2", "b0", "b1"]


def test_batch_read_between_timestamps(broker: Broker, topic: str) -> None:
    broker.write(topic, ["a0", "a1", "a2", "a3"])
    broker.write(topic, ["b0", "b1"], partition=1)
    from_second_day = broker.values(topic, startingTimestamp=2 * DAY_MS, endingTimestamp=4 * DAY_MS)
    assert from_second_day == ["a1", "a2", "b1"]
    one_later = {topic: {"0": 3 * DAY_MS, "1": 2 * DAY_MS}}
    assert broker.values(topic, startingOffsetsByTimestamp=one_later) == ["a2", "a3", "b1"]


def test_batch_read_of_topics_by_pattern(broker: Broker, admin: AdminClient, spark: Any) -> None:
    topics = [new_topic(admin) for _ in range(2)]
    for name in topics:
        broker.write(name, [name])
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
    rows = reader.option("subscribePattern", "|".join(topics)).load().collect()
    assert sorted((row.topic, bytes(row.value).decode()) for row in rows) == [
        (name, name) for name in sorted(topics)
    ]


def test_batch_write_and_its_records(broker: Broker, topic: str, spark: Any) -> None:
    columns = "topic string, partition int, key string, value string, headers array<struct<key:string,value:binary>>"
    rows = [(topic, 1, "k", "v", [("h", b"1")]), (topic, 0, None, "w", None), (topic, 0, "gone", None, None)]
    frame = spark.createDataFrame(rows, columns)
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.address).option(
        "includeHeaders", "true"
    ).save()
    found = broker.rows(topic, includeHeaders="true")
    assert [(row.partition, row.key, row.value) for row in found] == [
        (0, None, b"w"),
        (0, b"gone", None),
        (1, b"k", b"v"),
    ]
    assert [(header.key, header.value) for header in found[2].headers] == [("h", b"1")]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_batch_write_with_compression(broker: Broker, topic: str, spark: Any, compression: str) -> None:
    frame = spark.createDataFrame(
        [(f"{number:05} " * 20,) for number in range(500)], "value string"
    ).coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.address).option(
        "topic", topic
    ).option("kafka.compression.type", compression).save()
    assert sorted(broker.values(topic)) == sorted(row.value for row in frame.collect())


@pytest.mark.nightly(tried="streams")
def test_stream_read_goes_on_from_its_checkpoint(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.write(topic, ["a0", "a1"])
    stream = broker.read_stream(topic, startingOffsets="earliest")
    assert broker.all_there_is(stream, tmp_path) == ["a0", "a1"]
    broker.write(topic, ["a2"])
    broker.write(topic, ["b0"], partition=1)
    assert broker.all_there_is(stream, tmp_path) == ["a2", "b0"]
    assert broker.all_there_is(stream, tmp_path) == []


def test_stream_read_from_offsets(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.write(topic, ["a0", "a1", "a2"])
    broker.write(topic, ["b0"], partition=1)
    stream = broker.read_stream(topic, startingOffsets={topic: {"0": 2, "1": -1}})
    assert broker.all_there_is(stream, tmp_path) == ["a2"]


@pytest.mark.nightly(tried="streams")
def test_stream_read_from_a_timestamp(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.write(topic, ["a0", "a1", "a2"])
    broker.write(topic, ["b0"], partition=1)
    # The second partition has nothing so late: it is read from its end.
    stream = broker.read_stream(
        topic, startingTimestamp=2 * DAY_MS, startingOffsetsByTimestampStrategy="latest"
    )
    assert broker.all_there_is(stream, tmp_path) == ["a1", "a2"]
    broker.write(topic, ["b1"], partition=1, first_day=1)
    assert broker.all_there_is(stream, tmp_path) == ["b1"]


@pytest.mark.nightly(tried="streams")
def test_stream_read_in_limited_batches(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.write(topic, [f"a{number}" for number in range(7)])
    stream = broker.read_stream(topic, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    sizes: list[int] = []
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    writer.foreachBatch(lambda batch, _: sizes.append(batch.count())).start().awaitTermination()
    assert sum(sizes) == 7
    assert len(sizes) > 1


@pytest.mark.nightly(tried="streams")
def test_stream_write(broker: Broker, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    """From one topic into another; what the query is given twice it writes once."""
    target = new_topic(admin)
    broker.write(topic, ["a0", "a1"])
    stream = broker.read_stream(topic, startingOffsets="earliest").selectExpr(
        "upper(CAST(value AS STRING)) AS value"
    )

    def run() -> None:
        writer = stream.writeStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
        writer = writer.option("topic", target).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    assert sorted(broker.values(target)) == ["A0", "A1"]
    broker.write(topic, ["a2"])
    run()
    assert sorted(broker.values(target)) == ["A0", "A1", "A2"]


def test_offsets_that_are_gone_fail_the_query_unless_told_otherwise(
    broker: Broker, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    from confluent_kafka import TopicPartition
    from pyspark.errors import StreamingQueryException

    broker.write(topic, ["a0"])
    stream = broker.read_stream(topic, startingOffsets="earliest")
    assert broker.all_there_is(stream, tmp_path) == ["a0"]
    broker.write(topic, ["a1", "a2", "a3"])
    (gone,) = admin.delete_records([TopicPartition(topic, 0, 3)]).values()
    assert gone.result(60).low_watermark == 3
    with pytest.raises(StreamingQueryException):
        broker.all_there_is(stream, tmp_path)
    lenient = broker.read_stream(topic, startingOffsets="earliest", failOnDataLoss="false")
    assert broker.all_there_is(lenient, tmp_path) == ["a3"]
