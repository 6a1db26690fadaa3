"""Streams on a real Spark: read from topics, written to files and topics, and Spark's connector for Kafka as oracle."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException

import siltstone
from oracles.java_artifacts import SPARK_KAFKA_CONNECTOR, JavaArtifactsUnavailable, fetch_jars
from pyspark_siltstone import DefaultSource
from siltstone.metadata.sinks import SinkState, sinks_of
from siltstone.scanning.source import open_source
from siltstone.spark.sink.batches import write_batch
from siltstone.spark.sink.options import parse_sink_options
from siltstone.spark.sink.writers import TopicStreamWriter
from siltstone.spark.source.lag import lag
from siltstone.spark.source.stream_reader import TopicStreamReader
from siltstone.tables.inspecting import file_urls, opened_table
from support.broker.broker_process import BrokerProcess, checked_store
from support.kafka.quiet_client import QUIET
from support.maintenance.sinks import STEPS
from support.maintenance.sinks import values as committed_values
from support.processes.ports import free_port
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried
from support.spark import stream_driver
from support.spark.stream_driver import DRIVER_VARIABLE
from support.values.schema_registry import record, schema_registry

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("streams") / "store") as running:
        yield running


def create(broker: siltstone.Broker | BrokerProcess, name: str, partitions: int = 1) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic(name, partitions)])[name].result(60)
    return name


def produce(broker: siltstone.Broker | BrokerProcess, topic: str, count: int, first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, **QUIET})
    for number in range(first, first + count):
        producer.produce(
            topic, key=b"key-%d" % (number % 9), value=b"value-%06d" % number, timestamp=1_000 + number
        )
    assert producer.flush(60) == 0


def values(broker: siltstone.Broker | BrokerProcess, topic: str, partitions: int = 1) -> list[bytes]:
    return committed_values(broker.bootstrap_servers, topic, partitions)


def stream(spark: Any, broker: siltstone.Broker, topic: str, **options: Any) -> Any:
    reader = spark.readStream.format("siltstone").options(store=str(broker.folder), subscribe=topic)
    return reader.options(**{"startingOffsets": "earliest", **options}).load()


WAS_SLOW = "Python worker failed to connect back"
"""Spark gives the process of a source ten seconds to connect, which a loaded machine may need for imports."""


def run(writer: Any, checkpoint: Path) -> Any:
    """A query whose source Spark could not start is started again, as anybody would."""
    while True:
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
            return query
        except StreamingQueryException as failure:
            if WAS_SLOW not in str(failure):
                raise


def test_ss1_sw2_a_stream_reads_each_record_once_and_writes_it_once(
    spark: Any, broker: siltstone.Broker, tmp_path: Path
) -> None:
    """Micro-batches of 40, 40 and 20; progress; Spark's connector for Kafka gives the same rows; the query, started
    again, continues; and its batches arrive once in a topic, by writeStream and by foreachBatch."""
    source, copy, late = (
        create(broker, name, 2 if name == "source" else 1) for name in ("source", "copy", "late")
    )
    produce(broker, source, 100)
    rows: dict[int, list[Any]] = {}

    def keep(frame: Any, batch_id: int) -> None:
        rows[batch_id] = frame.collect()
        for _ in range(2 if batch_id == 1 else 1):  # as after a crash
            write_batch(frame.select("value"), batch_id, sink="late-out", topic=late, store=broker.folder)

    query = run(
        stream(spark, broker, source, maxOffsetsPerTrigger=40).writeStream.foreachBatch(keep),
        tmp_path / "kept",
    )
    assert [len(each) for each in rows.values()] == [40, 40, 20]
    counted = [each["numInputRows"] for each in query.recentProgress]
    assert counted == [80, 120, 40], "each action of a foreachBatch function reads its batch"
    assert lag(query) == {"source-0": 0, "source-1": 0}
    assert sum(lag(query.recentProgress[0]).values()) == 60
    found = sorted(
        (row for each in rows.values() for row in each), key=lambda row: (row.partition, row.offset)
    )
    try:
        fetch_jars(SPARK_KAFKA_CONNECTOR)
    except JavaArtifactsUnavailable:
        pass
    else:
        theirs = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        assert found == theirs.option("subscribe", source).load().orderBy("partition", "offset").collect()
    assert values(broker, late) == sorted(row.value for row in found)

    def relay() -> Any:
        frame = stream(spark, broker, source).selectExpr("key", "cast(value as string) as value")
        return run(
            frame.writeStream.format("siltstone").options(store=str(broker.folder), topic=copy),
            tmp_path / "copied",
        )

    relay()
    produce(broker, source, 10, 100)
    query = relay()
    assert values(broker, copy) == [b"value-%06d" % number for number in range(110)]
    with open_source(broker.folder) as opened:
        sinks = sinks_of(opened.metadata.image)
        assert {sinks[str(query.id)].state, sinks["late-out"].state} == {SinkState.DONE}
        assert not opened.metadata.image.pins, "the pins of micro-batches are ended"


@pytest.mark.nightly
def test_avro_of_a_registry_goes_from_spark_to_a_topic_and_to_its_table(
    spark: Any, tmp_path: Path, record_tried: RecordTried
) -> None:
    """The broker stops before the export, which uploads the records sooner than after a minute."""
    topic, folder, count = "avro", tmp_path / "store", 50
    frame = spark.range(count).selectExpr("struct(id, concat('g', id) as gate) as value")
    expected = sorted((number, f"g{number}") for number in range(count))
    with schema_registry() as registry:
        registry.add(f"{topic}-value", record(id="long", gate="string"))
        named = {"value": "avro", "schemaRegistry": registry.url}

        def found(rows: Any) -> list[Any]:
            return sorted(tuple(row) for row in rows.select("value.id", "value.gate").collect())

        with siltstone.Broker(folder) as broker:
            kept = {"siltstone.table.format": "iceberg", "siltstone.table.value": "avro"}
            broker.create_topic(topic, config=kept)
            writer = frame.write.format("siltstone").options(store=str(folder), topic=topic, **named)
            writer.mode("append").save()
            reader = spark.read.format("siltstone").options(store=str(folder), subscribe=topic, **named)
            assert found(reader.load()) == expected
            to_files = stream(spark, broker, topic, **named).select("value").writeStream.format("parquet")
            run(to_files.option("path", str(tmp_path / "files")), tmp_path / "checkpoint")
            assert found(spark.read.parquet(str(tmp_path / "files"))) == expected
        scanned = siltstone.scan(topic, store=folder, value="avro", registry=registry.url).to_arrow()
        assert sorted((row["id"], row["gate"]) for row in scanned["value"].to_pylist()) == expected
        with siltstone.open_store(folder, {"tables.registry": registry.url}) as store:
            report = siltstone.maintenance.plan(store, kinds=["table-export"]).run(spark)
            assert report.is_well, report
            with opened_table(store.context, store.kind_settings.tables, topic) as table:
                files = file_urls(table, store.kind_settings.tables)
        exported = spark.read.parquet(*files).select("id", "gate", "kafka.offset").collect()
        assert sorted(tuple(row)[:2] for row in exported) == expected
        assert len({row[2] for row in exported}) == count
    record_tried("records as Avro", count)


def test_sw17_sw20_sw24_batches_are_appended_once_or_refused_by_name(
    spark: Any, broker: siltstone.Broker
) -> None:
    topic = create(broker, "batches")
    frame = spark.createDataFrame([("a", "1"), ("b", None)], "key string, value string")

    def writer(rows: Any, **options: Any) -> Any:
        return rows.write.format("siltstone").options(store=str(broker.folder), topic=topic, **options)

    for batch_id in (7, 7, 8):
        writer(frame, sinkName="loads", batchId=batch_id).mode("append").save()
    assert len(values(broker, topic)) == 4
    for rows, mode, options, named in (
        (frame, "append", {"sinkName": "loads", "batchId": 3}, "batch 3 of sink loads is behind batch 8"),
        (
            frame,
            "append",
            {"sinkName": "loads", "batchId": 9, "queryId": "other"},
            "sink loads belongs to query none",
        ),
        (frame, "overwrite", {}, "a topic cannot be overwritten"),
        (frame.withColumn("more", frame.value), "append", {}, "a sink has no column 'more'"),
        (frame, "append", {"sinkName": "loads"}, "sinkName and batchId are given together"),
        (frame, "append", {"mode": "objects"}, "is open at node 0, and only the broker there may append"),
        (frame, "append", {"mode": "both"}, "write relay, to write through the brokers"),
        (frame, None, {}, "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    ):
        prepared = writer(rows, **options)
        with pytest.raises(Exception, match=named):
            (prepared if mode is None else prepared.mode(mode)).save()
    assert len(values(broker, topic)) == 4


def test_sw12_without_a_broker_batches_and_streams_are_objects(spark: Any, tmp_path: Path) -> None:
    """Nobody names a mode: no broker is there. A stream reads what a batch wrote, and writes it elsewhere."""
    store = siltstone.Broker(tmp_path / "store")
    with store:
        source, copy = create(store, "loaded", 2), create(store, "copied")
    rows = spark.range(100).selectExpr(
        "cast(id as string) as key", "format_string('value-%06d', id) as value"
    )
    for _ in range(2):
        writer = rows.write.format("siltstone").options(store=str(store.folder), topic=source)
        writer.options(sinkName="loads", batchId=0).mode("append").save()
    read = spark.read.format("siltstone").options(store=str(store.folder), subscribe=source).load()
    assert read.count() == 100
    frame = stream(spark, store, source, maxOffsetsPerTrigger=40).select("key", "value")
    run(
        frame.writeStream.format("siltstone").options(store=str(store.folder), topic=copy, mode="objects"),
        tmp_path / "checkpoint",
    )
    with open_source(store.folder) as opened:
        assert {each.mode for each in sinks_of(opened.metadata.image).values()} == {"objects"}
    with store:
        expected = [b"value-%06d" % number for number in range(100)]
        assert values(store, source, 2) == values(store, copy) == expected


class Driver:
    """A driver in a process of its own."""

    def __init__(
        self,
        tmp_path: Path,
        broker: siltstone.Broker | BrokerProcess,
        topic: str,
        out: str,
        limit: int,
        **more: Any,
    ) -> None:
        self._environment = {**os.environ, DRIVER_VARIABLE: str(tmp_path / "driver.pid")}
        self._log = tmp_path / "driver.txt"
        self._job = {
            "store": str(broker.folder), "topic": topic, "checkpoint": str(tmp_path / "checkpoint"), "out": out,
            "limit": limit, **more,
        }  # fmt: skip

    def start(self, **more: Any) -> subprocess.Popen[bytes]:
        job = json.dumps({**self._job, **more})
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, stream_driver.__file__, job], env=self._environment, stdout=log, stderr=log
            )

    def run(self, **more: Any) -> int:
        """The exit status. A driver whose source Spark could not start is started again, as anybody would."""
        while (status := self.start(**more).wait(600)) > 0 and self.was_slow:
            self._log.write_bytes(b"")
        return status

    @property
    def was_slow(self) -> bool:
        return WAS_SLOW in self.log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]


@pytest.mark.nightly
@pytest.mark.crash
@pytest.mark.timeout(3_600)
def test_ss2_a_driver_that_is_killed_and_restarted_writes_the_topic_exactly_once_into_files(
    broker: siltstone.Broker, tmp_path: Path, record_tried: RecordTried
) -> None:
    topic, count = create(broker, "killed-files", 3), 1_500
    produce(broker, topic, count)
    driver = Driver(tmp_path, broker, topic, str(tmp_path / "out"), 250)
    chance, kills = random.Random(14), 0
    while True:
        process = driver.start()
        done = tmp_path / "checkpoint" / "commits"
        before = len(list(done.glob("[0-9]*"))) if done.exists() else 0
        wanted = before + chance.randrange(1, 4)
        while process.poll() is None and (not done.exists() or len(list(done.glob("[0-9]*"))) < wanted):
            time.sleep(0.05)
        if process.poll() is None:
            time.sleep(chance.random() / 2)
            process.send_signal(signal.SIGKILL)
        if process.wait(600) == 0:
            break
        assert process.returncode == -signal.SIGKILL or driver.was_slow, driver.log
        kills += 1
    files = [
        json.loads(line)["path"]
        for path in sorted((tmp_path / "out" / "_spark_metadata").glob("[0-9]*"))
        for line in path.read_text().splitlines()[1:]
    ]
    tables = [
        pq.read_table(file.removeprefix("file://"), columns=["partition", "offset", "value"])
        for file in set(files)
    ]
    found = sorted(
        (row["partition"], row["offset"], row["value"]) for table in tables for row in table.to_pylist()
    )
    assert len(found) == len(set(found)) == count
    assert sorted(value for _, _, value in found) == values(broker, topic, 3)
    record_tried("kills", kills)
    record_tried("records", count)


@pytest.mark.nightly
@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("mode", STEPS)
def test_sw2_a_driver_that_is_killed_at_each_step_of_a_commit_writes_each_record_once(
    tmp_path: Path, record_tried: RecordTried, mode: str
) -> None:
    """In mode objects no broker runs, and the rows that are read are in objects."""
    broker = siltstone.Broker(tmp_path / "store")
    with broker:
        topic, out = create(broker, "killed-in", 2), create(broker, "killed-out", 2)
        produce(broker, topic, 400)
    if mode != "objects":
        broker.start()
    try:
        driver = Driver(tmp_path, broker, topic, out, 50, mode=mode)
        for number, step in enumerate(STEPS[mode]):
            assert driver.run(dies_at=[number, step]) == -signal.SIGKILL, driver.log
        assert driver.run() == 0, driver.log
        if mode == "objects":
            broker.start()
        assert values(broker, out, 2) == values(broker, topic, 2)
    finally:
        broker.stop()
    record_tried("kills", len(STEPS[mode]))
    record_tried("records", 400)


BROKER_KILLS = 5


@pytest.mark.nightly
@pytest.mark.crash
@pytest.mark.timeout(1_800)
def test_sw6_ss8_a_broker_that_is_killed_again_and_again_under_a_stream_of_spark(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """The query reads a topic and writes another of the same broker. A driver that gives up is started again. The first
    kill comes when the query has written something."""
    count, chance, kills, restarts = 3_000, random.Random(seed_of_this_run("CRASH_SEED")), 0, 0
    with BrokerProcess(tmp_path / "store", port=free_port()) as broker:
        topic, out = create(broker, "stream-in", 2), create(broker, "stream-out", 2)
        produce(broker, topic, count)
        driver = Driver(tmp_path, broker, topic, out, 60)
        running = driver.start()
        while running.poll() is None or running.returncode:
            if running.poll() is not None:
                assert "siltstone." in driver.log or driver.was_slow, driver.log
                restarts += 1
                running = driver.start()
            if kills < BROKER_KILLS and any((tmp_path / "checkpoint" / "commits").glob("[0-9]*")):
                time.sleep(chance.uniform(0, 3))
                broker.kill()
                kills += 1
                time.sleep(chance.uniform(0, 2))
                broker.start()
            time.sleep(0.2)
        assert kills
        assert values(broker, out, 2) == values(broker, topic, 2)
    checked_store(tmp_path / "store")
    record_tried("kills of a broker", kills)
    record_tried("drivers that gave up", restarts)
    record_tried("records", count)


class KillingStream(DefaultSource):
    """Our data source; the first task that reads of a stream kills its worker after some rows."""

    @classmethod
    def name(cls) -> str:
        return "killing-stream"

    def streamReader(self, schema: Any) -> Any:  # noqa: N802  Spark's name
        made: Any = super().streamReader(schema)
        killing = KillingStreamReader(made._open_source, made._options)
        killing.folder = made._options.source.store or ""
        return killing


class KillingStreamReader(TopicStreamReader):
    folder = ""

    def read(self, partition: Any) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            try:
                (Path(self.folder) / "killed-stream").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)


class KillingSink(DefaultSource):
    """Our data source; the first task of a stream that has staged its rows kills its worker."""

    @classmethod
    def name(cls) -> str:
        return "killing-sink"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802  Spark's name
        options = dict(self.options)
        marker = options.pop("marker")
        request = parse_sink_options(options, overwrite=overwrite, is_stream=True)
        writer = KillingSinkWriter(self.open_source, request, schema)
        writer.marker = marker
        return writer


class KillingSinkWriter(TopicStreamWriter):
    marker = ""

    def write(self, iterator: Iterator[Any]) -> Any:
        staged = super().write(iterator)
        try:
            Path(self.marker).touch(exist_ok=False)
        except FileExistsError:
            return staged
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it is dead")


@pytest.mark.nightly
def test_sw4_rows_come_once_although_the_worker_of_a_sink_is_killed(
    spark: Any, broker: siltstone.Broker, tmp_path: Path, record_tried: RecordTried
) -> None:
    source, copy = (create(broker, name, 2) for name in ("staged-source", "staged-copy"))
    produce(broker, source, 300)
    spark.dataSource.register(KillingSink)
    marker = tmp_path / "killed"
    frame = stream(spark, broker, source, maxOffsetsPerTrigger=100).select("key", "value")
    writer = frame.writeStream.format("killing-sink").options(
        store=str(broker.folder), topic=copy, marker=str(marker)
    )
    query = run(writer, tmp_path / "checkpoint")
    assert query.exception() is None and marker.exists(), "a worker was killed"
    assert values(broker, copy, 2) == [b"value-%06d" % number for number in range(300)]
    record_tried("records of a sink whose worker was killed", 300)


@pytest.mark.nightly
def test_ss11_rows_come_once_although_the_worker_of_a_micro_batch_is_killed(
    spark: Any, broker: siltstone.Broker, tmp_path: Path, record_tried: RecordTried
) -> None:
    source, copy = (create(broker, name, 2) for name in ("killed-source", "killed-copy"))
    produce(broker, source, 300)
    spark.dataSource.register(KillingStream)
    options = {"store": str(broker.folder), "subscribe": source, "startingOffsets": "earliest"}
    frame = spark.readStream.format("killing-stream").options(**options, maxOffsetsPerTrigger=100).load()
    writer = frame.select("key", "value").writeStream.format("siltstone")
    query = run(writer.options(store=str(broker.folder), topic=copy), tmp_path / "killed")
    assert query.exception() is None and (broker.folder / "killed-stream").exists(), "a worker was killed"
    assert values(broker, copy, 2) == [b"value-%06d" % number for number in range(300)]
    record_tried("records of a stream whose worker was killed", 300)
