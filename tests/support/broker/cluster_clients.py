"""Real clients of several brokers: a producer that numbers what it sends, and what is read back."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS_MAX = 60
"""The time for everything: a machine under load is ten times slower than ours."""


def until(look: Callable[[], Any], what: str | Callable[[], str], seconds: float = SECONDS_MAX) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what if isinstance(what, str) else what()}: not in {seconds} s"
        time.sleep(0.05)
    return found


class Metronome:
    """In a ``with``: a thread that is to wake every ten milliseconds. ``late_ms``: how late it woke at the worst, which
    is nothing on a quiet machine, and what the machine takes from everybody on a busy one."""

    INTERVAL_S = 0.01

    def __init__(self) -> None:
        self.late_ms = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.is_set():
            due = time.monotonic() + self.INTERVAL_S
            time.sleep(self.INTERVAL_S)
            self.late_ms = max(self.late_ms, 1000 * (time.monotonic() - due))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


class Sending:
    """Sends numbered records to all partitions in a thread until ``stop``, idempotently. ``acked``: partition → the
    numbers in the order of their offsets; ``pauses_ms``: the longest time between two answers of each partition."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 0,
        })  # fmt: skip
        self.acked: dict[int, dict[int, int]] = defaultdict(dict)
        self.errors: list[str] = []
        self._answered: dict[int, float] = {}
        self.pauses_ms: dict[int, float] = defaultdict(float)
        self._stopping = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._producer.produce(
                self._topic,
                str(self.sent).encode(),
                partition=self.sent % self._partitions,
                callback=self._done,
            )
            self.sent += 1
            self._producer.poll(0.002)
        left = self._producer.flush(SECONDS_MAX)
        if left:
            self.errors.append(f"{left} records were not answered")

    def _done(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        partition, now = message.partition(), time.monotonic()
        self.acked[partition][message.offset()] = int(message.value())
        pause_ms = (now - self._answered.get(partition, now)) * 1000
        self.pauses_ms[partition] = max(self.pauses_ms[partition], pause_ms)
        self._answered[partition] = now

    @property
    def answered(self) -> int:
        return sum(map(len, self.acked.values()))

    def acked_counts(self) -> dict[int, int]:
        return {partition: len(self.acked[partition]) for partition in range(self._partitions)}

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert not self.errors, self.errors[:3]
        assert self.answered == self.sent


def read_all(bootstrap: str, topic: str, partition: int, count: int) -> dict[int, int]:
    """Returns the numbers by offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads-all", "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: dict[int, int] = {}

    def look() -> bool:
        for message in consumer.consume(1_000, 0.2):
            assert message.error() is None, message.error()
            found[message.offset()] = int(message.value())
        return len(found) >= count

    until(look, f"{count} records of {topic}-{partition}")
    consumer.close()
    return found


def made_topic(bootstrap: str, name: str, partitions: int) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(SECONDS_MAX)
    return admin


class GroupReading:
    """In a ``with``: a member of a group reads a topic in a thread and commits now and then. ``numbers``: what it has
    read, perhaps more than once, since a commit may be lost with a coordinator."""

    group = "reads-meanwhile"

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": self.group, "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200, "session.timeout.ms": 10_000, "log_level": 0,
        })  # fmt: skip
        self._consumer.subscribe([topic])
        self.numbers: set[int] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1_000, 0.2):
                if message.error() is None:  # the others tell of brokers that are gone; the client continues
                    self.numbers.add(int(message.value()))
        self._consumer.close()

    def __enter__(self) -> "GroupReading":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
