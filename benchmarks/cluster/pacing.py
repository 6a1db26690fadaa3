"""A producer with a steady rate, to all partitions in turn, which notes the time of each answer: the longest time
without one is what a client feels of a move or a failover."""

import threading
import time
from collections import defaultdict
from itertools import pairwise

from confluent_kafka import KafkaError, Message, Producer

FLUSH_SECONDS_MAX = 120


class PacedSending:
    """Produces in a ``with``, whose end waits until everything is acknowledged. A record that is refused fails it."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, record_bytes: int, bytes_per_second: float
    ) -> None:
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 0, "log_level": 0,
            "topic.metadata.refresh.interval.ms": 1_000, "retry.backoff.ms": 50, "reconnect.backoff.max.ms": 200,
        })  # fmt: skip
        self._topic, self._partitions = topic, partitions
        self._payload = bytes(record_bytes)
        self._interval = record_bytes / bytes_per_second
        self.answered: dict[int, list[float]] = defaultdict(list)
        """Partition → the times of its answers, by ``time.monotonic``."""

        self._refused: list[KafkaError] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "PacedSending":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_SECONDS_MAX)
        assert not left and not self._refused, (left, self._refused[:3])

    def _run(self) -> None:
        due, number = time.monotonic(), 0
        while not self._ending.is_set():
            due += self._interval
            self._producer.poll(max(0.0, due - time.monotonic()))
            while True:
                try:
                    self._producer.produce(
                        self._topic, self._payload, partition=number % self._partitions, callback=self._told
                    )
                    break
                except BufferError:
                    self._producer.poll(0.05)
            number += 1

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(error)
        else:
            self.answered[message.partition()].append(time.monotonic())

    def wait_for_answers(self, since: float) -> None:
        """Waits until each partition has had an answer after ``since``."""
        deadline = time.monotonic() + FLUSH_SECONDS_MAX
        while not all(
            times[-1:] > [since]
            for times in (self.answered[partition] for partition in range(self._partitions))
        ):
            assert time.monotonic() < deadline, "a partition has no answers"
            time.sleep(0.01)

    def pause(self, partition: int, begin: float, end: float) -> float:
        """Returns the longest time without an answer of the partition between ``begin`` and ``end``, in seconds."""
        times = [at for at in self.answered[partition] if begin - 1 <= at <= end + 1]
        return max((after - before for before, after in pairwise(times)), default=end - begin)
