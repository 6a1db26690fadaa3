"""``groupId`` in a real query of Spark: when Spark says that a micro-batch is over is Spark's business, and only Spark
shows it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException

import siltstone
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
