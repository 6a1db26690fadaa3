"""The client's failures are one line each; against a broker: tests/integration."""

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from siltstone.cli.demo import kafka_client
from siltstone.cli.demo.kafka_client import (
    ClientFailed,
    Consumed,
    FlightProducer,
    GroupReading,
    begin_of,
    client_failures_named,
    configure,
    create_topics,
    records_held,
    refuse_without_client,
)
from siltstone.cli.failures import ExtraMissing, exit_status, failure_line
from siltstone.runtime.clock import ManualClock
from support.kafka.flights import flight_line, flights

NOWHERE = "127.0.0.1:1"
ERROR = KafkaError(KafkaError.KAFKA_STORAGE_ERROR, "the disk is full")
SOON = 0.05
"""Nobody answers within it, nor later."""


def test_a_failure_is_one_line_with_the_clients_reason() -> None:
    with pytest.raises(ClientFailed) as failed, client_failures_named("to try"):
        raise KafkaException(ERROR)
    assert failure_line(failed.value) == "confluent-kafka failed to try: the disk is full"
    assert exit_status(failed.value) == 1
    with pytest.raises(ClientFailed, match="to try: no answer for 3 s"), client_failures_named("to try", 3):
        raise TimeoutError


def test_ctrl_c_in_a_call_of_the_client_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), client_failures_named("to try"):
        raise SystemError("list_offsets returned a result with an exception set") from KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), client_failures_named("to try"):
        raise SystemError("<method 'flush' of objects> returned NULL without setting an exception")
    with pytest.raises(SystemError), client_failures_named("to try"):
        raise SystemError("another reason")


def test_a_broker_that_is_not_there_is_named_by_every_step(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ClientFailed, match="failed to create the topics"):
        create_topics(NOWHERE, {"flights": 1}, {"flights": {}}, seconds_max=SOON)
    with pytest.raises(ClientFailed, match="failed to configure flights"):
        configure(NOWHERE, "flights", {"cleanup.policy": "compact"}, seconds_max=SOON)
    with pytest.raises(ClientFailed, match="failed to ask where flights begins"):
        begin_of(NOWHERE, "flights", seconds_max=SOON)
    with pytest.raises(ClientFailed, match="failed to ask where the partitions end"):
        records_held(NOWHERE, {"flights": 1}, seconds_max=SOON)
    with pytest.raises(ClientFailed, match=r"1 records were not acknowledged|1 records were refused"):
        FlightProducer(NOWHERE, 1_000, seconds_max=SOON).produce(
            flights(flight_line(1, 1, 1)), lambda *_: None
        )
    assert capfd.readouterr().err == ""  # the client's own log would be in the middle of the story


def test_a_record_that_is_refused_ends_producing() -> None:
    producer = FlightProducer(NOWHERE, 1_000, seconds_max=SOON)
    producer._delivered(None, None)
    producer._delivered(ERROR, None)
    assert producer.acknowledged == 1
    with pytest.raises(ClientFailed, match="1 records were refused, the first because: the disk is full"):
        producer.produce(flights(flight_line(1, 1, 1)), lambda *_: None)


def record(offset: int) -> Consumed:
    return Consumed("flights", 0, offset, 0, b"N1", b"line")


def test_a_record_is_counted_once_however_often_the_group_is_given_it() -> None:
    reading = GroupReading(NOWHERE, {"flights": 1}, ManualClock())
    progress: list[int] = []
    taken = [
        reading._take([record(offset) for offset in offsets], 3, lambda done, _: progress.append(done))
        for offsets in ([0, 1], [1], [0, 1, 2])
    ]
    assert taken == [2, 0, 1] and progress == [2, 2, 3]
    assert reading._enough.is_set()


def test_silence_ends_with_what_the_client_heard_last(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, polls = ManualClock(), []

    class Message:
        def error(self) -> KafkaError:
            return ERROR

    class SilentConsumer:
        def __init__(self, _: object) -> None: ...
        def subscribe(self, _: object) -> None: ...
        def close(self) -> None: ...
        def consume(self, _: int, __: float) -> list[Message]:
            polls.append(1)
            clock.block_ms(400)
            return [Message()]

    monkeypatch.setattr(kafka_client, "Consumer", SilentConsumer)
    monkeypatch.setattr(kafka_client, "records_held", lambda *_, **__: 7)
    with pytest.raises(
        ClientFailed, match="0 of 7 records were consumed, then none for 1 s: the disk is full"
    ):
        GroupReading(NOWHERE, {"flights": 1}, clock, seconds_max=1).read(2, lambda *_: None)
    assert len(polls) == 3, "after 1.2 s, and not before"


class FakeMessage:
    def __init__(self, partition: int, offset: int) -> None:
        self._place = partition, offset

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "flights"

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000 + self._place[1]

    def key(self) -> bytes:
        return b"N1"

    def value(self) -> bytes:
        return b"line"


def consumer_of(partition: int, records: int) -> object:
    """What a member of the group is given: the records of one partition, one at a time, then nothing."""

    class OnePartition:
        def __init__(self) -> None:
            self.left = [FakeMessage(partition, offset) for offset in range(records)]
            self.topics: list[str] = []
            self.is_closed = False

        def subscribe(self, topics: list[str]) -> None:
            self.topics = topics

        def consume(self, count: int, _: float) -> list[FakeMessage]:
            assert count == kafka_client.POLL_EVERY
            return [self.left.pop(0)] if self.left else []

        def close(self) -> None:
            self.is_closed = True

    return OnePartition()


def test_the_members_of_a_group_consume_together_what_the_broker_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members, configurations, progress = [consumer_of(0, 3), consumer_of(1, 2)], [], []
    waiting = list(members)

    def consumer(configuration: dict[str, object]) -> object:
        configurations.append(configuration)
        return waiting.pop()

    monkeypatch.setattr(kafka_client, "Consumer", consumer)
    monkeypatch.setattr(kafka_client, "records_held", lambda *_, **__: 5)
    reading = GroupReading("somewhere:1", {"flights": 2}, ManualClock())
    found = reading.read(2, lambda *now: progress.append(now))
    assert {(each.topic, each.partition, each.offset, each.timestamp_ms) for each in found} == {
        ("flights", partition, offset, 1_000 + offset)
        for partition, count in ((0, 3), (1, 2))
        for offset in range(count)
    }
    assert {(each.key, each.value) for each in found} == {(b"N1", b"line")} and len(found) == 5
    assert max(progress) == (5, 5)
    assert all(each.is_closed and each.topics == ["flights"] for each in members)
    assert {each["bootstrap.servers"] for each in configurations} == {"somewhere:1"}
    assert {each["auto.offset.reset"] for each in configurations} == {"earliest"}


def test_ctrl_c_ends_the_members_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            if not reading._enough.is_set():
                raise KeyboardInterrupt
            super().join(timeout)

    monkeypatch.setattr(kafka_client, "Consumer", lambda _: consumer_of(0, 0))
    monkeypatch.setattr(kafka_client, "records_held", lambda *_, **__: 5)
    monkeypatch.setattr(kafka_client.threading, "Thread", Interrupted)
    reading = GroupReading(NOWHERE, {"flights": 1}, ManualClock())
    with pytest.raises(KeyboardInterrupt):
        reading.read(1, lambda *_: None)
    assert reading._enough.is_set()


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_without_client()
    monkeypatch.setattr(kafka_client, "Producer", None)
    with pytest.raises(ExtraMissing, match=r"siltstone\[demo\]"):
        refuse_without_client()


class Recorder:
    """A producer that remembers how it was made and what it was given; every tenth record fills its queue."""

    def __init__(self, configuration: dict[str, object]) -> None:
        self.configuration = configuration
        self.given: list[tuple[str, bytes, bytes, int]] = []
        self.polled: list[float] = []
        self.refused = False

    def produce(self, topic: str, value: bytes, key: bytes, *, timestamp: int, on_delivery) -> None:
        if len(self.given) % 10 == 9 and len(self.polled) <= len(self.given) // 10:
            raise BufferError
        self.given.append((topic, value, key, timestamp))
        on_delivery(ERROR if self.refused else None, None)

    def poll(self, seconds: float) -> None:
        self.polled.append(seconds)

    def flush(self, _: float) -> int:
        return 0


def test_a_flight_is_produced_as_an_ordinary_client_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "Producer", Recorder)
    producer = FlightProducer(NOWHERE, 1_000, seconds_max=3, poll_every=20)
    assert producer._producer.configuration == {
        "bootstrap.servers": NOWHERE, "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 5,
        "batch.size": 1_000, "partitioner": "murmur2_random", "delivery.timeout.ms": 3_000, "log_level": 0,
    }  # fmt: skip
    made = flights(*(flight_line(1, 1, minute, delay="900") for minute in range(30)))
    progress: list[tuple[int, int]] = []
    producer.produce(made, lambda done, total: progress.append((done, total)))
    assert producer._producer.given == [
        (topic, each.line, each.tail_number, each.departure_ms) for each in made for topic in each.topics
    ]
    assert producer.acknowledged == 60
    assert progress == [(0, 30), (20, 30)] and producer._producer.polled.count(0) == 2


def test_producing_ends_soon_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "Producer", Recorder)
    producer = FlightProducer(NOWHERE, 1_000, poll_every=5)
    producer._producer.refused = True
    with pytest.raises(ClientFailed, match="1 records were refused"):
        producer.produce(flights(*(flight_line(1, 1, minute) for minute in range(30))), lambda *_: None)
    assert len(producer._producer.given) == 1


def test_a_reader_that_fails_ends_the_others_with_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []

    class FailingConsumer:
        def __init__(self, configuration: dict[str, object]) -> None:
            self.configuration = configuration

        def subscribe(self, topics: list[str]) -> None:
            assert topics == ["flights", "late-flights"]
            raise KafkaException(ERROR)

        def close(self) -> None:
            closed.append(self.configuration)

    monkeypatch.setattr(kafka_client, "Consumer", FailingConsumer)
    monkeypatch.setattr(kafka_client, "records_held", lambda *_, **__: 7)
    reading = GroupReading(NOWHERE, {"flights": 8, "late-flights": 1}, ManualClock())
    with pytest.raises(ClientFailed, match="to consume: the disk is full"):
        reading.read(2, lambda *_: None)
    assert (
        closed
        == [
            {
                "bootstrap.servers": NOWHERE,
                "group.id": "demo",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        ]
        * 2
    )
