"""The client, the same for every broker and a process of its own, so that its CPU is its own and its interpreter lock
holds nobody up. ``client_runs`` starts it with a Target and a Task as JSON; it prints its answer as JSON.

Throughput: one partition, idempotent, acks=all, a linger that lets batches fill. Latency: the settings clients have by
themselves; measured from when a message was due, so that a stall counts for all it delays.
"""

import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

VALUE_BYTES = 1024
MESSAGES_A_CALL = 1000
STALL_SECONDS = 60
"""A broker that gives nothing for so long has failed."""

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
"""Records the client holds: enough to fill every batch, few enough that none is refused for lack of room."""


class Target(msgspec.Struct, frozen=True):
    bootstrap: str
    topic: str


class Produce(msgspec.Struct, frozen=True, tag="produce"):
    """Until so many bytes are sent or so much time has passed; then until all is acknowledged."""

    batch_bytes: int
    bytes_max: int
    seconds_max: float


class Consume(msgspec.Struct, frozen=True, tag="consume"):
    """From the beginning of the partition."""

    records: int
    seconds_max: float


class Latency(msgspec.Struct, frozen=True, tag="latency"):
    """From producer to consumer, at so many messages a second."""

    messages_per_second: int
    seconds: float


class AckLatency(msgspec.Struct, frozen=True, tag="ack-latency"):
    """From producer to the broker's acknowledgement."""

    messages_per_second: int
    seconds: float


Task = Produce | Consume | Latency | AckLatency


class Throughput(msgspec.Struct, frozen=True):
    records: int
    seconds: float
    client_cpu_seconds: float

    @property
    def size_bytes(self) -> int:
        return self.records * VALUE_BYTES


class Latencies(msgspec.Struct, frozen=True):
    p50_ms: float
    p99_ms: float
    messages: int


def main(target_json: str, task_json: str) -> None:
    target = msgspec.json.decode(target_json, type=Target)
    task = msgspec.json.decode(task_json, type=Task)
    print(msgspec.json.encode(perform(target, task)).decode())


def perform(target: Target, task: Task) -> Throughput | Latencies:
    match task:
        case Produce():
            return produce(target, task)
        case Consume():
            return consume(target, task)
        case Latency():
            return end_to_end_latency(target, task)
        case AckLatency():
            return acknowledgement_latency(target, task)


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
    producer: Producer, target: Target, per_second: int, count: int, callback_for: Callable[[float], Any]
) -> None:
    """Each when it is due; those that are late follow at once. Acknowledgements are taken while waiting."""
    begin = time.monotonic()
    padding = bytes(VALUE_BYTES - 8)
    for number in range(count):
        due = begin + number / per_second
        while (ahead := due - time.monotonic()) > 0:
            producer.poll(ahead)
        value = struct.pack(">d", due) + padding
        producer.produce(target.topic, value, partition=0, on_delivery=callback_for(due))
        producer.poll(0)


def _produce_one(producer: Producer, target: Target) -> None:
    """So that everything is connected, and the partition open."""
    producer.produce(target.topic, struct.pack(">d", time.monotonic()) + bytes(VALUE_BYTES - 8), partition=0)
    assert producer.flush(STALL_SECONDS) == 0


def _messages(received: list[Message]) -> list[Message]:
    for message in received:
        assert message.error() is None, message.error()
    return received


def _summary(latencies_ms: list[float]) -> Latencies:
    """Without the first tenth, in which both sides still make connections."""
    counted = sorted(latencies_ms[len(latencies_ms) // 10 :])
    return Latencies(counted[len(counted) // 2], counted[int(len(counted) * 0.99)], len(counted))


def _servers(target: Target) -> dict[str, Any]:
    return {"bootstrap.servers": target.bootstrap}


if __name__ == "__main__":
    main(*sys.argv[1:])
