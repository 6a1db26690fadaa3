"""Measures one broker in one round, in an empty folder: from its start to its first message, then latencies, then
throughput, then a reader of cold data, alone and beside the producer of another topic. A first part is not counted: a
JVM compiles, caches fill, topics are made."""

import time
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers.client import (
    CLIENT_BYTES_MAX,
    AckLatency,
    Consume,
    Latencies,
    Latency,
    Produce,
    Target,
    Throughput,
)
from benchmarks.brokers.client_runs import answer_of, begun
from benchmarks.brokers.contenders import Contender
from benchmarks.brokers.process_cost import cost_of
from benchmarks.support.page_cache import forget
from oracles.broker_process import BrokerProcess
from siltstone.model.limits import KIB, MIB

BATCH_BYTES = (16 * KIB, 128 * KIB, 1 * MIB)
READ_BATCH_BYTES = 128 * KIB
"""The one of these three topics that is read."""
MESSAGES_PER_SECOND = (100, 1000)
GB = 1e9
COLD_PRODUCER_PER_SECOND = 1000


class Scale(msgspec.Struct, frozen=True):
    """The amount of work in a round."""

    warm_up_bytes: int = 64 * MIB
    bytes_max: int = 384 * MIB
    seconds_max: float = 6.0
    latency_seconds: float = 5.0


class Figure(msgspec.Struct, frozen=True):
    measure: str
    unit: str
    value: float


def measure_round(contender: Contender, place: Path, scale: Scale) -> list[Figure]:
    """Measures one round; the figures are in the order of the report."""
    prepared = contender.prepared(place)
    begin = time.perf_counter()
    with prepared.started() as broker:
        round_ = Round(broker, scale)
        figures = [round_.first_message(begin), round_.memory("resident memory after the first message")]
        round_.warm_up()
        figures += [figure for rate in MESSAGES_PER_SECOND for figure in round_.latency(rate)]
        figures += [figure for batch_bytes in BATCH_BYTES for figure in round_.produce(batch_bytes)]
        figures += round_.consume()
        figures.append(round_.memory("resident memory after all this"))
        if not contender.keeps_its_data:
            return [*figures, *round_.cold_read(), *round_.cold_read_beside_a_producer()]
    forget(place)
    with prepared.started() as broker:
        figures += Round(broker, scale).cold_read()
    forget(place)
    with prepared.started() as broker:
        return [*figures, *Round(broker, scale).cold_read_beside_a_producer()]


class Round:
    def __init__(self, broker: BrokerProcess, scale: Scale) -> None:
        self.broker = broker
        self.scale = scale

    def first_message(self, begin: float) -> Figure:
        """Measures the time until a topic is made and a message is produced and consumed."""
        target = self.new_topic("first")
        producer = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 0})
        producer.produce(target.topic, b"first", partition=0)
        consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "benchmark"})
        consumer.assign([TopicPartition(target.topic, 0, 0)])
        producer.flush()
        (received,) = consumer.consume(1, 60)
        seconds = time.perf_counter() - begin
        assert received.value() == b"first"
        consumer.close()
        return Figure("from start to first message", "s", seconds)

    def memory(self, measure: str) -> Figure:
        return Figure(measure, "MiB", cost_of(self.broker.pid).resident_mib)

    def warm_up(self) -> None:
        target = self.new_topic("warm-up")
        produced = answer_of(
            target, Produce(READ_BATCH_BYTES, self.scale.warm_up_bytes, self.scale.seconds_max), Throughput
        )
        answer_of(target, Consume(produced.records, self.scale.seconds_max), Throughput)

    def latency(self, messages_per_second: int) -> list[Figure]:
        target = self.new_topic(f"latency-{messages_per_second}")
        task = Latency(messages_per_second, self.scale.latency_seconds)
        found = answer_of(target, task, Latencies)
        measure = f"end to end at {messages_per_second:,} messages/s"
        return [Figure(f"{measure}, p50", "ms", found.p50_ms), Figure(f"{measure}, p99", "ms", found.p99_ms)]

    def produce(self, batch_bytes: int) -> list[Figure]:
        target = self.new_topic(produced_topic(batch_bytes))
        task = Produce(batch_bytes, self.scale.bytes_max, self.scale.seconds_max)
        return self._throughput(f"produce, batches of {batch_bytes // KIB} KiB", target, task)

    def consume(self) -> list[Figure]:
        """Measures a consumer that catches up with records produced a moment ago."""
        target = self.target(produced_topic(READ_BATCH_BYTES))
        return self._throughput(
            "catch-up consume", target, Consume(self._records(target), self.scale.seconds_max)
        )

    def cold_read(self) -> list[Figure]:
        """Measures a consumer that reads records which are in no memory, if the broker has a disk."""
        target = self.target(produced_topic(READ_BATCH_BYTES))
        return self._throughput(
            "cold catch-up", target, Consume(self._records(target), self.scale.seconds_max)
        )

    def cold_read_beside_a_producer(self) -> list[Figure]:
        """The same while the producer of another topic continues."""
        target, read = self.new_topic("beside"), self.target(produced_topic(READ_BATCH_BYTES))
        pace = AckLatency(COLD_PRODUCER_PER_SECOND, self.scale.latency_seconds)
        alone = answer_of(target, pace, Latencies)
        with begun(target, pace) as producer:
            consumed = answer_of(read, Consume(self._records(read), self.scale.seconds_max), Throughput)
            beside = producer.answer(Latencies)
        return [
            Figure("cold catch-up beside a producer", "MB/s", consumed.size_bytes / 1e6 / consumed.seconds),
            Figure("the producer's acknowledgements alone, p99", "ms", alone.p99_ms),
            Figure("… beside the cold reader, p99", "ms", beside.p99_ms),
            Figure("… that is", "×", beside.p99_ms / alone.p99_ms),
        ]

    def target(self, topic: str) -> Target:
        return Target(self.broker.bootstrap_servers, topic)

    def new_topic(self, name: str, partitions: int = 1) -> Target:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        config = {"max.message.bytes": str(CLIENT_BYTES_MAX)}
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(60)
        return self.target(name)

    def _throughput(self, measure: str, target: Target, task: Produce | Consume) -> list[Figure]:
        before = cost_of(self.broker.pid)
        done = answer_of(target, task, Throughput)
        broker_cpu_seconds = cost_of(self.broker.pid).cpu_seconds - before.cpu_seconds
        return [
            Figure(measure, "MB/s", done.size_bytes / 1e6 / done.seconds),
            Figure(f"{measure}: records", "/s", done.records / done.seconds),
            Figure(f"{measure}: CPU of the broker", "s/GB", broker_cpu_seconds / (done.size_bytes / GB)),
            Figure(f"{measure}: CPU of the client", "s/GB", done.client_cpu_seconds / (done.size_bytes / GB)),
        ]

    def _records(self, target: Target) -> int:
        consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "benchmark"})
        low, high = consumer.get_watermark_offsets(TopicPartition(target.topic, 0), 30)
        consumer.close()
        return high - low


def produced_topic(batch_bytes: int) -> str:
    return f"produced-{batch_bytes}"
