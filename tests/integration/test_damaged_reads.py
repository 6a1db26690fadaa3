"""What real clients and commands meet where an object of a topic is damaged, truncated or missing."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

import siltstone
from oracles.java_artifacts import JavaArtifactsUnavailable
from oracles.java_clients import JavaClientFailed, java_failures, running_java_clients
from siltstone.kafka_client.failures import RecordsDamaged
from support.processes.cli import CLEAN
from support.scenarios import in_loop

TOPIC = "flights"
ROUND = 100
SECONDS_MAX = 60
PROGRAM = [sys.executable, "-c", "from siltstone.cli.main import main; main()"]
IS_DAMAGED = range(ROUND, 2 * ROUND)
"""The offsets that cannot be read."""


def flip(file: Path) -> None:
    """One bit in the first block."""
    raw = bytearray(file.read_bytes())
    raw[200] ^= 1
    file.write_bytes(raw)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], None]] = {"flipped": flip, "truncated": truncate, "deleted": Path.unlink}


class DamagedStore:
    """A running broker and a topic of three objects, the middle one of which is damaged."""

    def __init__(self, folder: Path, damage: Callable[[Path], None]) -> None:
        self.broker = siltstone.Broker(folder, settings={"broker.num_partitions": "1"})
        with self.broker:
            self._files = [self._round(folder, number) for number in range(3)]
        self.victim = self._files[1]
        self._intact = self.victim.read_bytes()
        damage(self.victim)
        self.broker.start()

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap_servers

    def _round(self, folder: Path, number: int) -> Path:
        before = set(folder.glob("**/objects/*"))
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for offset in range(number * ROUND, (number + 1) * ROUND):
            producer.produce(TOPIC, key=b"%d" % offset, value=b"record %d" % offset)
        assert producer.flush(SECONDS_MAX) == 0
        self.broker.flush()
        (file,) = set(folder.glob("**/objects/*")) - before
        return file

    def restore(self) -> None:
        self.victim.write_bytes(self._intact)

    def run(self, *words: object) -> "subprocess.CompletedProcess[str]":
        """``siltstone WORDS`` in a process of its own, which must end."""
        command = [*PROGRAM, *map(str, words), "--bootstrap", self.bootstrap]
        environment = {name: value for name, value in os.environ.items() if name not in CLEAN}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture(params=DAMAGES)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DamagedStore]:
    store = DamagedStore(tmp_path / "store", DAMAGES[request.param])
    yield store
    store.broker.stop()


@pytest.fixture
def missing(tmp_path: Path) -> Iterator[DamagedStore]:
    """One with a missing object, for what is the same whatever happened to the object."""
    store = DamagedStore(tmp_path / "store", Path.unlink)
    yield store
    store.broker.stop()


class Confluent:
    """A consumer that polls until something has happened."""

    def __init__(self, bootstrap: str, offset: int = 0) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": "false"}
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, offset)])
        self.offsets: list[int] = []

    def read(self, count: int) -> KafkaError | None:
        """Reads until it has ``count`` records; returns the error that ended it."""
        give_up = time.monotonic() + SECONDS_MAX
        while len(self.offsets) < count and time.monotonic() < give_up:
            if (error := self.poll()) is not None:
                return error
        assert len(self.offsets) == count
        return None

    def poll(self) -> KafkaError | None:
        message = self._consumer.poll(0.2)
        if message is not None and message.error():
            return message.error()
        if message is not None:
            self.offsets.append(message.offset())
        return None

    def close(self) -> None:
        self._consumer.close()


def test_librdkafka_gets_what_precedes_the_damage_then_an_error_and_all_of_it_when_it_is_restored(
    damaged: DamagedStore, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Confluent(damaged.bootstrap)
    error = consumer.read(3 * ROUND)
    assert error is not None and error.code() == 2 and error.name() == "INVALID_MSG"
    assert consumer.offsets == list(range(ROUND))
    statistics = damaged.broker.statistics().damage
    assert statistics.reads_refused >= 1 and statistics.offsets_skipped == 0
    line = next(one for one in caplog.records if "cannot be read" in one.getMessage())
    assert line.levelno == logging.ERROR
    for part in (f"{TOPIC}-0", "offsets 100 to 199", damaged.victim.name, "bucket 0", "run siltstone check"):
        assert part in line.getMessage()
    damaged.restore()
    while error is not None:  # those that were on their way
        error = consumer.read(3 * ROUND)
    assert consumer.offsets == list(range(3 * ROUND))
    consumer.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("bytes_max", [1, 1_000, 1 << 20])
def test_kafka_python_raises_an_error_and_can_seek_behind_the_damage(
    damaged: DamagedStore, bytes_max: int
) -> None:
    # Its import warns, and warnings are errors here.
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import CorruptRecordError

    consumer = KafkaConsumer(
        bootstrap_servers=damaged.bootstrap, enable_auto_commit=False, max_partition_fetch_bytes=bytes_max
    )
    partition = TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)

    def read(until: int) -> list[int]:
        offsets: list[int] = []
        give_up = time.monotonic() + SECONDS_MAX
        while (not offsets or offsets[-1] + 1 < until) and time.monotonic() < give_up:
            for records in consumer.poll(200).values():
                offsets += [record.offset for record in records]
        return offsets

    assert read(ROUND) == list(range(ROUND))
    with pytest.raises(CorruptRecordError):
        read(3 * ROUND)
    consumer.seek(partition, IS_DAMAGED.stop)
    assert read(3 * ROUND) == list(range(IS_DAMAGED.stop, 3 * ROUND))
    consumer.close()


@in_loop
async def test_aiokafka_logs_the_error_and_reads_on_when_the_object_is_restored(
    missing: DamagedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """It raises no error of a fetch but three; its log is where people look."""
    consumer = AIOKafkaConsumer(bootstrap_servers=missing.bootstrap, enable_auto_commit=False)
    await consumer.start()
    consumer.assign([partition := AioPartition(TOPIC, 0)])
    consumer.seek(partition, 0)
    offsets: list[int] = []

    async def read_until(is_enough: Callable[[], bool]) -> None:
        give_up = time.monotonic() + SECONDS_MAX
        while not is_enough() and time.monotonic() < give_up:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                offsets.extend(record.offset for record in records)

    await read_until(lambda: "CorruptRecord" in caplog.text)
    assert "CorruptRecord" in caplog.text and offsets == list(range(ROUND))
    missing.restore()
    await read_until(lambda: len(offsets) == 3 * ROUND)
    assert offsets == list(range(3 * ROUND))
    await consumer.stop()


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_the_java_client_raises_an_error(missing: DamagedStore) -> None:
    try:
        with running_java_clients(missing.bootstrap) as clients, clients.consumer() as consumer:
            partition = clients.topic_partition(TOPIC, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            assert [one.offset for one in clients.poll(consumer, ROUND, SECONDS_MAX)] == list(range(ROUND))
            with (
                pytest.raises(
                    JavaClientFailed, match=r"KafkaException: Encountered corrupt message.* offset 100"
                ),
                java_failures(),
            ):
                clients.poll(consumer, 1, SECONDS_MAX)
            consumer.seek(partition, IS_DAMAGED.stop)
            assert clients.poll(consumer, 1, SECONDS_MAX)[0].offset == IS_DAMAGED.stop
    except JavaArtifactsUnavailable as unavailable:
        pytest.skip(str(unavailable))


def test_a_topic_that_skips_damage_is_read_around_it_and_whole_when_it_is_restored(
    damaged: DamagedStore, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = damaged.run("topics", "configure", TOPIC, "siltstone.damaged.read=skip")
    assert outcome.returncode == 0, outcome.stderr
    consumer = Confluent(damaged.bootstrap)
    assert consumer.read(2 * ROUND) is None
    assert consumer.offsets == [offset for offset in range(3 * ROUND) if offset not in IS_DAMAGED]
    consumer.close()
    statistics = damaged.broker.statistics().damage
    assert statistics.reads_refused == 0 and statistics.reads_continued >= 1
    assert statistics.offsets_skipped == statistics.reads_continued * ROUND
    assert "read on at offset 200" in caplog.text
    damaged.restore()
    consumer = Confluent(damaged.bootstrap)
    assert consumer.read(3 * ROUND) is None
    assert consumer.offsets == list(range(3 * ROUND))
    consumer.close()


def test_tail_shows_what_precedes_the_damage_and_ends_with_an_error(damaged: DamagedStore) -> None:
    outcome = damaged.run("tail", TOPIC, "--from", "earliest", "--format", "raw")
    assert outcome.returncode == 1
    assert outcome.stdout.splitlines() == [f"record {offset}" for offset in range(ROUND)]
    (line,) = outcome.stderr.splitlines()
    assert f"partition {TOPIC}-0: the broker cannot read the record at offset 100" in line
    assert "CORRUPT_MESSAGE" in line and "siltstone.damaged.read=skip" in line


def test_a_keyed_view_and_the_table_end_with_an_error(missing: DamagedStore) -> None:
    with pytest.raises(RecordsDamaged, match="offset 100"):
        siltstone.KeyedView(missing.bootstrap, TOPIC).__enter__()
    outcome = missing.run("table", TOPIC)
    assert outcome.returncode == 1 and "offset 100" in outcome.stderr, outcome


def test_a_bucket_that_is_not_mounted_is_no_damage_and_nothing_is_skipped(
    missing: DamagedStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Its folder is empty. Skipping everything that is not there would lose every record for the consumer."""
    missing.restore()
    assert missing.run("topics", "configure", TOPIC, "siltstone.damaged.read=skip").returncode == 0
    bucket = missing.victim.parents[2]
    away = bucket.rename(bucket.with_name("away"))
    bucket.mkdir()
    consumer = Confluent(missing.bootstrap)
    give_up = time.monotonic() + SECONDS_MAX
    while "clients try again" not in caplog.text and time.monotonic() < give_up:
        assert consumer.poll() is None
    assert "partition flights-0 cannot be read at the moment, and clients try again" in caplog.text
    assert "mount the bucket again" in caplog.text
    assert consumer.offsets == []
    bucket.rmdir()
    away.rename(bucket)
    assert consumer.read(3 * ROUND) is None
    assert consumer.offsets == list(range(3 * ROUND))
    consumer.close()
