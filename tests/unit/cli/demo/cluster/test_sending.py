"""What the producer notes of answers and pauses, with a client that answers when the test wants."""

from typing import Any

import pytest

from siltstone.cli.demo.cluster import sending as module
from siltstone.cli.demo.cluster.sending import FlightSending
from siltstone.cli.demo.kafka_client import ClientFailed
from siltstone.runtime.clock import ManualClock
from support.kafka.flights import flight_line, flights

FLIGHTS = flights(*(flight_line(1, hour, 0) for hour in range(3)))


class Answer:
    def __init__(self, partition: int, offset: int) -> None:
        self.partition = lambda: partition
        self.offset = lambda: offset


class PlayedClient:
    """Keeps what was sent; ``answer`` calls back. ``left``: what a flush leaves."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, bytes]] = []
        self.callbacks: list[Any] = []
        self.left = 0
        self.on_poll = lambda: None

    def produce(self, topic: str, value: bytes, key: bytes, *, timestamp: int, on_delivery: Any) -> None:
        self.sent.append((value, key))
        self.callbacks.append(on_delivery)

    def poll(self, _: float) -> None:
        self.on_poll()

    def flush(self, _: float) -> int:
        return self.left


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> PlayedClient:
    played = PlayedClient()
    monkeypatch.setattr(module, "new_producer", lambda *_: played)
    return played


def sending(clock: ManualClock, partitions: int = 2) -> FlightSending:
    return FlightSending("host:1", FLIGHTS, partitions, clock)


def test_records_are_numbered_and_the_flights_begin_anew(client: PlayedClient) -> None:
    made = sending(ManualClock())
    client.on_poll = made._stopping.set
    made.start()
    made.stop()
    assert len(client.sent) == 1, "the first turn polls after its first record"
    client.sent.clear()
    turns = iter(range(3))
    made = sending(ManualClock())
    client.on_poll = lambda: next(turns) < 2 or made._stopping.set()
    made.start()
    made.stop()
    assert [value.split(b" ", 1)[0] for value, _ in client.sent[:5]] == [b"0", b"1", b"2", b"3", b"4"]
    assert (
        client.sent[3][0].split(b" ", 1)[1] == FLIGHTS[0].line and client.sent[3][1] == FLIGHTS[0].tail_number
    )


def test_a_pause_is_the_time_between_two_answers_or_since_the_last_one(client: PlayedClient) -> None:
    clock = ManualClock()
    made = sending(clock)
    clock.advance_ms(1_000)
    made._delivered(0, None, Answer(0, 0))
    made._delivered(1, None, Answer(1, 0))
    clock.advance_ms(70)
    made._delivered(2, None, Answer(0, 1))
    clock.advance_ms(5)
    made._delivered(3, None, Answer(0, 2))
    assert made.pauses_ms() == {0: 70, 1: 75}
    assert made.pauses_ms() == {0: 0, 1: 75}, "partition 1 is silent still"
    assert made.answered == {0: (0, 0), 1: (1, 0), 2: (0, 1), 3: (0, 2)}


def test_every_partition_has_to_answer_after_the_moment(client: PlayedClient) -> None:
    clock = ManualClock()
    made = sending(clock)
    clock.advance_ms(10)
    moment_ms = clock.monotonic_ms()
    made._delivered(0, None, Answer(0, 0))
    clock.advance_ms(1)
    made._delivered(1, None, Answer(1, 0))
    assert not made.answers_since(moment_ms)
    made._delivered(2, None, Answer(0, 1))
    assert made.answers_since(moment_ms)
    assert not made.answers_since(clock.monotonic_ms())


def test_a_refused_record_ends_it_with_the_reason(client: PlayedClient) -> None:
    made = sending(ManualClock())
    client.on_poll = lambda: client.callbacks[0]("message too large", None)
    made.start()
    with pytest.raises(ClientFailed, match="a record was refused: message too large"):
        made.stop()
    with pytest.raises(ClientFailed):
        made.raise_failure()


def test_what_is_not_acknowledged_in_time_is_a_failure(client: PlayedClient) -> None:
    client.left = 7
    made = sending(ManualClock())
    client.on_poll = made._stopping.set
    made.start()
    with pytest.raises(ClientFailed, match="7 records were not acknowledged within 60 s"):
        made.stop()


def test_abandoned_it_waits_for_nothing(client: PlayedClient) -> None:
    client.left = 7
    made = sending(ManualClock())
    made.start()
    made.abandon()
    made.raise_failure()
