"""Runs the client, which is the same for every broker and a process of its own, so that its CPU is counted alone and
its interpreter lock delays no other thread. ``client_runs`` starts it with a Target and a Task as JSON; it prints its
answer as JSON.

Throughput: one partition, idempotent, acks=all, a linger that lets batches fill. Latency: the clients' default
settings, measured from when a message was due, so that a stall counts for all messages that it delays.
"""

import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

VALUE_BYTES = 1024
MESSAGES_A_CALL = 1000
STALL_SECONDS = 60
"""A broker that returns nothing for this long has failed."""

CLIENT_BYTES_MAX = 2 * 1024 * 1024  # above every batch; the topics allow it as well
FILLING_BATCHES = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 20,
    "message.max.bytes": CLIENT_BYTES_MAX,
    "queue.buffering.max.messages": 200_000,
    "delivery.report.only.error": True,  # a call into Python for each record is no part of this
}
QUEUED_MAX = 100_000
"""The records that the client holds: enough to fill every batch, few enough that none is refused for lack of room."""


class Target(msgspec.Struct, frozen=True):
    bootstrap: str
    topic: str


class Produce(msgspec.Struct, frozen=True, tag="produce"):
    """Produces until so many bytes are sent or so much time has passed, then waits until all records are
    acknowledged."""

    batch_bytes: int
    bytes_max: int
    seconds_max: float


class Consume(msgspec.Struct, frozen=True, tag="consume"):
    """Consumes from the beginning of the partition."""

    records: int
    seconds_max: float


class Latency(msgspec.Struct, frozen=True, tag="latency"):
    """Measures the latency from producer to consumer, at so many messages a second."""

    messages_per_second: int
    seconds: float


class AckLatency(msgspec.Struct, frozen=True, tag="ack-latency"):
    """Measures the latency from producer to the broker's acknowledgement."""

    messages_per_second: int
    seconds: float


class ProduceSpread(msgspec.Struct, frozen=True, tag="produce-spread"):
    """Produces to all partitions in turn, as fast as the broker takes records. ``batch_bytes`` None: the client chooses
    the size of batches."""

    partitions: int
    record_bytes: int
    seconds: float
    batch_bytes: int | None = None


class ManyProducers(msgspec.Struct, frozen=True, tag="many-producers"):
    """Measures the latency from each producer to the broker's acknowledgement; the producers send
    ``messages_per_second`` together."""

    producers: int
    messages_per_second: int
    partitions: int
    seconds: float


Task = Produce | Consume | Latency | AckLatency | ProduceSpread | ManyProducers


class Throughput(msgspec.Struct, frozen=True):
    records: int
    seconds: float
    client_cpu_seconds: float

    @property
    def size_bytes(self) -> int:
        return self.records * VALUE_BYTES


class SpreadThroughput(msgspec.Struct, frozen=True):
    """The round trips are those of librdkafka's own statistics: of each second the p50 and the p99 of its requests,
    and of these the medians."""

    size_bytes: int
    records: int
    seconds: float
    client_cpu_seconds: float
    round_trip_p50_ms: float
    round_trip_p99_ms: float


class Latencies(msgspec.Struct, frozen=True):
    p50_ms: float
    p99_ms: float
    messages: int


def main(target_json: str, task_json: str) -> None:
    target = msgspec.json.decode(target_json, type=Target)
    task = msgspec.json.decode(task_json, type=Task)
    print(msgspec.json.encode(perform(target, task)).decode())


def perform(target: Target, task: Task) -> Throughput | SpreadThroughput | Latencies:
    match task:
        case Produce():
            return produce(target, task)
        case Consume():
            return consume(target, task)
        case Latency():
            return end_to_end_latency(target, task)
        case AckLatency():
            return acknowledgement_latency(target, task)
        case ProduceSpread():
            return produce_spread(target, task)
        case ManyProducers():
            return many_producers(target, task)


def produce(target: Target, task: Produce) -> Throughput:
    producer = Producer({**_servers(target), **FILLING_BATCHES, "batch.size": task.batch_bytes})
    producer.list_topics(target.topic, 20)  # connected before the clock starts
    messages = [{"value": bytes(VALUE_BYTES)}] * MESSAGES_A_CALL
    failures: list[KafkaError] = []
    records = 0
    wall, cpu = time.perf_counter(), time.process_time()
    while records * VALUE_BYTES < task.bytes_max and time.perf_counter() - wall < task.seconds_max:
        records += producer.produce_batch(
            target.topic, messages, partition=0, on_delivery=lambda error, _: failures.append(error)
        )
        while len(producer) > QUEUED_MAX:
            producer.poll(0.002)
    remaining = producer.flush(STALL_SECONDS)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    assert remaining == 0, f"{remaining} records are not acknowledged"
    assert not failures, failures[0]
    return Throughput(records, seconds, cpu_seconds)


def produce_spread(target: Target, task: ProduceSpread) -> SpreadThroughput:
    round_trips: list[tuple[float, float]] = []
    failures: list[KafkaError] = []
    settings = {
        **_servers(target),
        "acks": "all",
        "enable.idempotence": True,
        "message.max.bytes": CLIENT_BYTES_MAX,
        "queue.buffering.max.messages": 2 * QUEUED_MAX,
        "delivery.report.only.error": True,
        "statistics.interval.ms": 1000,
        "stats_cb": lambda text: round_trips.extend(_round_trips(text)),
    }
    if task.batch_bytes is not None:
        settings |= {"batch.size": task.batch_bytes, "linger.ms": 20}
    producer = Producer(settings)
    producer.list_topics(target.topic, 20)  # connected before the clock starts
    messages = [{"value": bytes(task.record_bytes)}] * max(10, MESSAGES_A_CALL // task.partitions)
    calls = records = 0
    wall, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < task.seconds:
        records += producer.produce_batch(
            target.topic,
            messages,
            partition=calls % task.partitions,
            on_delivery=lambda error, _: failures.append(error),
        )
        calls += 1
        while len(producer) > QUEUED_MAX:
            producer.poll(0.002)
    assert producer.flush(STALL_SECONDS) == 0, "records are not acknowledged"
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    assert not failures, failures[0]
    p50s, p99s = zip(*round_trips, strict=True) if round_trips else ((0.0,), (0.0,))
    return SpreadThroughput(
        records * task.record_bytes,
        records,
        seconds,
        cpu_seconds,
        statistics.median(p50s),
        statistics.median(p99s),
    )


def _round_trips(text: str) -> Iterator[tuple[float, float]]:
    """Yields the p50 and the p99 of the requests of the last second, in milliseconds, for each broker that had
    some."""
    for broker in msgspec.json.decode(text)["brokers"].values():
        if broker["nodeid"] >= 0 and broker["rtt"]["cnt"]:
            yield broker["rtt"]["p50"] / 1000, broker["rtt"]["p99"] / 1000


def many_producers(target: Target, task: ManyProducers) -> Latencies:
    producers = [Producer({**_servers(target), "acks": "all"}) for _ in range(task.producers)]
    for producer in producers:
        _produce_one(producer, target)
    latencies_ms: list[float] = []

    def callback_for(due: float) -> Callable[[KafkaError | None, Message], None]:
        def acknowledged(error: KafkaError | None, _: Message) -> None:
            assert error is None, error
            latencies_ms.append((time.monotonic() - due) * 1000)

        return acknowledged

    each_per_second = task.messages_per_second / task.producers
    each = int(each_per_second * task.seconds)
    begin = time.monotonic()
    threads = [
        threading.Thread(
            target=_send_at_a_pace,
            args=(producer, target, each_per_second, each, callback_for),
            kwargs={
                "begin": begin + number / task.messages_per_second,
                "partition": number % task.partitions,
            },
        )
        for number, producer in enumerate(producers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for producer in producers:
        assert producer.flush(STALL_SECONDS) == 0, "records are not acknowledged"
    assert len(latencies_ms) == each * task.producers, f"{len(latencies_ms)} messages were acknowledged"
    return _summary(latencies_ms)


def consume(target: Target, task: Consume) -> Throughput:
    consumer = Consumer(
        {
            **_servers(target),
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": CLIENT_BYTES_MAX,
        }
    )
    consumer.assign([TopicPartition(target.topic, 0, 0)])
    records = len(_messages(consumer.consume(1, STALL_SECONDS)))  # connected before the clock starts
    assert records, "nothing to consume"
    wall, cpu = time.perf_counter(), time.process_time()
    while records < task.records and time.perf_counter() - wall < task.seconds_max:
        records += len(_messages(consumer.consume(min(10_000, task.records - records), 1)))
    answer = Throughput(records, time.perf_counter() - wall, time.process_time() - cpu)
    consumer.close()
    return answer


def end_to_end_latency(target: Target, task: Latency) -> Latencies:
    consumer = Consumer(
        {
            **_servers(target),
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }
    )
    producer = Producer(_servers(target))
    _produce_one(producer, target)
    offset = consumer.get_watermark_offsets(TopicPartition(target.topic, 0), 20)[1]
    consumer.assign([TopicPartition(target.topic, 0, offset)])
    wanted = int(task.messages_per_second * task.seconds)
    latencies_ms: list[float] = []

    def receive() -> None:
        give_up = time.monotonic() + task.seconds + STALL_SECONDS
        while len(latencies_ms) < wanted and time.monotonic() < give_up:
            message = consumer.poll(0.5)
            for received in _messages([message] if message else []):
                due = struct.unpack_from(">d", received.value())[0]
                latencies_ms.append((time.monotonic() - due) * 1000)

    receiver = threading.Thread(target=receive)
    receiver.start()
    _send_at_a_pace(producer, target, task.messages_per_second, wanted, lambda due: None)
    producer.flush(STALL_SECONDS)
    receiver.join()
    consumer.close()
    assert len(latencies_ms) == wanted, f"{len(latencies_ms)} of {wanted} messages arrived"
    return _summary(latencies_ms)


def acknowledgement_latency(target: Target, task: AckLatency) -> Latencies:
    producer = Producer(_servers(target))
    _produce_one(producer, target)
    wanted = int(task.messages_per_second * task.seconds)
    latencies_ms: list[float] = []

    def callback_for(due: float) -> Callable[[KafkaError | None, Message], None]:
        def acknowledged(error: KafkaError | None, _: Message) -> None:
            assert error is None, error
            latencies_ms.append((time.monotonic() - due) * 1000)

        return acknowledged

    _send_at_a_pace(producer, target, task.messages_per_second, wanted, callback_for)
    producer.flush(STALL_SECONDS)
    assert len(latencies_ms) == wanted, f"{len(latencies_ms)} of {wanted} messages were acknowledged"
    return _summary(latencies_ms)


def _send_at_a_pace(
    producer: Producer,
    target: Target,
    per_second: float,
    count: int,
    callback_for: Callable[[float], Any],
    *,
    begin: float | None = None,
    partition: int = 0,
) -> None:
    """Sends each message when it is due; late messages follow at once. Acknowledgements are taken meanwhile."""
    begin = time.monotonic() if begin is None else begin
    padding = bytes(VALUE_BYTES - 8)
    for number in range(count):
        due = begin + number / per_second
        while (ahead := due - time.monotonic()) > 0:
            producer.poll(ahead)
        value = struct.pack(">d", due) + padding
        producer.produce(target.topic, value, partition=partition, on_delivery=callback_for(due))
        producer.poll(0)


def _produce_one(producer: Producer, target: Target) -> None:
    """Produces one message, so that everything is connected and the partition is open."""
    producer.produce(target.topic, struct.pack(">d", time.monotonic()) + bytes(VALUE_BYTES - 8), partition=0)
    assert producer.flush(STALL_SECONDS) == 0


def _messages(received: list[Message]) -> list[Message]:
    for message in received:
        assert message.error() is None, message.error()
    return received


def _summary(latencies_ms: list[float]) -> Latencies:
    """Summarises the latencies without the first tenth, in which both sides still make connections."""
    counted = sorted(latencies_ms[len(latencies_ms) // 10 :])
    return Latencies(counted[len(counted) // 2], counted[int(len(counted) * 0.99)], len(counted))


def _servers(target: Target) -> dict[str, Any]:
    return {"bootstrap.servers": target.bootstrap}


if __name__ == "__main__":
    main(*sys.argv[1:])
