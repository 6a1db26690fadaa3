"""(k) Partitions move to another broker while records are written to them at 10 MiB/s: the pause that the producer
feels, and the whole move; one partition that holds 1 GiB, and a hundred that hold as much together. Apache Kafka has
replication 1, and copies what the partitions hold."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median, quantiles

from confluent_kafka import Producer

from benchmarks.cluster.contenders import Cluster, kafka_cluster, leaders, made_topic, move, our_cluster
from benchmarks.cluster.pacing import PacedSending
from benchmarks.support.report import Row, at_most
from siltstone.model.limits import GIB, KIB, MIB

TITLE = "(k) partitions that move under 10 MiB/s"
BYTES_PER_SECOND = 10 * MIB
HELD_BYTES = GIB
RECORD_BYTES = 10 * KIB
MOVES = 9
PAUSE_AIM_S = 1.5
MOVE_AIM = 0.1
"""The aim, as a share of Kafka's time."""

Opened = Callable[[], AbstractContextManager[Cluster]]


class Felt:
    """The seconds of the pause of each partition in each move, and the seconds of each whole move."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.moves: list[float] = []


def run() -> list[Row]:
    rows: list[Row] = []
    for partitions in (1, 100):
        ours = _moved(lambda: our_cluster({}), partitions)
        theirs = _moved(lambda: kafka_cluster(replicas=1), partitions)
        what = "one partition" if partitions == 1 else f"{partitions} partitions"
        against = f"Kafka: p50 {median(theirs.pauses):.2f} s, p99 {_p99(theirs.pauses):.2f} s"
        rows += [
            Row(f"pause of {what}, p50", f"{median(ours.pauses):.2f} s", against),
            at_most(f"pause of {what}, p99", _p99(ours.pauses), PAUSE_AIM_S, " s", against),
            at_most(
                f"whole move of {what}, of Kafka's time", median(ours.moves) / median(theirs.moves), MOVE_AIM, " ×",
                f"{median(ours.moves):.2f} s; Kafka {median(theirs.moves):.1f} s",
            ),
        ]  # fmt: skip
    return rows


def _moved(opened: Opened, partitions: int) -> Felt:
    felt = Felt()
    with opened() as cluster:
        made_topic(cluster, "moved", partitions)
        _fill(cluster.bootstrap, "moved", partitions, HELD_BYTES)
        with PacedSending(cluster.bootstrap, "moved", partitions, RECORD_BYTES, BYTES_PER_SECOND) as sending:
            sending.wait_for_answers(time.monotonic())
            for _ in range(MOVES if partitions == 1 else 2):
                targets = [(at, (leader + 1) % 3) for at, leader in enumerate(leaders(cluster, "moved"))]
                begun = time.monotonic()
                felt.moves.append(move(cluster, "moved", targets))
                ended = time.monotonic()
                sending.wait_for_answers(ended)
                time.sleep(1)
                felt.pauses += [sending.pause(at, begun, ended) for at in range(partitions)]
    return felt


def _fill(bootstrap: str, topic: str, partitions: int, total_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": MIB, "log_level": 0})
    payload = bytes(100 * KIB)
    for number in range(total_bytes // len(payload)):
        while True:
            try:
                producer.produce(topic, payload, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    assert not producer.flush(600)


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100)[-1] if len(values) > 1 else values[0]
