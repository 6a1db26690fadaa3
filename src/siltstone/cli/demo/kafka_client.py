"""confluent-kafka as the demo uses it: an ordinary client, which is not told that this is not Kafka."""

import threading
from collections.abc import Iterable, Sequence

import msgspec

from siltstone.cli.demo.flights import Flight
from siltstone.cli.demo.story import OnProgress
from siltstone.cli.failures import ExtraMissing
from siltstone.runtime.clock import Clock

try:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic
except ImportError:  # told by ``refuse_without_client`` before anything is begun
    Consumer = Producer = AdminClient = NewTopic = None

SECONDS_MAX = 60
POLL_EVERY = 5_000
GROUP = "demo"


class Consumed(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes


class ClientFailed(Exception):
    """The client gave up, or nothing came for a minute."""


def refuse_without_client() -> None:
    """Raises ExtraMissing."""
    if Producer is None:
        raise ExtraMissing("confluent-kafka", "demo")


def create_topics(bootstrap_servers: str, partitions: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    made = admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()])
    for answer in made.values():
        answer.result(SECONDS_MAX)


class FlightProducer:
    """Idempotent, ``acks=all``, compressed with lz4."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer({
            "bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "compression.type": "lz4",
            "linger.ms": 5, "batch.size": 65_536, "partitioner": "murmur2_random", "log_level": 0,
        })  # fmt: skip
        self._failures: list[str] = []
        self.acknowledged = 0

    def produce(self, flights: Sequence[Flight], on_progress: OnProgress) -> None:
        """Returns when all are acknowledged. Raises ClientFailed."""
        for number, flight in enumerate(flights):
            for topic in flight.topics:
                self._send(topic, flight)
            if number % POLL_EVERY == 0:
                self._producer.poll(0)
                on_progress(number, len(flights))
        self._producer.flush(SECONDS_MAX)
        if self._failures or len(self._producer):
            raise ClientFailed(f"not acknowledged: {self._failures[:1] or len(self._producer)}")

    def _send(self, topic: str, flight: Flight) -> None:
        while True:
            try:
                self._producer.produce(
                    topic, flight.line, flight.tail_number, timestamp=flight.departure_ms,
                    on_delivery=self._delivered,
                )  # fmt: skip
                return
            except BufferError:  # its own queue is full: wait for answers
                self._producer.poll(0.1)

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self._failures.append(str(error))


class GroupReading:
    """Consumers of one group, each in a thread: every record once, whoever of them gets it."""

    def __init__(self, bootstrap_servers: str, topics: Iterable[str], clock: Clock) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topics = list(topics)
        self._clock = clock
        self._lock = threading.Lock()
        self._records: list[Consumed] = []
        self._failures: list[Exception] = []
        self._enough = threading.Event()

    def read(self, count: int, members: int, on_progress: OnProgress) -> list[Consumed]:
        """Until ``count`` records have come. Raises ClientFailed."""
        threads = [threading.Thread(target=self._consume, args=(count, on_progress)) for _ in range(members)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        return self._records

    def _consume(self, count: int, on_progress: OnProgress) -> None:
        consumer = Consumer({
            "bootstrap.servers": self._bootstrap_servers, "group.id": GROUP, "auto.offset.reset": "earliest",
            "log_level": 0,
        })  # fmt: skip
        try:
            consumer.subscribe(self._topics)
            self._poll(consumer, count, on_progress)
        except Exception as failure:
            self._failures.append(failure)
            self._enough.set()
        finally:
            consumer.close()

    def _poll(self, consumer: "Consumer", count: int, on_progress: OnProgress) -> None:
        heard_ms = self._clock.monotonic_ms()
        while not self._enough.is_set():
            messages = [message for message in consumer.consume(5_000, 0.2) if message.error() is None]
            now_ms = self._clock.monotonic_ms()
            heard_ms = now_ms if messages else heard_ms
            if now_ms - heard_ms > SECONDS_MAX * 1000:
                raise ClientFailed(f"nothing was consumed for {SECONDS_MAX} s")
            with self._lock:
                self._records += map(_consumed, messages)
                on_progress(len(self._records), count)
                if len(self._records) >= count:
                    self._enough.set()


def _consumed(message: object) -> Consumed:
    return Consumed(
        message.topic(), message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value()  # type: ignore[attr-defined]
    )  # fmt: skip
