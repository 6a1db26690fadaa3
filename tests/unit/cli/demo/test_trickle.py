"""Flights are produced a day at a time, each acknowledged before the next; a failure is kept for the caller that joins
the thread."""

import threading
from collections.abc import Callable

import pytest

from siltstone.cli.demo.flights import Flight
from siltstone.cli.demo.kafka_client import ClientFailed
from siltstone.cli.demo.trickle import Trickle
from siltstone.runtime.clock import ManualClock
from support.kafka.flights import flight_line, flights

DECEMBER = flights(*(flight_line(day, hour, 0, month=12) for day in (1, 2, 3) for hour in (5, 23)))


class RecordingProducer:
    def __init__(self, then: Callable[[int], None] = lambda _: None) -> None:
        self.days: list[list[Flight]] = []
        self._then = then

    def produce(self, day: list[Flight], _: object) -> None:
        self.days.append(day)
        self._then(len(self.days))


def test_each_day_is_produced_by_itself_in_order() -> None:
    clock = ManualClock()
    producer = RecordingProducer(lambda day: clock.block_ms(100 * day))
    trickle = Trickle(producer, DECEMBER, clock, pause_seconds=0)
    trickle.run()
    trickle.raise_failure()
    assert producer.days == [DECEMBER[:2], DECEMBER[2:4], DECEMBER[4:]]
    assert trickle.slowest_seconds == 0.3 and trickle.days_done == 3


def test_in_a_hurry_there_are_no_pauses() -> None:
    producer = RecordingProducer()
    trickle = Trickle(producer, DECEMBER, ManualClock(), pause_seconds=60)
    thread = threading.Thread(target=trickle.run)
    thread.start()
    trickle.hurry()
    thread.join(60)
    assert not thread.is_alive() and len(producer.days) == 3


def test_a_failure_is_raised_where_the_story_is_told() -> None:
    def fail(day: int) -> None:
        if day == 2:
            raise ClientFailed("refused")

    producer = RecordingProducer(fail)
    trickle = Trickle(producer, DECEMBER, ManualClock(), pause_seconds=0)
    trickle.run()
    with pytest.raises(ClientFailed, match="refused"):
        trickle.raise_failure()
    assert len(producer.days) == 2
