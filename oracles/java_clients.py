"""Kafka's Java clients driven from Python: producer and consumer with a few calls; ``java_admin`` has the rest.
Everything else can be called on the Java object itself: ``with clients.producer({...}) as producer:
producer.initTransactions()``. A record costs about a millisecond to hand over: for many records use ``java_tools``."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError

from oracles.java_artifacts import APACHE_KAFKA, ArtifactSet, fetch_jars
from oracles.java_machine import JavaMachine, running_java_machine

CALL_TIMEOUT_MS = 20_000
POLL_MS = 200
SERIALIZATION = "org.apache.kafka.common.serialization"


class JavaClientFailed(Exception):
    """A call into the clients raised an exception. ``kind`` is the class of its cause:
    UnknownTopicOrPartitionException."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Record(msgspec.Struct, frozen=True):
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Appended(msgspec.Struct, frozen=True):
    """The metadata of a record that was acknowledged."""

    partition: int
    offset: int
    timestamp_ms: int


class Received(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class JavaClients:
    """The clients of one broker. Configurations are Kafka's own; ``bootstrap.servers`` and the (de)serializers are
    set."""

    def __init__(self, machine: JavaMachine, bootstrap_servers: str) -> None:
        self.machine = machine
        self.bootstrap_servers = bootstrap_servers
        self._kafka = machine.classes.org.apache.kafka

    def produce(
        self, topic: str, records: Sequence[Record], config: Mapping[str, Any] | None = None
    ) -> list[Appended]:
        """Sends all records before it waits for the first one. Raises JavaClientFailed for the first that failed."""
        with self.producer(config) as producer:
            return self.send(producer, topic, records)

    def send(self, producer: Any, topic: str, records: Sequence[Record]) -> list[Appended]:
        """Sends the records with a producer of the caller: for transactions."""
        with java_failures():
            futures = [producer.send(self._producer_record(topic, record)) for record in records]
            producer.flush()
            return [_appended(future.get()) for future in futures]

    def consume(
        self,
        topic: str,
        count: int,
        config: Mapping[str, Any] | None = None,
        timeout_seconds: float = CALL_TIMEOUT_MS / 1000,
    ) -> list[Received]:
        """Returns ``count`` records, or those that arrived in time: of all partitions from their beginning, or as a
        member of the group if ``config`` names one (the position is then committed)."""
        with self.consumer(config) as consumer:
            with java_failures():
                if config and "group.id" in config:
                    consumer.subscribe([topic])
                else:
                    self._assign_all(consumer, topic)
                received = self.poll(consumer, count, timeout_seconds)
                if config and "group.id" in config:
                    consumer.commitSync()
            return received

    def poll(self, consumer: Any, count: int, timeout_seconds: float) -> list[Received]:
        received: list[Received] = []
        give_up = time.monotonic() + timeout_seconds
        while len(received) < count and time.monotonic() < give_up:
            received += map(_received, consumer.poll(self.machine.milliseconds(POLL_MS)).iterator())
        return received

    @contextmanager
    def producer(self, config: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Makes a KafkaProducer of bytes."""
        form = f"{SERIALIZATION}.ByteArraySerializer"
        chosen = {"key.serializer": form, "value.serializer": form, "max.block.ms": CALL_TIMEOUT_MS}
        with self._client(self._kafka.clients.producer.KafkaProducer, {**chosen, **(config or {})}) as made:
            yield made

    @contextmanager
    def consumer(self, config: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Makes a KafkaConsumer of bytes, which begins at the earliest offset where none is committed."""
        form = f"{SERIALIZATION}.ByteArrayDeserializer"
        chosen = {"key.deserializer": form, "value.deserializer": form, "auto.offset.reset": "earliest"}
        chosen["enable.auto.commit"] = "false"
        with self._client(self._kafka.clients.consumer.KafkaConsumer, {**chosen, **(config or {})}) as made:
            yield made

    @contextmanager
    def share_consumer(self, config: Mapping[str, Any]) -> Iterator[Any]:
        """Makes a KafkaShareConsumer of bytes, which acknowledges each record itself."""
        form = f"{SERIALIZATION}.ByteArrayDeserializer"
        chosen = {
            "key.deserializer": form,
            "value.deserializer": form,
            "share.acknowledgement.mode": "explicit",
        }
        with self._client(self._kafka.clients.consumer.KafkaShareConsumer, {**chosen, **config}) as made:
            yield made

    def acknowledge_type(self, name: str) -> Any:
        return getattr(self._kafka.clients.consumer.AcknowledgeType, name)

    @contextmanager
    def admin_client(self, config: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Makes Kafka's Admin itself; ``java_admin.JavaAdmin`` has results as Python values."""
        with self._client(self._kafka.clients.admin.Admin.create, config or {}) as made:
            yield made

    def topic_partition(self, topic: str, partition: int) -> Any:
        return self._kafka.common.TopicPartition(topic, partition)

    @contextmanager
    def _client(self, make: Any, config: Mapping[str, Any]) -> Iterator[Any]:
        texts = {name: str(value) for name, value in config.items()}
        with java_failures():
            made = make(self.machine.hash_map({"bootstrap.servers": self.bootstrap_servers, **texts}))
        try:
            yield made
        finally:
            made.close(self.machine.milliseconds(CALL_TIMEOUT_MS))

    def _producer_record(self, topic: str, record: Record) -> Any:
        make_header = self._kafka.common.header.internals.RecordHeader
        headers = [make_header(key, value) for key, value in record.headers]
        make = self._kafka.clients.producer.ProducerRecord
        return make(topic, record.partition, record.timestamp_ms, record.key, record.value, headers)

    def _assign_all(self, consumer: Any, topic: str) -> None:
        partitions = consumer.partitionsFor(topic)
        assigned = [self.topic_partition(topic, each.partition()) for each in partitions]
        consumer.assign(assigned)
        consumer.seekToBeginning(assigned)


@contextmanager
def running_java_clients(bootstrap_servers: str, jars: ArtifactSet = APACHE_KAFKA) -> Iterator[JavaClients]:
    """Starts the clients in a JVM of their own; KAFKA_3_CLIENTS are the older ones. Raises JavaArtifactsUnavailable."""
    with running_java_machine(fetch_jars(jars)) as machine:
        yield JavaClients(machine, bootstrap_servers)


@contextmanager
def java_failures() -> Iterator[None]:
    """Turns a Java exception inside the block into JavaClientFailed, named after its cause."""
    try:
        yield
    except Py4JJavaError as failure:
        cause = failure.java_exception
        if cause.getClass().getSimpleName() == "ExecutionException" and cause.getCause() is not None:
            cause = cause.getCause()
        raise JavaClientFailed(cause.getClass().getSimpleName(), str(cause.getMessage())) from failure


def _appended(metadata: Any) -> Appended:
    return Appended(metadata.partition(), metadata.offset(), metadata.timestamp())


def _received(record: Any) -> Received:
    return Received(
        topic=record.topic(),
        partition=record.partition(),
        offset=record.offset(),
        timestamp_ms=record.timestamp(),
        timestamp_type=str(record.timestampType().toString()),
        key=record.key(),
        value=record.value(),
        headers=_headers(record.headers().toArray()),
    )


def _headers(headers: Iterable[Any]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each.key(), each.value()) for each in headers)
