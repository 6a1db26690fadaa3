"""A broker killed with SIGKILL at each step of a relay, and while the records are on their way. It is started
again before the driver goes on, or up to three seconds after. The topic has each record once, and a consumer that reads
meanwhile gets each offset once, without a gap. ``CRASH_SEED`` replays the moments."""

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, TopicPartition

from siltstone.metadata.sinks import SinkState
from support.broker.broker_process import BrokerProcess, checked_store
from support.maintenance.sink_process import ROWS, SinkProcess, numbers
from support.maintenance.sinks import QUIET, STEPS, Sink, create
from support.processes.ports import free_port
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.crash, pytest.mark.nightly, pytest.mark.timeout(1_200)]

PARTITIONS = 2
FLIGHTS = 8
ROWS_IN_FLIGHT = 40_000
"""Enough that the relay of a batch takes some tenths of a second."""


class Reading:
    """A consumer that reads a topic from its beginning, through all restarts of the broker."""

    def __init__(self, address: str) -> None:
        self.found: list[tuple[int, int, bytes]] = []
        """Partition, offset and value of each message, in the order in which it came."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(address,))
        self._thread.start()

    def _read(self, address: str) -> None:
        consumer = Consumer(
            {"bootstrap.servers": address, "group.id": "reading", "enable.auto.commit": False, **QUIET}
        )
        consumer.assign([TopicPartition("t", number, 0) for number in range(PARTITIONS)])
        while not self._is_over.is_set():
            for message in consumer.consume(1_000, 0.2):
                if message.error() is None:
                    self.found.append((message.partition(), message.offset(), message.value()))
        consumer.close()

    def end(self, count: int) -> list[bytes]:
        """Waits for ``count`` messages, and a moment for more. Returns the values, sorted."""
        deadline = time.monotonic() + 120
        while len(self.found) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)
        self.stop()
        for number in range(PARTITIONS):
            offsets = [offset for partition, offset, _ in self.found if partition == number]
            assert offsets == list(range(len(offsets))), "neither a gap nor an offset twice"
        return sorted(value for _, _, value in self.found)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


class Batch(msgspec.Struct, frozen=True):
    """How the broker is killed during a batch: the driver waits at ``step``, or has gone on from it for ``flight_s``
    seconds. If ``is_back_first``, the broker is started again before the driver goes on."""

    step: str
    is_back_first: bool
    flight_s: float = 0.0
    count: int = ROWS


class Relays:
    """Batches of one sink, each with a broker that is killed meanwhile."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.driver = SinkProcess(folder)
        self.broker = BrokerProcess(self.driver.store, port=free_port())
        self.expected: list[int] = []
        self.resumed = 0
        self._chance = random.Random(seed)
        self._sink = Sink(self.driver.store, "t")

    def play(self, number: int, batch: Batch) -> None:
        first, driver = 1_000_000 * number, self.driver
        process = driver.start(number, first, "relay", waits_at=batch.step, count=batch.count)
        driver.wait_until_reached(process)
        if batch.flight_s:
            driver.go.touch()
            time.sleep(batch.flight_s)
        self.broker.kill()
        if batch.is_back_first:
            self.broker.start()
            driver.go.touch()
        else:
            driver.go.touch()
            time.sleep(self._chance.uniform(0, 3))
            self.broker.start()
        status = process.wait(300)
        assert status == 0 or "siltstone." in driver.log, (batch, status, driver.log)
        standing = self._sink.standing()
        has_begun = standing is not None and standing.batch_id == number
        assert has_begun or status, batch
        self.resumed += has_begun and status != 0
        again = first + 500_000
        repeated = driver.start(number, again, None, count=batch.count)
        assert repeated.wait(300) == 0, (batch, driver.log)
        assert self._sink.state() is SinkState.DONE, batch
        begin = first if has_begun else again
        self.expected += range(begin, begin + batch.count)


def play_all(folder: Path, seed: int, batches: Sequence[Batch], record_tried: RecordTried) -> None:
    relays = Relays(folder, seed)
    with relays.broker as broker:
        create(broker.bootstrap_servers, "t", PARTITIONS)
        reading = Reading(broker.bootstrap_servers)
        try:
            for number, batch in enumerate(batches):
                relays.play(number, batch)
            assert reading.end(len(relays.expected)) == numbers(relays.expected)
        finally:
            reading.stop()
    checked_store(relays.driver.store)
    record_tried("kills of a broker", len(batches))
    record_tried("batches that another driver finished", relays.resumed)


@pytest.mark.parametrize("step", STEPS["relay"])
def test_sw6_a_broker_killed_at_a_step_of_a_relay(
    tmp_path: Path, record_tried: RecordTried, step: str
) -> None:
    batches = [Batch(step, is_back_first=first) for first in (True, False)]
    play_all(tmp_path, seed_of_this_run("CRASH_SEED"), batches, record_tried)


def test_sw6_a_broker_killed_while_the_records_are_on_their_way(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    seed = seed_of_this_run("CRASH_SEED")
    chance = random.Random(seed)
    flights = [
        Batch("relaying", chance.random() < 0.5, chance.uniform(0.01, 0.4), ROWS_IN_FLIGHT)
        for _ in range(FLIGHTS)
    ]
    play_all(tmp_path, seed, flights, record_tried)
