"""Reads, streams and sinks of Spark on a broker with a login: the secret reaches the processes that need it, and no
plan, checkpoint, bucket or metadata has it."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

import siltstone
from siltstone.metadata.sinks import sinks_of
from siltstone.scanning.source import open_source
from support.processes.cli import run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PLANTED = "pl4nted-pa55word"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    folder = tmp_path_factory.mktemp("logins") / "store"
    with siltstone.Broker(folder, tls=True, users={"ada": PLANTED}) as running:
        yield running


@pytest.fixture
def client_file(broker: siltstone.Broker, tmp_path: Path) -> Path:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in broker.client_config().items()))
    file.chmod(0o640)
    return file


def produce(broker: siltstone.Broker, topic: str, first: int, count: int, *, password: str = PLANTED) -> None:
    producer = confluent_kafka.Producer(broker.client_config() | {"sasl.password": password})
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def change_password(broker: siltstone.Broker, password: bytes) -> None:
    """Returns when the broker knows the new one, which takes up to a second; librdkafka tries again meanwhile."""
    done = run("users", "password", "ada", "--password-file", "-", "--store", broker.folder, stdin=password)
    assert done.status == 0, done.err
    AdminClient(broker.client_config() | {"sasl.password": password.decode()}).list_topics(timeout=60)


def literals(broker: siltstone.Broker) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in broker.client_config().items()}


def values(frame: Any) -> list[bytes]:
    return [bytes(row.value) for row in frame.orderBy("offset").collect()]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def files_with(folder: Path, secret: str) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file() and secret.encode() in each.read_bytes()]


@pytest.mark.nightly(tried="scans with logins on Spark")
@pytest.mark.parametrize("way", ["file", "literals"])
def test_sp02_a_batch_reads_what_is_in_no_object_yet(
    spark: Any, broker: siltstone.Broker, client_file: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.create_topic(f"batch-{way}")
    produce(broker, topic, 0, 50)
    broker.flush()
    produce(broker, topic, 50, 50)
    options = {"kafka.client.config": str(client_file)} if way == "file" else literals(broker)
    with caplog.at_level(logging.DEBUG, logger="siltstone"):  # py4j logs what it is sent
        frame = (
            spark.read.format("siltstone")
            .options(store=str(broker.folder), subscribe=topic, **options)
            .load()
        )
        assert values(frame) == numbers(100)
    execution = frame._jdf.queryExecution()
    for shown in (
        execution.toString(),
        execution.analyzed().toJSON(),
        execution.executedPlan().toJSON(),
        caplog.text,
        str(spark.sparkContext.getConf().getAll()),
    ):
        assert PLANTED not in shown


@pytest.mark.nightly(tried="refused logins")
def test_sp06_without_a_login_the_error_says_what_to_set(spark: Any, broker: siltstone.Broker) -> None:
    topic = broker.create_topic("without")
    produce(broker, topic, 0, 10)
    reader = spark.read.format("siltstone").options(store=str(broker.folder), subscribe=topic)
    with pytest.raises(Exception, match=r"set security\.protocol=SSL"):
        reader.load().collect()
    assert values(reader.option("tail", "committed").load()) == []
    missing = reader.option("kafka.client.config", "/nowhere/client.properties")
    with pytest.raises(Exception, match=r"has no /nowhere/client\.properties: put the file at that path"):
        missing.option("tail", "auto").load().collect()
    wrong = literals(broker) | {"kafka.sasl.password": "another"}
    with pytest.raises(Exception, match="refuses the login of ada") as refused:
        spark.read.format("siltstone").options(
            store=str(broker.folder), subscribe=topic, **wrong
        ).load().collect()
    assert "another" not in str(refused.value).replace("another store", "")


@pytest.mark.nightly(tried="streams with logins on Spark")
def test_sp02_a_stream_and_a_sink(
    spark: Any, broker: siltstone.Broker, client_file: Path, tmp_path: Path
) -> None:
    """The stream commits its progress to a group, and the sink writes each batch in a transaction of the broker."""
    topic, copy = broker.create_topic("streamed"), broker.create_topic("copied")
    produce(broker, topic, 0, 60)
    place = {"store": str(broker.folder), "kafka.client.config": str(client_file)}
    query = (
        spark.readStream.format("siltstone")
        .options(subscribe=topic, startingOffsets="earliest", groupId="of-spark", **place).load()
        .select("value")
        .writeStream.format("siltstone").options(topic=copy, mode="transaction", sinkName="copies", **place)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(300), query.exception()
    assert query.exception() is None
    assert [record.value for record in broker.records(copy)] == numbers(60)
    with open_source(broker.folder) as source:
        assert sinks_of(source.metadata.image)["copies"].mode == "transaction"
    for folder in (tmp_path / "checkpoint", broker.folder):
        assert files_with(folder, PLANTED) == []


@pytest.mark.nightly(tried="streams whose literals have become old")
def test_sp02_literals_last_as_long_as_their_query_and_another_goes_on_from_its_checkpoint(
    spark: Any, broker: siltstone.Broker, tmp_path: Path
) -> None:
    """A file is read again for each connection; a literal cannot be, so the query ends and says what to do."""
    topic, out = broker.create_topic("literal"), tmp_path / "out"
    produce(broker, topic, 0, 40)
    options = literals(broker)

    def started() -> Any:
        return (
            spark.readStream.format("siltstone")
            .options(store=str(broker.folder), subscribe=topic, startingOffsets="earliest", **options).load()
            .select("value").writeStream.format("parquet").option("path", str(out))
            .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        )  # fmt: skip

    query = started()
    query.processAllAvailable()
    change_password(broker, b"an0ther-word")
    try:
        produce(broker, topic, 40, 1, password="an0ther-word")
        with pytest.raises(Exception, match=r"refuses the login of ada .*kafka\.client\.config"):
            query.awaitTermination(240)
            pytest.fail("the query goes on with the password of before")
        produce(broker, topic, 41, 39, password="an0ther-word")
        options["kafka.sasl.password"] = "an0ther-word"
        query = started()
        query.processAllAvailable()
        found = sorted(int(row.value) for row in spark.read.parquet(str(out)).collect())
        assert found == [*range(80)], "each once"
    finally:
        query.stop()
        change_password(broker, PLANTED.encode())
    assert files_with(tmp_path / "checkpoint", PLANTED) == []


@pytest.mark.nightly(tried="batches")
def test_sp02_a_batch_is_written_with_literals(spark: Any, broker: siltstone.Broker) -> None:
    topic = broker.create_topic("written")
    rows = spark.createDataFrame([(b"a",), (b"b",)], ["value"]).coalesce(1)
    rows.write.format("siltstone").mode("append").options(
        store=str(broker.folder), topic=topic, **literals(broker)
    ).save()
    assert sorted(record.value for record in broker.records(topic)) == [b"a", b"b"]
    assert files_with(broker.folder, PLANTED) == []
