"""``spark.read.format("siltstone")`` on a real Spark, beside Spark's own connector for Kafka on the same broker."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.datasource import DataSourceReader, GreaterThan

import siltstone
from oracles.java_artifacts import SPARK_KAFKA_CONNECTOR, JavaArtifactsUnavailable, fetch_jars
from pyspark_siltstone import DefaultSource
from siltstone.model.objects import object_key
from siltstone.scanning.failures import TopicNotThere
from siltstone.spark.source.data_source import TopicReader
from siltstone.spark.starting import SparkAlreadyRunning
from support.kafka.quiet_client import QUIET

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    folder = tmp_path_factory.mktemp("source") / "store"
    with siltstone.Broker(folder, settings={"engine.upload.block_size_bytes": "4KiB"}) as running:
        yield running


def create(broker: siltstone.Broker, name: str, partitions: int = 2, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic(name, partitions, config=config)])[name].result(60)
    return name


def produce(broker: siltstone.Broker, topic: str, count: int, first: int = 0, codec: str = "none") -> None:
    address = broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20, **QUIET})
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=None if number % 5 == 0 else b"key-%d" % number,
            value=None if number % 7 == 0 else b"value-%d" % number,
            headers=[("name", b"x"), ("none", None)] if number % 3 == 0 else None,
            timestamp=1_000 + number,
        )
    assert producer.flush(60) == 0


def reader(spark: Any, broker: siltstone.Broker, **options: Any) -> Any:
    return spark.read.format("siltstone").options(store=str(broker.folder), **options)


def test_sr1_rows_and_schema_are_those_of_the_kafka_connector(spark: Any, broker: siltstone.Broker) -> None:
    try:
        fetch_jars(SPARK_KAFKA_CONNECTOR)
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))
    for name, kind in (("created", "CreateTime"), ("appended", "LogAppendTime")):
        create(broker, name, **{"message.timestamp.type": kind})
        for number, codec in enumerate(CODECS):
            produce(broker, name, 20, 20 * number, codec)
            if number == 2:
                broker.flush()
        for with_headers in ("true", "false"):
            theirs = (
                spark.read.format("kafka")
                .option("kafka.bootstrap.servers", broker.bootstrap_servers)
                .options(subscribe=name, includeHeaders=with_headers)
                .load()
            )
            ours = reader(spark, broker, subscribe=name, includeHeaders=with_headers).load()
            named_types = [[(field.name, field.dataType) for field in each.schema] for each in (ours, theirs)]
            assert named_types[0] == named_types[1]
            expected = theirs.orderBy("partition", "offset").collect()
            assert len(expected) == 100
            assert ours.orderBy("partition", "offset").collect() == expected


def test_sr7_sr18_a_data_frame_is_of_one_moment_whatever_is_asked_of_it(
    spark: Any, broker: siltstone.Broker
) -> None:
    topic = create(broker, "moments")
    produce(broker, topic, 10)
    frame = reader(spark, broker, subscribe=topic).load()
    assert frame.count() == 10
    produce(broker, topic, 5, 10)
    assert frame.count() == 10
    assert reader(spark, broker, subscribe=topic).load().count() == 15
    for pushes in ("true", "false"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushes)
        frame = reader(spark, broker, subscribe=topic).load()
        first, other = frame.where("partition = 0"), frame.where("partition = 1")
        counts = first.count(), other.count()
        assert frame.count() == sum(counts) == 15
        assert first.union(other).count() == 15
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_sr16_sr23_units_and_columns_follow_the_options(spark: Any, broker: siltstone.Broker) -> None:
    topic = create(broker, "options", 1)
    produce(broker, topic, 1_000)
    broker.flush()
    limited = reader(spark, broker, subscribe=topic, maxRecordsPerPartition=100, columns="offset").load()
    assert limited.schema.names == ["offset"]
    assert limited.rdd.getNumPartitions() == 10
    assert sorted(row.offset for row in limited.collect()) == [*range(1_000)]
    assert reader(spark, broker, subscribe=topic, minPartitions=10).load().rdd.getNumPartitions() >= 10
    by_schema = reader(spark, broker, subscribe=topic).schema("value binary, offset bigint").load()
    assert by_schema.where("offset = 3").collect() == [(b"value-3", 3)]
    between = reader(
        spark, broker, startingOffsets='{"options":{"0":10}}', endingOffsets='{"options":{"0":20}}'
    )
    assert between.option("assign", '{"options":[0]}').load().count() == 10


def test_sr25_a_topic_that_is_made_after_the_plan_is_not_in_it(spark: Any, broker: siltstone.Broker) -> None:
    create(broker, "few-1", 1)
    frame = reader(spark, broker, subscribePattern="few-.*").load()
    assert frame.count() == 0, "a topic without records has no units"
    produce(broker, create(broker, "few-2", 1), 3)
    assert frame.count() == 0
    assert reader(spark, broker, subscribePattern="few-.*").load().count() == 3


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"subscribe": "created", "startingOfsets": "earliest"}, "option startingofsets does not exist"),
        ({"subscribe": "created", "assign": "{}"}, "given: subscribe, assign"),
        ({"subscribe": "absent"}, "the store has no topic 'absent'"),
    ],
)
def test_sr26_a_wrong_option_fails_the_load_by_its_name(
    spark: Any, broker: siltstone.Broker, options: dict[str, str], named: str
) -> None:
    with pytest.raises(Exception, match=named):
        reader(spark, broker, **options).load().count()


def test_sr20_damage_fails_the_job(spark: Any, tmp_path: Path) -> None:
    with siltstone.Broker(tmp_path / "store") as running:
        create(running, "flights", 1)
        produce(running, "flights", 50)
    scan = siltstone.scan("flights", store=tmp_path / "store")
    path = tmp_path / "store" / "bucket" / object_key(scan.plan.units[0].pieces[0].object_id)
    damaged = bytearray(path.read_bytes())
    damaged[90] ^= 1
    path.chmod(0o644)
    path.write_bytes(damaged)
    frame = spark.read.format("siltstone").options(store=str(tmp_path / "store"), subscribe="flights").load()
    with pytest.raises(Exception, match=r"flights-0 cannot be read from offset 0 on: DamagedBlock"):
        frame.count()


class Killing(DefaultSource):
    """Our data source; its first attempt to read kills its worker after some rows."""

    @classmethod
    def name(cls) -> str:
        return "killing"

    def reader(self, schema: Any) -> Any:
        made: Any = super().reader(schema)
        killing = KillingReader(made._source, made._options)
        killing.folder = made._options.store
        return killing


class KillingReader(TopicReader):
    folder = ""

    def read(self, partition: Any) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            try:
                (Path(self.folder) / "killed").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.nightly(tried="killed workers")
def test_sr17_rows_come_once_although_the_worker_that_reads_is_killed(
    spark: Any, broker: siltstone.Broker
) -> None:
    topic = create(broker, "killed", 2)
    produce(broker, topic, 2_000)
    broker.flush()
    spark.dataSource.register(Killing)
    options = {"store": str(broker.folder), "subscribe": topic, "maxRecordsPerPartition": "500"}
    frame = spark.read.format("killing").options(**options).load()
    found = [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]
    assert (broker.folder / "killed").exists(), "a worker was killed"
    assert len(found) == len(set(found)) == 2_000


class Pushing(DefaultSource):
    """A data source that takes the filters ``offset > n`` and ``offset < n``, as ours would if Spark forgot them."""

    @classmethod
    def name(cls) -> str:
        return "pushing"

    def schema(self) -> str:
        return "offset bigint"

    def reader(self, schema: Any) -> Any:
        return PushingReader()


class PushingReader(DataSourceReader):
    def __init__(self) -> None:
        self.rows = range(10)

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802  Spark's name
        for each in filters:
            if isinstance(each, GreaterThan):
                self.rows = range(each.value + 1, 10)
            else:
                yield each

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        yield from ((number,) for number in self.rows)


@pytest.mark.xfail(strict=True, reason="SPARK-58551: when this passes, filters may be pushed")
def test_sr19_a_pushed_filter_is_forgotten_by_the_next_action(spark: Any) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(Pushing)
    try:
        frame = spark.read.format("pushing").load()
        assert frame.where("offset > 7").count() == 2
        assert frame.count() == 10
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_decoded_values_are_those_that_spark_itself_decodes_from_kafkas_connector(
    spark: Any, broker: siltstone.Broker
) -> None:
    topic = create(broker, "json-values")
    address = broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, **QUIET})
    for number in range(50):
        fields = f'"n":{number},"text":"t{number}","deep":{{"list":[{number},2]}}'
        producer.produce(topic, None if number == 7 else f"{{{fields}}}".encode(), partition=number % 2)
    assert producer.flush(60) == 0
    broker.flush()
    ddl = "n bigint, text string, deep struct<list:array<bigint>>"
    ours = siltstone.spark.read(topic, store=broker.folder, spark=spark, value="json")
    assert ours.select("value.*").schema.simpleString() == f"struct<{ddl.replace(' ', ':', 1)}>".replace(
        ", text string", ",text:string"
    ).replace(", deep struct", ",deep:struct")
    typed = (
        reader(spark, broker, subscribe=topic, value="json")
        .schema(f"offset bigint, value struct<{ddl}>")
        .load()
    )
    assert typed.where("offset = 3").count() == 2
    try:
        fetch_jars(SPARK_KAFKA_CONNECTOR)
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))
    theirs = (
        spark.read.format("kafka").options(subscribe=topic).option("kafka.bootstrap.servers", address).load()
    )
    decoded = theirs.selectExpr("partition", "offset", f"from_json(cast(value as string), '{ddl}') as value")
    expected = decoded.orderBy("partition", "offset").collect()
    assert ours.select("partition", "offset", "value").orderBy("partition", "offset").collect() == expected


@pytest.mark.nightly(tried="reads of bad values")
def test_a_bad_value_fails_the_job_by_its_place_and_times_choose_records(
    spark: Any, broker: siltstone.Broker
) -> None:
    topic = create(broker, "bad-values", 1)
    produce(broker, topic, 10)
    with pytest.raises(Exception, match=r"the value at offset 1 of bad-values-0 cannot be decoded"):
        reader(spark, broker, subscribe=topic, value="avro", valueSchema='"int"').load().count()
    lenient = reader(
        spark, broker, subscribe=topic, value="avro", valueSchema='"int"', badValues="null"
    ).load()
    assert lenient.where("value is not null").count() == 0
    between = reader(
        spark, broker, subscribe=topic, timestampFrom="1003", timestampUntil="1970-01-01T00:00:01.006Z"
    )
    assert sorted(row.offset for row in between.load().collect()) == [3, 4, 5]


def test_read_takes_the_words_of_scan_and_renews_its_pin(spark: Any, broker: siltstone.Broker) -> None:
    topic = create(broker, "words", 1)
    produce(broker, topic, 20)
    frame = siltstone.spark.read(
        topic, store=broker.folder, spark=spark, start=5, end=15, columns="offset", lease="1s"
    )
    with siltstone.open_store(broker.folder) as store:
        (token,) = [
            each
            for each, pin in store.metadata.refresh().pins.items()
            if pin.holder.endswith(f"read: {topic}")
        ]
        first = store.metadata.image.pins[token].until_ms
        deadline = time.monotonic() + 60
        while store.metadata.refresh().pins[token].until_ms <= first + 1_000:
            assert time.monotonic() < deadline, "the pin is not renewed"
            time.sleep(0.1)
    assert sorted(row.offset for row in frame.collect()) == [*range(5, 15)]
    with pytest.raises(TopicNotThere, match="no topic 'wrods'"):
        siltstone.spark.read("wrods", store=broker.folder, spark=spark)
    with siltstone.open_store(broker.folder) as store:
        assert [pin for pin in store.metadata.refresh().pins.values() if "wrods" in pin.holder] == []
    assert siltstone.spark.session() is spark, "the session that runs is taken"
    with pytest.raises(SparkAlreadyRunning):
        siltstone.spark.session("local[1]")


def test_create_table_says_what_works_instead_and_that_works(spark: Any, broker: siltstone.Broker) -> None:
    topic = create(broker, "in-sql", 1)
    produce(broker, topic, 10)
    options = f"USING siltstone OPTIONS (store '{broker.folder}', subscribe '{topic}')"
    with pytest.raises(Exception, match="write CREATE TEMPORARY VIEW name USING siltstone OPTIONS"):
        spark.sql(f"CREATE TABLE in_sql {options}")
    spark.sql(f"CREATE TEMPORARY VIEW in_sql {options}")
    assert spark.sql("SELECT count(*) FROM in_sql").collect()[0][0] == 10
