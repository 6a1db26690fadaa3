"""(l) One of three brokers is killed with SIGKILL under load: the time until every partition has taken a write again.
Ours with its log in files on the same host and with its log in the bucket, beside Apache Kafka with replication 3 and
acks=all. And after the failover's end, when every partition has a leader that lives: the time until one producer of
librdkafka, which sends a request for each partition, has had a record acknowledged in each of a thousand."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median

from confluent_kafka import Producer

from benchmarks.cluster.contenders import Cluster, kafka_cluster, leaders, made_topic, our_cluster
from benchmarks.cluster.pacing import PacedSending
from benchmarks.support.report import Row, at_most
from siltstone.model.limits import KIB, MIB

TITLE = "(l) a broker is killed: until every partition takes writes again"
PARTITIONS = 30
ROUNDS = 3
AIM_S = 12.0

MANY_PARTITIONS = 1_000
MANY_AIM_S = 3.0
LEADERS_SECONDS_MAX = 120


def run() -> list[Row]:
    in_bucket = {"engine.wal.location": "bucket:0"}
    kafka = _after_kills(lambda: kafka_cluster(replicas=3), replicas=3)
    against = f"Kafka, replication 3: {median(kafka):.1f} s"
    rows = []
    for settings, where in (({}, "in files"), (in_bucket, "in the bucket")):
        ours = _after_kills(lambda settings=settings: our_cluster(settings))
        told = f"{against}; ours {min(ours):.1f} to {max(ours):.1f} s"
        rows.append(at_most(f"log {where}, median of {ROUNDS}", median(ours), AIM_S, " s", told))
    many = _written_again(lambda: kafka_cluster(replicas=3), replicas=3)
    for settings, where in (({}, "in files"), (in_bucket, "in the bucket")):
        ours = _written_again(lambda settings=settings: our_cluster(settings))
        name = f"{MANY_PARTITIONS:,} partitions written again, log {where}"
        rows.append(at_most(name, ours, MANY_AIM_S, " s", f"Kafka, replication 3: {many:.1f} s"))
    return rows


def _written_again(opened: Callable[[], AbstractContextManager[Cluster]], replicas: int = 1) -> float:
    """Every partition has been written before the kill. The producer is new: it has learned no leader that died."""
    with opened() as cluster:
        made_topic(cluster, "many", MANY_PARTITIONS, replicas)
        _write_each(cluster)
        cluster.kill(1)
        until = time.monotonic() + LEADERS_SECONDS_MAX
        while not set(leaders(cluster, "many")) <= {0, 2}:
            assert time.monotonic() < until, "no living leader for some partitions"
            time.sleep(0.1)
        return _write_each(cluster)


def _write_each(cluster: Cluster) -> float:
    """Returns the seconds until a record of each partition is acknowledged."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.list_topics("many", timeout=60)
    begun = time.monotonic()
    for partition in range(MANY_PARTITIONS):
        producer.produce(
            "many", bytes(100), partition=partition, callback=lambda error, _: error and refused.append(error)
        )
    assert producer.flush(LEADERS_SECONDS_MAX) == 0 and not refused, refused[:3]
    return time.monotonic() - begun


def _after_kills(opened: Callable[[], AbstractContextManager[Cluster]], replicas: int = 1) -> list[float]:
    """The cluster is new in each round, so that all brokers have served equally long."""
    took: list[float] = []
    for _ in range(ROUNDS):
        with opened() as cluster:
            made_topic(cluster, "kept", PARTITIONS, replicas)
            with PacedSending(cluster.bootstrap, "kept", PARTITIONS, KIB, MIB) as sending:
                sending.wait_for_answers(time.monotonic())
                time.sleep(3)
                assert 1 in leaders(cluster, "kept")
                killed = time.monotonic()
                cluster.kill(1)
                sending.wait_for_answers(killed + 0.5)
                end = time.monotonic()
                longest = [sending.pause(n, killed, end) for n in range(PARTITIONS)]
                took.append(max(longest))
    return took
