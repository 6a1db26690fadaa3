"""Columns that are found from JSON values, in DataFrames and streams of a real Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import AnalysisException, StreamingQueryException

import siltstone
from siltstone.scanning.failures import ScanRefused
from support.kafka.quiet_client import QUIET

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("found") / "store") as running:
        yield running


def produce(broker: siltstone.Broker, topic: str, *values: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, **QUIET})
    for value in values:
        producer.produce(topic, value=value if isinstance(value, bytes) else json.dumps(value).encode())
    assert producer.flush(60) == 0


def create(broker: siltstone.Broker, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(60)
    return topic


def rows_of(frame: Any) -> list[dict[str, Any]]:
    rows = [row.asDict(recursive=True) for row in frame.orderBy("kafka.offset").collect()]
    return [
        {name: each for name, each in row.items() if name != "kafka" and each is not None} for row in rows
    ]


def test_ci22_a_data_frame_has_the_columns_that_its_records_have(
    spark: Any, broker: siltstone.Broker
) -> None:
    topic = create(broker, "clicks")
    produce(
        broker, topic, {"page": "/", "ms": 12}, {"page": "/a", "ms": 1.5, "user": {"id": 7}, "tags": ["x"]}, b"no"
    )  # fmt: skip
    options = {"store": str(broker.folder), "subscribe": topic, "value": "json", "columns": "infer"}
    frame = spark.read.format("siltstone").options(**options).load()
    assert frame.drop("kafka").schema.simpleString() == (
        "struct<page:string,ms:double,user:struct<id:bigint>,tags:array<string>,_rescued_data:string>"
    )
    wanted = [
        {"page": "/", "ms": 12.0},
        {"page": "/a", "ms": 1.5, "user": {"id": 7}, "tags": ["x"]},
        {"_rescued_data": '"no"'},
    ]
    assert rows_of(frame) == wanted
    assert frame.select("kafka.topic", "kafka.offset").collect()[0] == (topic, 0)
    words: dict[str, Any] = {"store": broker.folder, "spark": spark, "value": "json"}
    assert rows_of(siltstone.spark.read(topic, columns="infer", **words)) == wanted
    listed = siltstone.spark.read(topic, columns="infer, ms string", headers=True, **words)
    assert [each["ms"] for each in rows_of(listed)[:2]] == ["12", "1.5"]
    assert "headers" in listed.select("kafka.*").columns
    assert siltstone.spark.count(topic, columns="infer", store=broker.folder, value="json") == 3
    with pytest.raises(AnalysisException, match="leave the schema out"):
        spark.read.format("siltstone").options(**options).schema("page string").load().collect()


def test_ci23_a_stream_keeps_its_columns_and_loses_no_record(
    spark: Any, broker: siltstone.Broker, tmp_path: Path
) -> None:
    """What appears later is rescued until the query is started again; a start finds the same columns and more."""
    topic = create(broker, "events")
    produce(broker, topic, {"n": 1}, {"n": 2})
    place = tmp_path / "checkpoint"

    def started(rows: list[dict[str, Any]]) -> Any:
        reader = spark.readStream.format("siltstone").options(
            store=str(broker.folder), subscribe=topic, value="json", columns="infer", startingOffsets="earliest",
            schemaLocation=str(place), pollInterval="0ms",
        )  # fmt: skip
        writer = reader.load().writeStream.foreachBatch(lambda frame, _: rows.extend(rows_of(frame)))
        return writer.option("checkpointLocation", str(place)).start()

    first: list[dict[str, Any]] = []
    query = started(first)
    query.processAllAvailable()
    produce(broker, topic, {"n": "late", "x": {"y": 1}}, b"\xff", {"n": 3})
    query.processAllAvailable()
    query.stop()
    assert first == [
        {"n": 1}, {"n": 2}, {"_rescued_data": '{"n":"late","x":{"y": 1}}'}, {"_rescued_data": '{"base64":"/w=="}'},
        {"n": 3},
    ]  # fmt: skip
    produce(broker, topic, {"n": 2.5, "x": {"y": 2}})
    second: list[dict[str, Any]] = []
    query = started(second)
    query.processAllAvailable()
    query.stop()
    assert second == [{"x": {"y": 2}, "_rescued_data": '{"n":2.5}'}]


def test_ci24_a_stream_without_a_place_for_its_columns_is_refused(
    spark: Any, broker: siltstone.Broker, tmp_path: Path
) -> None:
    topic = create(broker, "nowhere")
    reader = spark.readStream.format("siltstone").options(
        store=str(broker.folder), subscribe=topic, value="json", columns="infer"
    )
    with pytest.raises((AnalysisException, StreamingQueryException), match="needs the option schemaLocation"):
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        writer.start().awaitTermination(60)


def test_ci25_json_values_are_variants_on_spark(spark: Any, broker: siltstone.Broker) -> None:
    topic = create(broker, "variants")
    produce(broker, topic, {"x": [1, 2.5]}, b"no json", [1])
    words: dict[str, Any] = {"store": broker.folder, "spark": spark, "columns": "variant"}
    frame = siltstone.spark.read(topic, value="json", **words)
    assert dict(frame.dtypes)["value"] == "variant"
    found = frame.selectExpr("offset", "variant_get(value, '$.x[1]', 'double') AS x", "_rescued_data AS r")
    assert [tuple(row) for row in found.orderBy("offset").collect()] == [
        (0, 2.5, None), (1, None, bytearray(b"no json")), (2, None, None),
    ]  # fmt: skip
    for others in ({"value": "string"}, {"value": "json", "schema": "a long"}):
        with pytest.raises(ScanRefused, match="give value='json', and no schema"):
            siltstone.spark.read(topic, **words, **others)
    reader = spark.read.format("siltstone").options(store=str(broker.folder), subscribe=topic)
    with pytest.raises(AnalysisException, match="try_parse_json"):
        reader.options(value="json", columns="variant").load()
