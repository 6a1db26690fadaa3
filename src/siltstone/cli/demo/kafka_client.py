"""The Kafka client of the demo: confluent-kafka, with nothing but Kafka's usual configurations.

Every error of the client is raised as ClientFailed, one line with the reason that the client gives.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from siltstone.cli.demo.flights import Flight
from siltstone.cli.demo.story import OnProgress
from siltstone.cli.failures import ExtraMissing
from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import Clock

try:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewTopic,
        OffsetSpec,
    )
except ImportError:  # ``refuse_without_client`` reports it before the demo begins
    Consumer = Producer = AdminClient = NewTopic = OffsetSpec = TopicPartition = None
    AlterConfigOpType = ConfigEntry = ConfigResource = None
    KafkaException = OSError

SECONDS_MAX = 60
"""The demo fails when no answer, or no record, arrives for this long: longer than any pause of a busy machine."""

POLL_EVERY = 5_000
GROUP = "demo"
NO_LOG = {"log_level": 0}
"""Turns off the log of librdkafka, which would appear on stderr between the steps."""


class Consumed(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes


class ClientFailed(Unavailable):
    """confluent-kafka reported an error, or nothing arrived within the time limit."""


@contextmanager
def client_failures_named(doing: str, seconds_max: float = SECONDS_MAX) -> Iterator[None]:
    """Raises ClientFailed instead of the client's own error, and KeyboardInterrupt where Ctrl-C came during a call into
    the client's C code: CPython raises a SystemError there, with the KeyboardInterrupt as its cause, or without a cause
    where the client has dropped it."""
    try:
        yield
    except SystemError as failure:
        if isinstance(failure.__cause__, KeyboardInterrupt):
            raise failure.__cause__ from None
        if failure.__cause__ is None and "without setting an exception" in str(failure):
            raise KeyboardInterrupt from None
        raise
    except (KafkaException, TimeoutError) as failure:
        reason = failure.args[0] if failure.args else f"no answer for {seconds_max} s"
        raise ClientFailed(f"confluent-kafka failed {doing}: {error_words(reason)}") from failure


def error_words(reason: object) -> str:
    """Returns the text of a KafkaError without its code and its location in librdkafka."""
    return str(reason.str() if hasattr(reason, "str") else reason)


def refuse_without_client() -> None:
    """Raises ExtraMissing if confluent-kafka is not installed."""
    if Producer is None:
        raise ExtraMissing("confluent-kafka", "demo")


def create_topics(
    bootstrap_servers: str,
    partitions: Mapping[str, int],
    configs: Mapping[str, Mapping[str, str]],
    *,
    seconds_max: float = SECONDS_MAX,
) -> None:
    """Creates topics with these numbers of partitions. Raises ClientFailed."""
    with client_failures_named("to create the topics", seconds_max):
        admin = AdminClient({"bootstrap.servers": bootstrap_servers, **NO_LOG})
        made = admin.create_topics(
            [NewTopic(name, count, 1, config=dict(configs[name])) for name, count in partitions.items()]
        )
        for answer in made.values():
            answer.result(seconds_max)


def configure(
    bootstrap_servers: str, topic: str, values: Mapping[str, str], *, seconds_max: float = SECONDS_MAX
) -> None:
    """Sets configurations of a topic. Raises ClientFailed."""
    with client_failures_named(f"to configure {topic}", seconds_max):
        admin = AdminClient({"bootstrap.servers": bootstrap_servers, **NO_LOG})
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        for answer in admin.incremental_alter_configs([resource]).values():
            answer.result(seconds_max)


def begin_of(bootstrap_servers: str, topic: str, *, seconds_max: float = SECONDS_MAX) -> int:
    """Returns the first offset of the only partition of ``topic``. Raises ClientFailed."""
    partition = TopicPartition(topic, 0)
    with client_failures_named(f"to ask where {topic} begins", seconds_max):
        admin = AdminClient({"bootstrap.servers": bootstrap_servers, **NO_LOG})
        (answer,) = admin.list_offsets({partition: OffsetSpec.earliest()}).values()
        return int(answer.result(seconds_max).offset)


def records_held(
    bootstrap_servers: str, partitions: Mapping[str, int], *, seconds_max: float = SECONDS_MAX
) -> int:
    """Returns the sum of the end offsets of all partitions, as the broker reports them. Raises ClientFailed."""
    wanted = [TopicPartition(name, number) for name, count in partitions.items() for number in range(count)]
    with client_failures_named("to ask where the partitions end", seconds_max):
        admin = AdminClient({"bootstrap.servers": bootstrap_servers, **NO_LOG})
        answers = admin.list_offsets(
            {each: OffsetSpec.latest() for each in wanted}, request_timeout=seconds_max
        )
        return sum(answer.result(seconds_max).offset for answer in answers.values())


def new_producer(
    bootstrap_servers: str, seconds_max: float, configs: Mapping[str, str | int] | None = None
) -> "Producer":
    """Makes an idempotent producer with ``acks=all`` and lz4. ``configs``: further ones."""
    return Producer({
        "bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "compression.type": "lz4",
        "linger.ms": 5, "partitioner": "murmur2_random", "delivery.timeout.ms": round(seconds_max * 1000),
        **NO_LOG, **(configs or {}),
    })  # fmt: skip


class FlightProducer:
    """Produces flights. ``batch_bytes``: size of a batch before compression. ``poll_every``: after so many flights it
    asks for refusals."""

    def __init__(
        self,
        bootstrap_servers: str,
        batch_bytes: int,
        *,
        seconds_max: float = SECONDS_MAX,
        poll_every: int = POLL_EVERY,
    ) -> None:
        self._poll_every = poll_every
        self._producer = new_producer(bootstrap_servers, seconds_max, {"batch.size": batch_bytes})
        self._seconds_max = seconds_max
        self._failures: list[str] = []
        self.acknowledged = 0

    def produce(self, flights: Sequence[Flight], on_progress: OnProgress) -> None:
        """Produces the flights and returns when all are acknowledged. Raises ClientFailed."""
        with client_failures_named("to produce", self._seconds_max):
            for number, flight in enumerate(flights):
                for topic in flight.topics:
                    self._send(topic, flight)
                if number % self._poll_every == 0:
                    self._producer.poll(0)
                    on_progress(number, len(flights))
                    self._refuse_failures()
            left = self._producer.flush(self._seconds_max)
        self._refuse_failures()
        if left:
            raise ClientFailed(f"{left:,} records were not acknowledged within {self._seconds_max} s")

    def _refuse_failures(self) -> None:
        if self._failures:
            raise ClientFailed(
                f"{len(self._failures):,} records were refused, the first because: {self._failures[0]}"
            )

    def _send(self, topic: str, flight: Flight) -> None:
        while True:
            try:
                self._producer.produce(
                    topic, flight.line, flight.tail_number, timestamp=flight.departure_ms,
                    on_delivery=self._delivered,
                )  # fmt: skip
                return
            except BufferError:  # the queue of the client is full: wait for acknowledgements
                self._producer.poll(0.1)

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self._failures.append(error_words(error))


class GroupReading:
    """Consumers of one group, each in a thread. Each offset is returned once, whichever consumer receives it."""

    def __init__(
        self,
        bootstrap_servers: str,
        partitions: Mapping[str, int],
        clock: Clock,
        *,
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._partitions = partitions
        self._clock = clock
        self._seconds_max = seconds_max
        self._lock = threading.Lock()
        self._records: dict[tuple[str, int, int], Consumed] = {}
        self._failures: list[Exception] = []
        self._enough = threading.Event()

    def read(self, members: int, on_progress: OnProgress) -> list[Consumed]:
        """Consumes as many records as the broker reports to hold, which may differ from how many were produced. Raises
        ClientFailed."""
        count = records_held(self._bootstrap_servers, self._partitions, seconds_max=self._seconds_max)
        threads = [
            threading.Thread(target=self._consume, args=(count, on_progress), daemon=True)
            for _ in range(members)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C: the threads would wait for a broker that is being stopped
            self._enough.set()
            raise
        if self._failures:
            raise self._failures[0]
        return list(self._records.values())

    def _consume(self, count: int, on_progress: OnProgress) -> None:
        consumer = Consumer({
            "bootstrap.servers": self._bootstrap_servers, "group.id": GROUP, "auto.offset.reset": "earliest",
            **NO_LOG,
        })  # fmt: skip
        try:
            with client_failures_named("to consume", self._seconds_max):
                consumer.subscribe(list(self._partitions))
                self._poll(consumer, count, on_progress)
        except Exception as failure:
            self._failures.append(failure)
            self._enough.set()
        finally:
            consumer.close()

    def _poll(self, consumer: "Consumer", count: int, on_progress: OnProgress) -> None:
        received_ms, reason = self._clock.monotonic_ms(), "the client reported no error"
        while not self._enough.is_set():
            messages = consumer.consume(POLL_EVERY, 0.2)
            records = [_consumed(message) for message in messages if message.error() is None]
            reason = next(
                (error_words(each.error()) for each in messages if each.error() is not None), reason
            )
            now_ms = self._clock.monotonic_ms()
            if self._take(records, count, on_progress):
                received_ms = now_ms
            elif now_ms - received_ms > self._seconds_max * 1000:
                so_far = f"{len(self._records):,} of {count:,} records were consumed"
                raise ClientFailed(f"{so_far}, then none for {self._seconds_max} s: {reason}")

    def _take(self, records: Sequence[Consumed], count: int, on_progress: OnProgress) -> int:
        """Adds the records and returns how many were new. A rebalance can deliver a record twice, so records are
        counted by their offsets."""
        with self._lock:
            before = len(self._records)
            self._records.update({(each.topic, each.partition, each.offset): each for each in records})
            on_progress(len(self._records), count)
            if len(self._records) >= count:
                self._enough.set()
            return len(self._records) - before


def _consumed(message: object) -> Consumed:
    return Consumed(
        message.topic(), message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value()  # type: ignore[attr-defined]
    )  # fmt: skip
