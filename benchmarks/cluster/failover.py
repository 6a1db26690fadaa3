"""(l) One of three brokers is killed with SIGKILL under load: the time until every partition has taken a write again.
Ours with its log in files on the same host and with its log in the bucket, beside Apache Kafka with replication 3 and
acks=all."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median

from benchmarks.cluster.contenders import Cluster, kafka_cluster, leaders, made_topic, our_cluster
from benchmarks.cluster.pacing import PacedSending
from benchmarks.support.report import Row, at_most
from siltstone.model.limits import KIB, MIB

TITLE = "(l) a broker is killed: until every partition takes writes again"
PARTITIONS = 30
ROUNDS = 3
AIM_S = 12.0


def run() -> list[Row]:
    in_bucket = {"engine.wal.location": "bucket:0"}
    kafka = _after_kills(lambda: kafka_cluster(replicas=3), replicas=3)
    against = f"Kafka, replication 3: {median(kafka):.1f} s"
    rows = []
    for settings, where in (({}, "in files"), (in_bucket, "in the bucket")):
        ours = _after_kills(lambda settings=settings: our_cluster(settings))
        told = f"{against}; ours {min(ours):.1f} to {max(ours):.1f} s"
        rows.append(at_most(f"log {where}, median of {ROUNDS}", median(ours), AIM_S, " s", told))
    return rows


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
