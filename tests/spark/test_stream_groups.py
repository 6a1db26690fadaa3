"""``groupId`` in a real query of Spark: when Spark says that a micro-batch is over is Spark's business, and only Spark
shows it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException

import siltstone
from siltstone.cli.main import cli
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import parse_bootstrap
from siltstone.kafka_client.groups import all_groups, committed_texts, query_of_text
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from support.broker.cluster_clients import until
from support.kafka.quiet_client import QUIET

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WAS_SLOW = "Python worker failed to connect back"
"""Spark gives the process of a source ten seconds to connect, which a loaded machine may need for imports."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    """Node 0, whose address is the first in the metadata, is killed when the topics are filled, and is failed over:
    until then its log may hold records that nobody can be asked for."""
    with siltstone.Broker(tmp_path_factory.mktemp("groups") / "store", nodes=2) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, **QUIET})
        for topic in ("at-once", "followed"):
            admin.create_topics([NewTopic(topic, 2)])[topic].result(60)
            produce(running, topic, 30)
        running.kill(0)
        until(lambda: leaders(running, "at-once", "followed") == {1}, "the failover", 120)
        yield running


def leaders(broker: siltstone.Broker, *topics: str) -> set[int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    return {
        partition.leader
        for topic in topics
        for partition in admin.list_topics(topic, 60).topics[topic].partitions.values()
    }


def produce(broker: siltstone.Broker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for number in range(count):
        producer.produce(topic, b"value-%d" % number, partition=number % 2)
    assert producer.flush(60) == 0


def committed(broker: siltstone.Broker, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **QUIET})
    try:
        found = consumer.committed([TopicPartition(topic, number) for number in range(2)], 60)
        return [each.offset for each in found]
    finally:
        consumer.close()


def started(spark: Any, broker: siltstone.Broker, topic: str, checkpoint: Path, **trigger: Any) -> Any:
    reader = spark.readStream.format("siltstone").options(store=str(broker.folder), subscribe=topic)
    frame = reader.options(startingOffsets="earliest", groupId=f"{topic}-readers").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def ended(query: Any) -> bool:
    """False if Spark could not start the source in time; the caller starts the query again, as anybody would."""
    try:
        query.awaitTermination()
    except StreamingQueryException as failure:
        if WAS_SLOW not in str(failure):
            raise
        return False
    return True


@pytest.mark.nightly(tried="dead brokers")
def test_ss13_a_run_of_one_micro_batch_commits_it_though_the_first_broker_is_dead(
    spark: Any, cluster: siltstone.Broker, tmp_path: Path
) -> None:
    while not ended(query := started(spark, cluster, "at-once", tmp_path / "once", availableNow=True)):
        pass
    assert [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == [30]
    assert committed(cluster, "at-once-readers", "at-once") == [15, 15]


def test_ss13_an_idle_query_has_committed_its_last_micro_batch(
    spark: Any, cluster: siltstone.Broker, tmp_path: Path
) -> None:
    query = started(spark, cluster, "followed", tmp_path / "followed")
    try:
        deadline = time.monotonic() + 90
        for count in (15, 25):
            if count > 15:
                produce(cluster, "followed", 20)
            while committed(cluster, "followed-readers", "followed") != [count, count]:
                if (failure := query.exception()) is not None and WAS_SLOW in str(failure):
                    query = started(spark, cluster, "followed", tmp_path / "followed")
                assert query.isActive, query.exception()
                assert time.monotonic() < deadline, committed(cluster, "followed-readers", "followed")
                time.sleep(0.2)
    finally:
        query.stop()


def groups_of(broker: siltstone.Broker) -> dict[str, dict[str, Any]]:
    with Cluster(parse_bootstrap(broker.bootstrap_servers, "test"), SystemClock(), system_randomness()) as it:
        found = {each.group_id for each in all_groups(it)}
        return {
            name: {key.topic: query_of_text(text) for key, text in texts.items()}
            for name, texts in committed_texts(it, sorted(found)).items()
        }


@pytest.mark.parametrize("name", ["late flights", None])
def test_ss26_a_query_is_a_group_under_its_name_or_its_id(
    spark: Any, tmp_path: Path, name: str | None
) -> None:
    """With its backlog in records, bytes and seconds; after a restart it is the same group."""
    with siltstone.Broker(tmp_path / "store") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        admin.create_topics([NewTopic("t", 2)])["t"].result(60)
        seen = []
        for _ in range(2):
            produce(broker, "t", 30)
            reader = spark.readStream.format("siltstone").options(store=str(broker.folder), subscribe="t")
            frame = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=10).load()
            writer = frame.writeStream.format("noop").option(
                "checkpointLocation", str(tmp_path / "checkpoint")
            )
            writer = writer if name is None else writer.queryName(name)
            while not ended(query := writer.trigger(availableNow=True).start()):
                pass
            group = name or f"spark-{query.id}"
            seen.append(group)
            found = groups_of(broker)
            assert list(found) == [group]
            text = found[group]["t"]
            assert text is not None and (text.siltstone_query, text.id) == (group, query.id)
            shown = CliRunner().invoke(cli, ["groups", "describe", "-b", broker.bootstrap_servers, group])
            assert f"{group} ({query.id}): 0 records" in " ".join(shown.output.split())
        assert len(set(seen)) == 1 and committed(broker, group, "t") == [30, 30]
        assert not list((broker.folder / "bucket").glob("staging/queries/*")), "the answers were deleted"


def test_ss27_no_group_where_it_is_turned_off_and_none_of_another_program(spark: Any, tmp_path: Path) -> None:
    with siltstone.Broker(tmp_path / "store") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        admin.create_topics([NewTopic("t", 2)])["t"].result(60)
        produce(broker, "t", 30)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing", **QUIET})
        consumer.commit(offsets=[TopicPartition("t", 0, 3)], asynchronous=False)
        consumer.close()
        for name, options in (("off", {"groupId": ""}), ("billing", {})):
            reader = spark.readStream.format("siltstone").options(store=str(broker.folder), subscribe="t")
            frame = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=10, **options).load()
            writer = frame.writeStream.format("noop").queryName(name).trigger(availableNow=True)
            while not ended(writer.option("checkpointLocation", str(tmp_path / name)).start()):
                pass
        assert list(groups_of(broker)) == ["billing"]
        assert committed(broker, "billing", "t")[0] == 3
