"""Measures one broker while producers send: each shape of a load on a topic of its own, the broker warm.

The client runs twice for each shape. The first run is not counted: a JVM compiles, caches and log files are filled for
the first time. The CPU of the broker is counted around the second run.
"""

from pathlib import Path

import msgspec

from benchmarks.brokers.client import (
    Latencies,
    ManyProducers,
    ProduceSpread,
    SpreadThroughput,
)
from benchmarks.brokers.client_runs import answer_of
from benchmarks.brokers.contenders import Contender
from benchmarks.brokers.measuring import GB, Figure, Round, Scale
from benchmarks.brokers.process_cost import cost_of
from siltstone.model.limits import KIB, MIB


class Shapes(msgspec.Struct, frozen=True):
    """The loads: every number of partitions with every size of records, then one partition with every size of batches,
    then many producers."""

    partitions: tuple[int, ...] = (1, 10, 100, 1000)
    record_bytes: tuple[int, ...] = (100, 1000)
    batch_bytes: tuple[int, ...] = (16 * KIB, 128 * KIB, 1 * MIB)
    producers: int = 50
    messages_per_second: int = 1000
    warm_seconds: float = 10.0
    seconds: float = 20.0


BATCH_RECORD_BYTES = 1024
MANY_PRODUCERS_PARTITIONS = 10


def measure_producing(contender: Contender, place: Path, shapes: Shapes) -> list[Figure]:
    with contender.prepared(place).started() as broker:
        loads = Loads(Round(broker, Scale()), shapes)
        figures: list[Figure] = []
        for partitions in shapes.partitions:
            for record_bytes in shapes.record_bytes:
                figures += loads.spread(partitions, record_bytes)
        for batch_bytes in shapes.batch_bytes:
            figures += loads.one_partition(batch_bytes)
        if shapes.producers:
            figures += loads.many_producers()
        return figures


class Loads:
    def __init__(self, round_: Round, shapes: Shapes) -> None:
        self._round = round_
        self._shapes = shapes

    def spread(self, partitions: int, record_bytes: int) -> list[Figure]:
        title = f"{partitions:,} partition{'s' * (partitions > 1)}, records of {record_bytes:,} bytes"
        task = ProduceSpread(partitions, record_bytes, self._shapes.seconds)
        return self._produced(title, task)

    def one_partition(self, batch_bytes: int) -> list[Figure]:
        title = f"one partition, batches of {batch_bytes // KIB:,} KiB"
        return self._produced(title, ProduceSpread(1, BATCH_RECORD_BYTES, self._shapes.seconds, batch_bytes))

    def _produced(self, title: str, task: ProduceSpread) -> list[Figure]:
        target = self._round.new_topic(
            f"spread-{task.partitions}-{task.record_bytes}-{task.batch_bytes}", task.partitions
        )
        warm = msgspec.structs.replace(task, seconds=self._shapes.warm_seconds)
        answer_of(target, warm, SpreadThroughput)
        before = cost_of(self._round.broker.pid)
        done = answer_of(target, task, SpreadThroughput)
        broker_cpu_seconds = cost_of(self._round.broker.pid).cpu_seconds - before.cpu_seconds
        return [
            Figure(title, "MB/s", done.size_bytes / 1e6 / done.seconds),
            Figure("… records", "/s", done.records / done.seconds),
            Figure("… CPU of the broker", "s/GB", broker_cpu_seconds / (done.size_bytes / GB)),
            Figure("… round trip, p50", "ms", done.round_trip_p50_ms),
            Figure("… round trip, p99", "ms", done.round_trip_p99_ms),
        ]

    def many_producers(self) -> list[Figure]:
        shapes = self._shapes
        target = self._round.new_topic("many-producers", MANY_PRODUCERS_PARTITIONS)
        task = ManyProducers(
            shapes.producers, shapes.messages_per_second, MANY_PRODUCERS_PARTITIONS, shapes.seconds
        )
        answer_of(target, msgspec.structs.replace(task, seconds=shapes.warm_seconds), Latencies)
        found = answer_of(target, task, Latencies)
        title = (
            f"{shapes.producers} producers, {shapes.messages_per_second:,} records/s together: acknowledged, "
        )
        return [Figure(f"{title}p50", "ms", found.p50_ms), Figure("… p99", "ms", found.p99_ms)]
