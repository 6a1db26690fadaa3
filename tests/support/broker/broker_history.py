"""Writes down what producers and consumers saw while a broker was killed under them, and says what must hold of it
afterwards.

The actors are real clients in threads. Each writes down the answers that it got: ``acknowledged`` by the broker,
``seen`` by a consumer, ``committed`` for a group. ``faults_in`` compares them with what is read from the beginning in
the end.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SECONDS_MAX = 300
"""A client gives up after that. While the broker is killed each second on busy cores, a record can wait for a minute.
"""
GROUP = "history"

Place = tuple[int, int]
"""Partition and offset."""


class History:
    """A history is filled by several threads: each of them has lists of its own, or the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.acknowledged: dict[Place, str] = {}
        self.acknowledged_somewhere: list[str] = []
        """librdkafka takes a batch whose answer was lost for stored when a later one is acknowledged, and does not know
        its offset then."""
        self.seen: list[tuple[Place, str]] = []
        self.committed: dict[int, int] = {}
        self.failures: list[str] = []


class Log(msgspec.Struct, frozen=True):
    """Every record of the topic at the end, and the offsets of the group."""

    records: dict[Place, str]
    committed: dict[int, int]


class Actor:
    """A client in a thread of its own, which runs until ``finish`` is called."""

    def __init__(self, history: History, act: Callable[["Actor"], None]) -> None:
        self.history = history
        self.finishing = threading.Event()
        self.abandoned = threading.Event()
        """The broker is gone for good: what has no answer yet is given up."""
        self._thread = threading.Thread(target=self._run, args=(act,))
        self._thread.start()

    def _run(self, act: Callable[["Actor"], None]) -> None:
        try:
            act(self)
        except Exception as failure:
            self.history.failures.append(f"{type(failure).__name__}: {failure}")

    def finish(self) -> None:
        self.finishing.set()

    def abandon(self) -> None:
        self.abandoned.set()
        self.finish()

    def join(self) -> None:
        self._thread.join(SECONDS_MAX)
        if self._thread.is_alive():
            self.history.failures.append("a client did not come to its end")


def producing(
    bootstrap: str,
    topic: str,
    writer: int,
    per_second: int,
    *,
    header_bytes: int = 0,
    batch_bytes_max: int = 1_000_000,
) -> Callable[[Actor], None]:
    """Makes an idempotent writer: ``w1 0``, ``w1 1`` … under one key, so in one partition and in order.
    ``header_bytes`` makes the records larger, ``batch_bytes_max`` the batches smaller."""
    headers = [("padding", b"p" * header_bytes)] if header_bytes else None

    def act(actor: Actor) -> None:
        producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0,
            "message.timeout.ms": SECONDS_MAX * 1000, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50,
            "batch.size": batch_bytes_max,
        })  # fmt: skip
        number = 0
        while not actor.finishing.is_set():
            producer.produce(
                topic, f"w{writer} {number}", f"w{writer}", on_delivery=told(actor.history), headers=headers
            )
            time.sleep(1 / per_second)  # poll returns at an answer, and the rate would be another
            producer.poll(0)
            number += 1
        left = _flushed(producer, actor)
        if left:
            actor.history.failures.append(f"writer {writer}: {left} records without an answer")

    return act


def _flushed(producer: Producer, actor: Actor) -> int:
    """Returns how many records have no answer after all."""
    deadline = time.monotonic() + SECONDS_MAX
    while (left := producer.flush(0.2)) and time.monotonic() < deadline:
        if actor.abandoned.is_set():
            producer.purge()
    return left


def told(history: History) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        with history.lock:
            if error is not None:
                history.failures.append(f"{message.value()!r} was refused: {error}")
            elif message.offset() is None:
                history.acknowledged_somewhere.append(message.value().decode())
            else:
                history.acknowledged[message.partition(), message.offset()] = message.value().decode()

    return delivered


def consuming(bootstrap: str, topic: str, group: str = GROUP) -> Callable[[Actor], None]:
    """Makes a member of the group, which commits what it has consumed, until ``finish`` is called."""

    def act(actor: Actor) -> None:
        consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0,
            "auto.offset.reset": "earliest", "session.timeout.ms": 6_000, "reconnect.backoff.max.ms": 200,
            "partition.assignment.strategy": "cooperative-sticky",
        })  # fmt: skip
        consumer.subscribe([topic])
        try:
            while not actor.finishing.is_set():
                _take(consumer, actor.history)
        finally:
            consumer.close()

    return act


def _take(consumer: Consumer, history: History) -> None:
    messages = [message for message in consumer.consume(200, 0.2) if message.error() is None]
    if not messages:
        return
    with history.lock:
        history.seen += [((each.partition(), each.offset()), each.value().decode()) for each in messages]
    try:
        positions = consumer.commit(asynchronous=False)
    except KafkaException:  # the broker is away, or the group is being balanced: nothing was promised
        return
    with history.lock:
        for position in positions:
            if position.error is None and position.offset >= 0:
                history.committed[position.partition] = max(
                    position.offset, history.committed.get(position.partition, 0)
                )


def read_log(
    bootstrap: str, topic: str, partitions: int, *, group: str = GROUP, seconds_max: float = SECONDS_MAX
) -> Log:
    """Reads everything from the beginning with a new client. Raises TimeoutError."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    )  # or the looking itself would move the offsets of the group, if it takes five seconds
    try:
        records: dict[Place, str] = {}
        for partition in range(partitions):
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), seconds_max)
            consumer.assign([TopicPartition(topic, partition, start)])
            _read_to(consumer, partition, end, records, seconds_max)
        committed = consumer.committed([TopicPartition(topic, n) for n in range(partitions)], seconds_max)
        return Log(records, {each.partition: each.offset for each in committed})
    finally:
        consumer.close()


def _read_to(
    consumer: Consumer, partition: int, end: int, records: dict[Place, str], seconds_max: float
) -> None:
    deadline = time.monotonic() + seconds_max
    position = 0
    while position < end:
        for message in consumer.consume(5_000, 0.2):
            if message.error() is None:
                records[partition, message.offset()] = message.value().decode()
                position = message.offset() + 1
        if time.monotonic() > deadline:
            raise TimeoutError(f"partition {partition}: nothing after offset {position}, it ends at {end}")


def faults_in(history: History, log: Log) -> list[str]:
    """Returns the faults: no acknowledged record may be missing from the log, and nothing in it may be twice or out
    of order."""
    return [
        *history.failures,
        *(f"acknowledged at {place} and not there: {value}"
          for place, value in history.acknowledged.items() if log.records.get(place) != value),
        *(f"acknowledged and not there: {value}"
          for value in set(history.acknowledged_somewhere).difference(log.records.values())),
        *(f"read at {place} and not there later: {value}"
          for place, value in history.seen if log.records.get(place) != value),
        *(f"{count} times in the log: {value}"
          for value, count in Counter(log.records.values()).items() if count > 1),
        *_out_of_order(log.records),
        *(f"partition {partition}: {offset} was committed, now it is {log.committed.get(partition)}"
          for partition, offset in history.committed.items() if log.committed.get(partition, -1) < offset),
        *_never_seen(history, log),
    ]  # fmt: skip


def _out_of_order(records: Mapping[Place, str]) -> list[str]:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for _, value in sorted(records.items()):
        writer, number = value.split()
        numbers[writer].append(int(number))
    return [
        f"{writer} is out of order or has holes"
        for writer, found in numbers.items()
        if found != list(range(len(found)))
    ]


def _never_seen(history: History, log: Log) -> list[str]:
    """Returns the records that the group has passed and no member ever had."""
    seen = {place for place, _ in history.seen}
    return [
        f"passed over by the group: {value} at {place}"
        for place, value in log.records.items()
        if place[1] < log.committed.get(place[0], 0) and place not in seen
    ]
