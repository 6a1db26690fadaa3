"""Produces flights in the background, one day at a time; each day is acknowledged before the next begins."""

import threading
from collections.abc import Sequence
from itertools import groupby

from siltstone.cli.demo.flights import Flight
from siltstone.cli.demo.kafka_client import FlightProducer
from siltstone.runtime.clock import Clock

PAUSE_SECONDS = 0.4
"""The pause between two days. With it a month takes about as long as the start of Spark, the compaction of little data
and an export of that data to a table."""


class Trickle:
    """``run`` is the body of a thread; ``hurry`` ends its pauses; ``raise_failure`` raises what ended it early."""

    def __init__(
        self,
        producer: FlightProducer,
        flights: Sequence[Flight],
        clock: Clock,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._pause_seconds = pause_seconds
        self._producer = producer
        self._flights = flights
        self._clock = clock
        self._hurry = threading.Event()
        self._failure: Exception | None = None
        self.slowest_seconds = 0.0
        self.days_done = 0

    def run(self) -> None:
        try:
            for _, day in groupby(self._flights, key=lambda flight: flight.day):
                self._produce(list(day))
                self.days_done += 1
                self._hurry.wait(self._pause_seconds)
        except Exception as failure:
            self._failure = failure

    def _produce(self, day: Sequence[Flight]) -> None:
        began_ms = self._clock.monotonic_ms()
        self._producer.produce(day, lambda _, __: None)
        self.slowest_seconds = max(self.slowest_seconds, (self._clock.monotonic_ms() - began_ms) / 1000)

    def hurry(self) -> None:
        self._hurry.set()

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
