"""The client's failures are one line each; against a broker: tests/integration."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from siltstone.cli.demo import kafka_client
from siltstone.cli.demo.kafka_client import (
    ClientFailed,
    Consumed,
    FlightProducer,
    GroupReading,
    begin_of,
    configure,
    create_topics,
    records_held,
    told,
)
from siltstone.cli.failures import exit_status, failure_line
from siltstone.runtime.clock import ManualClock
from support.kafka.flights import flight_line, flights

NOWHERE = "127.0.0.1:1"
ERROR = KafkaError(KafkaError.KAFKA_STORAGE_ERROR, "the disk is full")
SOON = 0.05
"""Nobody answers within it, nor later."""


def test_a_failure_is_one_line_with_the_clients_reason() -> None:
    with pytest.raises(ClientFailed) as told_of, told("to try"):
        raise KafkaException(ERROR)
    assert failure_line(told_of.value) == "confluent-kafka failed to try: the disk is full"
    assert exit_status(told_of.value) == 1
    with pytest.raises(ClientFailed, match="to try: no answer for 3 s"), told("to try", 3):
        raise TimeoutError


def test_a_broker_that_is_not_there_is_told_of_by_every_step(capfd: pytest.CaptureFixture[str]) -> None:
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
    clock = ManualClock()

    class Message:
        def error(self) -> KafkaError:
            return ERROR

    class SilentConsumer:
        def __init__(self, _: object) -> None: ...
        def subscribe(self, _: object) -> None: ...
        def close(self) -> None: ...
        def consume(self, _: int, __: float) -> list[Message]:
            clock.block_ms(400)
            return [Message()]

    monkeypatch.setattr(kafka_client, "Consumer", SilentConsumer)
    monkeypatch.setattr(kafka_client, "records_held", lambda *_, **__: 7)
    with pytest.raises(
        ClientFailed, match="0 of 7 records were consumed, then none for 1 s: the disk is full"
    ):
        GroupReading(NOWHERE, {"flights": 1}, clock, seconds_max=1).read(2, lambda *_: None)


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
    producer = FlightProducer(NOWHERE, 1_000, seconds_max=3)
    assert producer._producer.configuration == {
        "bootstrap.servers": NOWHERE, "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 5,
        "batch.size": 1_000, "partitioner": "murmur2_random", "delivery.timeout.ms": 3_000, "log_level": 0,
    }  # fmt: skip
    made = flights(*(flight_line(1, 1, minute, delay="900") for minute in range(30)))
    progress: list[tuple[int, int]] = []
    monkeypatch.setattr(kafka_client, "POLL_EVERY", 20)
    producer.produce(made, lambda done, total: progress.append((done, total)))
    assert producer._producer.given == [
        (topic, each.line, each.tail_number, each.departure_ms) for each in made for topic in each.topics
    ]
    assert producer.acknowledged == 60
    assert progress == [(0, 30), (20, 30)] and producer._producer.polled.count(0) == 2


def test_producing_ends_soon_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "Producer", Recorder)
    monkeypatch.setattr(kafka_client, "POLL_EVERY", 5)
    producer = FlightProducer(NOWHERE, 1_000)
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
