"""The producer of the demo of a cluster: numbers what it sends, and notes how long each partition was silent."""

import threading
from collections.abc import Sequence
from itertools import count

from siltstone.cli.demo.flights import FLIGHTS_TOPIC, Flight
from siltstone.cli.demo.kafka_client import (
    SECONDS_MAX,
    ClientFailed,
    client_failures_named,
    error_words,
    new_producer,
)
from siltstone.runtime.clock import Clock

RECORDS_PER_TURN = 20
TURN_SECONDS = 0.01
"""2,000 records a second: enough for a pause of a partition to be seen to some milliseconds."""


class FlightSending:
    """Sends flights until ``stop``, in a thread, idempotently and to partitions chosen by the plane. A record is the
    flight's number, a space, and its line. ``answered``: number → (partition, offset)."""

    def __init__(
        self,
        bootstrap_servers: str,
        flights: Sequence[Flight],
        partitions: int,
        clock: Clock,
        *,
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        self._producer = new_producer(bootstrap_servers, seconds_max)
        self._flights = flights
        self._clock = clock
        self._seconds_max = seconds_max
        self._stopping = threading.Event()
        self._is_abandoned = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sending", daemon=True)
        self._last_answer_ms: dict[int, float] = {}
        self._pauses_ms = dict.fromkeys(range(partitions), 0.0)
        self.answered: dict[int, tuple[int, int]] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when everything that was sent is acknowledged. Raises ClientFailed."""
        self._stopping.set()
        self._thread.join()
        self.raise_failure()

    def abandon(self) -> None:
        """Ends the thread, whatever is not acknowledged yet."""
        self._is_abandoned = True
        self._stopping.set()
        self._thread.join()

    def raise_failure(self) -> None:
        """Raises ClientFailed if a record was refused."""
        if self._failure is not None:
            raise self._failure

    def pauses_ms(self) -> dict[int, float]:
        """Partition → its longest time without an acknowledgement since the last call, the present one included."""
        now_ms = self._clock.monotonic_ms()
        taken, self._pauses_ms = self._pauses_ms, dict.fromkeys(self._pauses_ms, 0.0)
        return {
            partition: max(pause_ms, now_ms - self._last_answer_ms.get(partition, now_ms))
            for partition, pause_ms in taken.items()
        }

    def answers_since(self, moment_ms: float) -> bool:
        """Returns whether every partition has acknowledged something since this moment of the monotonic clock."""
        return all(self._last_answer_ms.get(partition, 0.0) > moment_ms for partition in self._pauses_ms)

    def _run(self) -> None:
        try:
            with client_failures_named("to produce", self._seconds_max):
                for number in count():
                    if number % RECORDS_PER_TURN == 0 and (
                        self._stopping.is_set() or self._failure is not None
                    ):
                        break
                    self._send(number)
                    if number % RECORDS_PER_TURN == 0:
                        self._producer.poll(TURN_SECONDS)
                left = 0 if self._is_abandoned else self._producer.flush(self._seconds_max)
            if left and self._failure is None:
                self._failure = ClientFailed(
                    f"{left:,} records were not acknowledged within {self._seconds_max} s"
                )
        except Exception as failure:
            self._failure = self._failure or failure

    def _send(self, number: int) -> None:
        flight = self._flights[number % len(self._flights)]
        value = b"%d %s" % (number, flight.line)

        def delivered(error: object, message: object) -> None:
            self._delivered(number, error, message)

        while not self._stopping.is_set():
            try:
                self._producer.produce(
                    FLIGHTS_TOPIC,
                    value,
                    flight.tail_number,
                    timestamp=flight.departure_ms,
                    on_delivery=delivered,
                )
                return
            except BufferError:  # the queue of the client is full: wait for acknowledgements
                self._producer.poll(0.1)

    def _delivered(self, number: int, error: object, message: object) -> None:
        if error is not None:
            self._failure = self._failure or ClientFailed(f"a record was refused: {error_words(error)}")
            return
        partition, offset = message.partition(), message.offset()  # type: ignore[attr-defined]
        now_ms = self._clock.monotonic_ms()
        pause_ms = now_ms - self._last_answer_ms.get(partition, now_ms)
        self._pauses_ms[partition] = max(self._pauses_ms[partition], pause_ms)
        self._last_answer_ms[partition] = now_ms
        self.answered[number] = partition, offset
