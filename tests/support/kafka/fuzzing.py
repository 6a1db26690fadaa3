"""A broker in a process of its own that is sent what no client would send, and is watched meanwhile.

``Siege`` is the broker with three witnesses, each a thread with connections of its own: a prober (is the event loop
turning), a producer that behaves (is what was acknowledged there at the end) and an eye on its memory. A test sends
whatever it likes through ``RawConnection`` and ends with ``Siege.assert_unharmed``.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from types import MappingProxyType

from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from support.broker.broker_process import BrokerProcess, checked_store
from support.kafka.raw_calls import RawTopic, create_topic, new_producer, produce_well, read_all
from support.kafka.raw_kafka import ConnectionClosed, RawConnection

MEBIBYTE = 1 << 20
SETTINGS = {
    "engine.wal.sync": "never",
    "engine.tail_cache_bytes_max": str(64 * MEBIBYTE),
    "engine.waiting_bytes_max": str(32 * MEBIBYTE),
    "engine.append_bytes_max": str(8 * MEBIBYTE),
    "engine.upload.cache_block_bytes_max": str(16 * MEBIBYTE),
    "groups.group_initial_rebalance_delay_ms": "0",
    "groups.groups_bytes_max": str(32 * MEBIBYTE),
    "network.socket_request_max_bytes": str(8 * MEBIBYTE),
    "network.queued_max_request_bytes": str(32 * MEBIBYTE),
    "network.answer_bytes_max": str(64 * MEBIBYTE),
}
"""Limits so low that whatever passes them is seen."""

STALL_S_MAX = 1.0
STARVED_S_MAX = 20.0
RESIDENT_BYTES_MAX = 600 * MEBIBYTE
"""The sum of the limits above, three times; the process itself takes 60 MiB."""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
GOOD = "good"


class Siege:
    """Watches the broker in a ``with``. ``note`` says what is being sent: it is named when a fault is found."""

    def __init__(
        self,
        folder: Path,
        *,
        resident_bytes_max: int = RESIDENT_BYTES_MAX,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._folder = folder / "store"
        self._resident_bytes_max = resident_bytes_max
        self._broker = BrokerProcess(self._folder, {**SETTINGS, **settings})
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self._acknowledged: dict[int, bytes] = {}
        self._good = RawTopic(GOOD)
        self.found: list[str] = []
        self.worst_stall_s = 0.0
        self.most_resident_bytes = 0
        self.note = "nothing yet"

    def __enter__(self) -> "Siege":
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._broker.start()
        with self.connect() as connection:
            self._good = create_topic(connection, GOOD)
        for witness in (self._probe, self._produce, self._look_at_memory):
            thread = threading.Thread(target=self._witness, args=(witness,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._end_witnesses()
        self._broker.stop()

    def connect(self, timeout_s: float = 10.0) -> RawConnection:
        return RawConnection(self._broker.address, timeout_s=timeout_s)

    @property
    def is_unharmed_so_far(self) -> bool:
        return not self.found and self._broker.is_alive

    def assert_unharmed(self) -> None:
        """The broker has lived on, answered in time, stayed within its memory, ends by itself, and its store holds
        exactly what it acknowledged."""
        with self.connect() as connection:
            self._end_witnesses()
            assert self._broker.is_alive, f"it died of {self.note}: {self._broker.log}"
            assert not self.found, self.found
            connection.assert_alive()
            there = {record.offset: bytes(record.value or b"") for record in read_all(connection, self._good)}
            assert there == self._acknowledged
            assert len(there) > 5
        assert self._broker.stop() == 0, f"it did not end by itself: {self._broker.log}"
        assert "Traceback" not in self._broker.log, self._broker.log
        checked_store(self._folder)

    def _end_witnesses(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    # -- witnesses ---------------------------------------------------------------------------------------

    def _witness(self, watch: Callable[[], None]) -> None:
        try:
            watch()
        except Exception as failure:
            self.found.append(f"{watch.__name__}: {failure!r}, with {self.note}")

    def _probe(self) -> None:
        """On a busy machine everything is late, so only the time counts that the event loop itself used."""
        with self.connect(timeout_s=STARVED_S_MAX) as connection:
            while not self._ending.wait(0.01):
                note, began, worked_s = self.note, time.monotonic(), self._processor_s()
                connection.ask(ApiVersionsRequest(), 0)
                stall_s = min(time.monotonic() - began, self._processor_s() - worked_s)
                self.worst_stall_s = max(self.worst_stall_s, stall_s)
                if stall_s > STALL_S_MAX:
                    self.found.append(f"nobody was answered for {stall_s:.1f} s: {note}")

    def _processor_s(self) -> float:
        """The processor time of the broker's event loop, in seconds. That is the main thread; the others may be busy
        for long, with an upload for instance, and hold nobody up."""
        process_id = self._broker.process_id
        status = Path(f"/proc/{process_id}/task/{process_id}/stat").read_text()
        fields = status.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def _produce(self) -> None:
        with self.connect() as connection:
            producer_id, epoch = new_producer(connection)
            sequence = 0
            while not self._ending.wait(0.02):
                values = [f"{sequence + index} {'x' * 200}".encode() for index in range(3)]
                batch = build_batch(
                    [Record(timestamp_ms=1_700_000_000_000, key=b"k", value=value) for value in values],
                    producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
                )  # fmt: skip
                (base_offset,) = produce_well(connection, self._good, batch)
                self._acknowledged |= {base_offset + index: value for index, value in enumerate(values)}
                sequence += len(values)

    def _look_at_memory(self) -> None:
        while not self._ending.wait(0.05):
            resident_bytes = self._broker.resident_bytes
            self.most_resident_bytes = max(self.most_resident_bytes, resident_bytes)
            if resident_bytes > self._resident_bytes_max:
                self.found.append(f"{resident_bytes // MEBIBYTE} MiB resident: {self.note}")
                return


class Burst:
    """The frames that one connection sends in one go. They follow from the seed and the number, so that each can be
    sent again."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = Random(f"{seed}/{number}")
        self.number = number

    def __str__(self) -> str:
        return f"burst {self.number}"


def read_a_little(connection: RawConnection, seconds: float) -> None:
    """Answers, if there are any; whether the connection lives on is all the same."""
    with suppress(ConnectionClosed, OSError):
        if connection.has_answer_within(seconds):
            connection.receive_frame()
