"""``siltstone serve`` in a process of its own, and what ends it."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from support.broker.broker_process import BrokerProcess, checked_store
from support.groups.raw_group import RawMember
from support.kafka.kafka_batches import bytes_of_records
from support.kafka.raw_calls import batch_of, create_topic, fetch_request, produce_well, read_all
from support.kafka.raw_kafka import RawConnection

SEALED_AT_ONCE = {"engine.upload.cache_block_bytes_max": "1", "retry.attempts_max": "1"}
SECONDS_MAX = 60
WAIT_MS = 50_000
END_SECONDS_MAX = 30
"""Less than what the fetches wait: measured is half a second."""


def test_a_broker_goes_on_while_its_bucket_refuses_and_uploads_when_it_grants_again(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with BrokerProcess(folder, SEALED_AT_ONCE) as broker:
        with RawConnection(broker.address) as connection:
            topic = create_topic(connection, "t")
            with refusing(folder / "bucket"):
                for _ in range(3):
                    produce_well(connection, topic, batch_of())
                wait_until(lambda: "cannot upload to" in broker.log)
                assert len(read_all(connection, topic)) == 3
            wait_until(lambda: "uploads to" in broker.log and "again, after" in broker.log)
        assert broker.stop() == 0
        complaint = next(line for line in broker.log.splitlines() if "cannot upload to" in line)
        assert (folder / "bucket").as_uri() in complaint and "permission to write" in complaint
    assert "clean" in checked_store(folder)


def test_op05_sighup_names_the_settings_that_have_changed_and_the_broker_stays(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with BrokerProcess(folder) as broker, RawConnection(broker.address) as connection:
        (folder / "siltstone.toml").write_text("[engine.wal]\nsegment_bytes = '32MiB'\n")
        broker.signal(signal.SIGHUP)
        wait_until(lambda: "taken by the next one: engine.wal.segment_bytes" in broker.log)
        (folder / "siltstone.toml").write_text("[engine.wal]\nno_such = 1\n")
        broker.signal(signal.SIGHUP)
        wait_until(lambda: "the next start would be refused" in broker.log)
        produce_well(connection, create_topic(connection, "t"), batch_of())
        assert broker.stop() == 0


def test_op05_a_settings_file_that_does_not_answer_holds_nothing_and_two_sighups_keep_their_order(
    tmp_path: Path,
) -> None:
    """The file is a pipe: who reads it waits until the test writes, as on a disk that hangs."""
    folder = tmp_path / "store"
    with BrokerProcess(folder) as broker, RawConnection(broker.address) as connection:
        file = folder / "siltstone.toml"
        os.mkfifo(file)
        broker.signal(signal.SIGHUP)
        topic = create_topic(connection, "t")
        produce_well(connection, topic, batch_of())
        broker.signal(signal.SIGHUP)
        produce_well(connection, topic, batch_of())
        file.write_text("[engine.wal]\nsegment_bytes = '32MiB'\n")
        wait_until(lambda: "SIGHUP: " in broker.log)
        file.write_text("[admin]\nlisteners = '127.0.0.1:1'\n")
        wait_until(lambda: broker.log.count("SIGHUP: ") == 2)
        first, second = (line for line in broker.log.splitlines() if "SIGHUP: " in line)
        assert first.endswith("engine.wal.segment_bytes") and second.endswith("admin.listeners")
        broker.signal(signal.SIGHUP)
        produce_well(connection, topic, batch_of())
        assert broker.stop() == 0, "a reading that hangs keeps no broker from its end"


@pytest.mark.nightly(tried="starts")
def test_a_broker_starts_while_its_bucket_refuses_reads_its_log_and_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with BrokerProcess(folder) as broker:
        with RawConnection(broker.address) as connection:
            topic = create_topic(connection, "t")
            produce_well(connection, topic, batch_of())
        broker.kill()
        with refusing(folder / "bucket"):
            for known in (1, 2):
                broker.start()
                with RawConnection(broker.address) as connection:
                    assert len(read_all(connection, topic)) == known
                    produce_well(connection, topic, batch_of())
                    assert len(read_all(connection, topic)) == known + 1
                broker.kill()
            assert "The node starts all the same" in broker.log
        broker.start()
        with RawConnection(broker.address) as connection:
            assert len(read_all(connection, topic)) == 3
        assert broker.stop() == 0
    assert "clean" in checked_store(folder)


@contextmanager
def refusing(bucket: Path) -> Iterator[None]:
    """Every put is refused, because a file stands where its folder would be made; what is there can be read."""
    obstacles = [bucket / f"{number:02x}" for number in range(256)]
    obstacles = [path for path in obstacles if not path.exists()]
    for path in obstacles:
        path.write_text("in the way")
    try:
        yield
    finally:
        for path in obstacles:
            path.unlink()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_broker_with_nothing_to_do_ends_when_its_metadata_cannot_be_followed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "store") as broker:
        metadata = tmp_path / "store" / "metadata.sqlite"
        with closing(sqlite3.connect(metadata)) as connection, connection:
            connection.execute("INSERT INTO entries SELECT max(version) + 1, x'00' FROM entries")
        assert_ends(broker)
        assert broker.stop() == 1
        last_line = broker.log.splitlines()[-1]
        assert last_line.startswith("siltstone: the stream engine failed: the metadata service failed: ")


def test_only_its_user_may_read_the_metadata_and_the_write_ahead_log_of_a_broker(tmp_path: Path) -> None:
    """Objects have the mode that the umask leaves: Spark executors may run as another user."""
    folder = tmp_path / "store"
    before = os.umask(0o022)
    try:
        with BrokerProcess(folder, SEALED_AT_ONCE) as broker:
            with RawConnection(broker.address) as connection:
                produce_well(connection, create_topic(connection, "t"), batch_of())
            private = private_files(folder)
            assert {path.name for path in private} >= {
                "metadata.sqlite", "metadata.sqlite-wal", "metadata.sqlite-shm", "LOCK", "identity.json",
                "00000000000000000000.wal",
            }  # fmt: skip
            assert {mode_of(path) for path in private} == {0o600}
            assert mode_of(folder / "wal" / "node-0") == 0o700
            for path in private:
                path.chmod(0o644)
            broker.kill()
            broker.start()
            assert {mode_of(path) for path in private_files(folder)} == {0o600}
            assert f"{folder / 'metadata.sqlite'} was open to other users of this machine" in broker.log
        objects = [path for path in (folder / "bucket").rglob("*") if path.is_file()]
        assert objects
        assert {mode_of(path) for path in objects} == {0o644}
    finally:
        os.umask(before)


def private_files(folder: Path) -> list[Path]:
    return [
        path for path in (*folder.glob("metadata.sqlite*"), *(folder / "wal").rglob("*")) if path.is_file()
    ]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def assert_ends(broker: BrokerProcess) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while broker.is_alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not broker.is_alive


def test_nobody_who_waits_keeps_a_broker_from_ending(tmp_path: Path) -> None:
    """A fetch and a consumer wait for records, a member for the others of its group."""
    at_once = {"groups.group_initial_rebalance_delay_ms": "0"}
    with BrokerProcess(tmp_path / "store", at_once) as broker, ExitStack() as opened:
        fetching, joining = (opened.enter_context(RawConnection(broker.address)) for _ in range(2))
        topic = create_topic(fetching, "t")
        produce_well(fetching, topic, batch_of())
        opened.enter_context(idle_consumer(broker))
        fetching.send(fetch_request(topic, {0: 1}, wait_ms=WAIT_MS), 12)
        RawMember(joining, "g").begin_join()
        assert not joining.has_answer_within(0.3)
        begun = time.monotonic()
        assert broker.stop(END_SECONDS_MAX) == 0
        assert time.monotonic() - begun < END_SECONDS_MAX
        (row,) = fetching.receive().topics[0].partitions
        assert (row.error_code, row.high_watermark, bytes_of_records(row)) == (0, 1, b"")
        assert joining.receive().error_code == ErrorCode.NOT_COORDINATOR


CONSUMER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({
    "bootstrap.servers": sys.argv[1], "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0,
    "fetch.wait.max.ms": int(sys.argv[2]), "partition.assignment.strategy": "range",
})
consumer.subscribe(["t"])
print(consumer.consume(1, 60)[0].value(), flush=True)
consumer.poll(60)
"""


@contextmanager
def idle_consumer(broker: BrokerProcess) -> Iterator[None]:
    """Of group "g" and topic "t", when it has read one record. Killed: to close it would wait for a broker."""
    host, port = broker.address
    command = [sys.executable, "-c", CONSUMER, f"{host}:{port}", f"{WAIT_MS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            yield
        finally:
            process.kill()
