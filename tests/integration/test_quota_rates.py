"""QU01: the rate that clients of librdkafka and Java get, that produce and read as fast as they can, all at once.

A quota is of what eleven windows of a second use, as in Kafka, so a client may use it in one second and wait for the
others. The rate is therefore held, within a tenth, in this sense: ten seconds never see more than eleven seconds' use,
and at any time after the first ten seconds as much has come as the rate allows by then: no less, and no more but for
one such use in advance.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import confluent_kafka
import pytest

import siltstone
from oracles.java_clients import JavaClients, Record, running_java_clients
from support.kafka.kafka_oracles import or_skip
from support.kafka.quiet_client import QUIET
from support.processes.cli import run
from support.processes.tried import RecordTried

pytestmark = [
    pytest.mark.clients,
    pytest.mark.kafka,
    pytest.mark.nightly(tried="megabytes with quotas"),
    pytest.mark.xdist_group("quotas"),
    pytest.mark.timeout(600),
]

MB = 1_000_000
RECORD_BYTES, BATCH_RECORDS = 10_000, 10
SECONDS, SPAN_S, WINDOWS = 45, 10, 11
IN_FLIGHT_BYTES = 5 * RECORD_BYTES * BATCH_RECORDS
"""A request is measured when it is there, and the next four are by then under way."""

Arrived = list[tuple[float, int]]
"""Seconds since the start, and the number of the record that was acknowledged or read."""


def value_of(number: int) -> bytes:
    return b"%06d" % number + bytes(RECORD_BYTES - 6)


class Client:
    """Moves records in a thread until the time is over. ``throttle_ms``: the longest that it was told to wait."""

    def __init__(self, name: str, work: Callable[["Client"], None]) -> None:
        self.name = name
        self.arrived: Arrived = []
        self.throttle_ms = 0.0
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=work, args=(self,))

    def start(self) -> None:
        self._begun = time.monotonic()
        self._thread.start()

    def join(self) -> None:
        self._thread.join(2 * SECONDS)
        assert not self._thread.is_alive(), self.name

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self._begun

    @property
    def goes_on(self) -> bool:
        return self.passed_s < SECONDS

    def came(self, number: int) -> None:
        self.arrived.append((self.passed_s, number))

    def throttled(self, milliseconds: float) -> None:
        self.throttle_ms = max(self.throttle_ms, milliseconds)


# -- the work of each library --------------------------------------------------------------------------------


def librdkafka_produces(config: dict[str, Any], client: Client) -> None:
    def delivered(number: int, error: object, _: object) -> None:
        assert error is None
        client.came(number)

    producer = confluent_kafka.Producer({
        **config, "batch.num.messages": BATCH_RECORDS, "linger.ms": 5, "queue.buffering.max.messages": 100,
        "throttle_cb": lambda event: client.throttled(event.throttle_time * 1_000),
    })  # fmt: skip
    number = 0
    while client.goes_on:
        try:
            producer.produce(
                client.name, value_of(number), partition=0, on_delivery=partial(delivered, number)
            )
            number += 1
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(60) == 0


def librdkafka_reads(config: dict[str, Any], client: Client) -> None:
    consumer = confluent_kafka.Consumer({
        **config, "group.id": client.name, "fetch.queue.backoff.ms": 1,
        "fetch.message.max.bytes": RECORD_BYTES * BATCH_RECORDS,
        "throttle_cb": lambda event: client.throttled(event.throttle_time * 1_000),
    })  # fmt: skip
    consumer.assign([confluent_kafka.TopicPartition("full", 0, 0)])
    while client.goes_on:
        for message in consumer.consume(BATCH_RECORDS, 0.5):
            assert message.error() is None
            client.came(int(message.value()[:6]))
    consumer.close()


def java_produces(java: JavaClients, client: Client) -> None:
    """A batch is a request of its own, and one is under way at a time."""
    number, config = 0, {"client.id": client.name, "batch.size": RECORD_BYTES * BATCH_RECORDS, "linger.ms": 5}
    with java.producer(config) as producer:
        while client.goes_on:
            numbers = range(number, number + BATCH_RECORDS)
            java.send(producer, client.name, [Record(value_of(each), partition=0) for each in numbers])
            for number in numbers:
                client.came(number)
            number = numbers.stop
        client.throttled(java_metric(producer, "produce-throttle-time-max"))


def java_reads(java: JavaClients, client: Client) -> None:
    """Values stay in the JVM, since handing one over takes 40 ms: the number of a record is its offset."""
    config = {"client.id": client.name, "max.partition.fetch.bytes": RECORD_BYTES * BATCH_RECORDS}
    with java.consumer(config) as consumer:
        consumer.assign([java.topic_partition("full", 0)])
        while client.goes_on:
            for record in consumer.poll(java.machine.milliseconds(500)).iterator():
                assert record.serializedValueSize() == RECORD_BYTES
                client.came(record.offset())
        client.throttled(java_metric(consumer, "fetch-throttle-time-max"))


def java_metric(client: Any, name: str) -> float:
    values = (each.metricValue() for each in client.metrics().values() if each.metricName().name() == name)
    return max((value for value in values if value == value), default=0.0)


# -- the test ------------------------------------------------------------------------------------------------


@contextmanager
def _java(broker: siltstone.Broker) -> Iterator[tuple[JavaClients, JavaClients]]:
    """A JVM for each, since the calls of one wait for each other."""
    with ExitStack() as running:
        yield tuple(running.enter_context(running_java_clients(broker.bootstrap_servers)) for _ in range(2))


def assert_rate(client: Client) -> None:
    assert client.throttle_ms > 0, f"{client.name} is never told to wait"
    begun = client.arrived[0][0]
    times = [at - begun for at, _ in client.arrived]
    in_advance = WINDOWS * MB + IN_FLIGHT_BYTES
    for place in range(bisect_left(times, SPAN_S), len(times)):
        seconds, came = times[place], place * RECORD_BYTES
        in_a_span = RECORD_BYTES * (bisect_left(times, seconds + SPAN_S) - place)
        said = f"{client.name}, after {seconds:.1f} s: {came} bytes until then, {in_a_span} in the next ten seconds"
        assert in_a_span <= 1.1 * WINDOWS * MB + IN_FLIGHT_BYTES, said
        assert 0.9 * MB * seconds <= came <= 1.1 * MB * seconds + in_advance, said
    assert times[-1] > SECONDS - begun - SPAN_S, f"{client.name} has stopped"


def test_qu01_the_rate_is_held_with_librdkafka_and_java(record_tried: RecordTried) -> None:
    with siltstone.Broker() as broker, or_skip(partial(_java, broker)) as (java, another):
        config = {**broker.client_config(), **QUIET}
        filling = confluent_kafka.Producer({**config, "batch.num.messages": BATCH_RECORDS, "linger.ms": 5})
        for number in range(2 * SECONDS * MB // RECORD_BYTES):
            filling.produce("full", value_of(number), partition=0)
            filling.poll(0)
        assert filling.flush(60) == 0
        done = run(
            "quotas", "set", f"producer_byte_rate={MB}", f"consumer_byte_rate={MB}", "--default", "client-id",
            "--store", str(broker.folder),
        )  # fmt: skip
        assert done.status == 0, done.err
        time.sleep(0.5)  # the broker knows the quota a fifth of a second later
        clients = [
            Client("of-c", partial(librdkafka_produces, {**config, "client.id": "of-c"})),
            Client("of-c-reading", partial(librdkafka_reads, {**config, "client.id": "of-c-reading"})),
            Client("of-java", partial(java_produces, java)),
            Client("of-java-reading", partial(java_reads, another)),
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        done = run("quotas", "remove", "--default", "client-id", "--yes", "--store", str(broker.folder))
        assert done.status == 0, done.err
        for client in clients:
            numbers = [number for _, number in client.arrived]
            assert numbers == [*range(len(numbers))], f"{client.name}: something is lost or came twice"
            assert_rate(client)
        for client in clients[::2]:
            stored = broker.records(client.name)
            assert [record.value for record in stored] == [
                value_of(each) for each in range(len(client.arrived))
            ]
        record_tried("megabytes with quotas", sum(len(each.arrived) for each in clients) * RECORD_BYTES // MB)
