"""The disk of a broker's log is full: appends are answered with error 56, reads go on, and the broker comes back."""

import errno
import http.client
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import siltstone
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.server.broker_thread import StoppedEarly
from siltstone.server.kafka_node import KafkaNode
from siltstone.stream_engine.wal import log_directory
from support.faults.small_disk import SmallDisk, why_not_mounted
from support.kafka.quiet_client import QUIET
from support.kafka.raw_calls import (
    RawTopic,
    batch_of,
    create_topic,
    new_producer,
    produce,
    read_all,
    sequenced,
)
from support.kafka.raw_kafka import RawConnection

pytestmark = pytest.mark.faults

SECONDS_MAX = 60


def settings(log: Path) -> dict[str, str]:
    return {
        "admin.listeners": "127.0.0.1:0", "wal_folder": str(log), "engine.wal.segment_bytes": "256KiB",
        "engine.upload.cache_block_age_ms_max": "1h", "engine.upload.cache_block_bytes_max": "100MiB",
    }  # fmt: skip


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if reason := why_not_mounted():
        pytest.skip(reason)
    with SmallDisk(tmp_path / "disk", "4m") as made:
        yield made


def address_of(broker: siltstone.Broker) -> tuple[str, int]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return host, int(port)


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class FullBroker:
    """A broker whose log is on a disk of its own, and its clients."""

    def __init__(self, broker: siltstone.Broker, disk: SmallDisk) -> None:
        self.broker = broker
        self.disk = disk
        self.config = {"bootstrap.servers": broker.bootstrap_servers, **QUIET}

        async def address(node: KafkaNode) -> str:
            assert node.admin is not None
            return node.admin.urls[0].partition("://")[2]

        self.admin = broker._thread().ask(address)
        self.connection = RawConnection(address_of(broker))
        self.topic: RawTopic = create_topic(self.connection, "t", 2)

    def readiness(self) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.admin, timeout=SECONDS_MAX)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def produce_until_refused(self) -> int:
        """Returns how many records of partition 1 were acknowledged."""
        taken = 0
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            row = produce(self.connection, self.topic, batch_of(value_bytes=20_000), partition=1)
            if row.error_code:
                assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR == 56
                return taken
            taken += 1
        raise AssertionError("the disk is not full")

    def read(self, partition: int) -> list[bytes | None]:
        consumer = Consumer({**self.config, "group.id": "readers", "auto.offset.reset": "earliest"})
        _, end = consumer.get_watermark_offsets(TopicPartition("t", partition), timeout=SECONDS_MAX)
        consumer.assign([TopicPartition("t", partition, 0)])
        found: list[bytes | None] = []
        while len(found) < end:
            message = consumer.poll(SECONDS_MAX)
            assert message is not None and message.error() is None
            found.append(message.value())
        consumer.close()
        return found


def test_op03_appends_are_answered_with_56_reads_go_on_and_the_broker_comes_back(
    tmp_path: Path, disk: SmallDisk
) -> None:
    with siltstone.Broker(tmp_path / "store", settings=settings(disk.folder / "log")) as broker:
        full = FullBroker(broker, disk)
        producer = Producer({**full.config, "enable.idempotence": True, "message.timeout.ms": 120_000})
        delivered: list[int] = []
        sent = 0

        def send(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                producer.produce(
                    "t", str(sent), partition=0, on_delivery=lambda error, _: delivered.append(error is None)
                )
                sent += 1

        send(50)
        assert producer.flush(SECONDS_MAX) == 0
        fenced = new_producer(full.connection)
        assert produce(full.connection, full.topic, sequenced(fenced, 0), partition=1).error_code == 0
        disk.fill()
        taken = full.produce_until_refused()
        status, text = full.readiness()
        assert status == 503 and "appends are refused" in text and "free some space" in text
        for _ in range(3):
            again = produce(
                full.connection, full.topic, sequenced(fenced, 1, value_bytes=20_000), partition=1
            )
            assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert full.read(0) == [str(number).encode() for number in range(50)]
        assert len(full.read(1)) == taken + 1
        send(50)
        producer.poll(1)
        disk.empty()
        until(lambda: full.readiness()[0] == 200, "ready again")
        row = produce(full.connection, full.topic, sequenced(fenced, 1, value_bytes=20_000), partition=1)
        assert (row.error_code, row.base_offset) == (0, taken + 1), "no sequence was used up, and no offset"
        send(50)
        assert producer.flush(SECONDS_MAX * 2) == 0
        assert delivered == [True] * 150
        assert full.read(0) == [str(number).encode() for number in range(150)], "each once, and in order"
        full.connection.close()


def test_op03_what_was_acknowledged_is_there_when_the_broker_is_killed_on_a_full_disk(
    tmp_path: Path, disk: SmallDisk
) -> None:
    with siltstone.Broker(tmp_path / "store", settings=settings(disk.folder / "log")) as broker:
        full = FullBroker(broker, disk)
        assert produce(full.connection, full.topic, batch_of(), partition=1).error_code == 0
        disk.fill()
        taken = full.produce_until_refused() + 1
        broker.kill()
        disk.empty()
        broker.restart()
        assert len(full.read(1)) == taken
        full.connection.close()


def test_op03_a_sync_that_fails_still_ends_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason: a disk that says that it is full at a sync has lost what it had taken."""

    class UnsyncedOs:
        is_full = False

        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def fdatasync(self, descriptor: int) -> None:
            if self.is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fdatasync(descriptor)

    unsynced = UnsyncedOs()
    with pytest.raises(StoppedEarly, match="the write-ahead log cannot be written"):  # noqa: SIM117
        with siltstone.Broker(tmp_path / "store") as broker, RawConnection(address_of(broker)) as connection:
            topic = create_topic(connection, "t", 1)
            assert produce(connection, topic, batch_of()).error_code == 0
            monkeypatch.setattr(log_directory, "os", unsynced)
            unsynced.is_full = True
            row = produce(connection, topic, batch_of())
            assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert broker.statistics().engine.state == "FAILED"
            unsynced.is_full = False
    with siltstone.Broker(tmp_path / "store") as broker, RawConnection(address_of(broker)) as connection:
        assert len(read_all(connection, topic)) in (1, 2), "what was acknowledged, and perhaps what was not"
