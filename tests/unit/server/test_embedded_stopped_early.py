"""``siltstone.Broker.stop`` while something hangs or is refused: it returns or raises in the promised time."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from siltstone.object_store.folder.store import FolderStore
from siltstone.object_store.port import StoreDenied
from siltstone.server import embedded
from siltstone.server.broker_thread import StoppedEarly
from siltstone.server.embedded import Broker
from siltstone.stream_engine.wal.log_directory import LogFile
from support.kafka.raw_calls import RawTopic, batch_of, create_topic, produce_request, produce_well
from support.kafka.raw_kafka import RawConnection, address_of

TESTS = Path(__file__).parents[2]
QUICK = {"network.close_time_limit_ms": "200", "engine.close_time_limit_ms": "300"}
PROMISED_SECONDS = 0.5
SLACK_SECONDS = 20.0
"""For a machine that is busy: what hangs here, hangs for half a minute or until the test ends."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    with closing(sqlite3.connect(folder / "metadata.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def with_one_record(broker: Broker) -> Iterator[Broker]:
    """Acknowledged, and not uploaded. At the end the threads of the broker have ended."""
    broker.start()
    thread = broker._thread()._thread
    with RawConnection(address_of(broker.bootstrap_servers)) as connection:
        produce_well(connection, create_topic(connection, "t"), batch_of())
    yield broker
    thread.join(60)
    assert not thread.is_alive()


def stopped_early(broker: Broker) -> StoppedEarly:
    began = time.monotonic()
    with pytest.raises(StoppedEarly) as early:
        broker.stop()
    assert time.monotonic() - began < PROMISED_SECONDS + SLACK_SECONDS
    assert "not running" in repr(broker)
    return early.value


def test_rule_12_stop_ends_in_time_while_the_metadata_are_locked(tmp_path: Path) -> None:
    with with_one_record(Broker(tmp_path, settings=QUICK)) as broker, locked(tmp_path):
        early = stopped_early(broker)
        assert not early.has_ended and "it did not end within 0.5 s" in str(early)
        assert early.log_bytes > 0 and early.log_folder == tmp_path / "wal" / "node-0"
        assert f"are only in the write-ahead log in {early.log_folder}; the next start uploads them" in str(
            early
        )
    with Broker(tmp_path) as broker:
        assert broker.statistics().engine.state == "RUNNING"


def test_rule_12_stop_says_what_a_refusing_bucket_did_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreDenied("the bucket is mounted read-only")

    with with_one_record(Broker(tmp_path, settings=QUICK)) as broker:
        monkeypatch.setattr(FolderStore, "put_if_absent", refuse)
        early = stopped_early(broker)
    assert early.has_ended and early.log_bytes > 0
    assert "the bucket is mounted read-only" in str(early)


def test_rule_12_stop_ends_in_time_while_the_disk_of_the_log_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, hangs = threading.Event(), threading.Event()

    def sync(_: LogFile) -> None:
        hangs.set()
        answers.wait(60)

    with with_one_record(Broker(tmp_path, settings=QUICK)) as broker:
        monkeypatch.setattr(LogFile, "sync", sync)
        with RawConnection(address_of(broker.bootstrap_servers)) as connection:
            connection.send(produce_request(RawTopic("t"), {0: batch_of()}), 9)
            assert hangs.wait(60)
            assert not stopped_early(broker).has_ended
        answers.set()


def test_a_temporary_broker_has_no_next_start_and_does_not_raise(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise StoreDenied("the bucket is mounted read-only")

    with with_one_record(Broker(settings=QUICK)) as broker:
        folder = broker.folder
        monkeypatch.setattr(FolderStore, "put_if_absent", refuse)
        broker.stop()
    assert not folder.exists()
    assert "a temporary folder is deleted with what it held" in caplog.text


PROGRAM = """
import sqlite3
import siltstone
from support.kafka.raw_calls import batch_of, create_topic, produce_well
from support.kafka.raw_kafka import RawConnection, address_of
broker = siltstone.Broker("store", settings={"network.close_time_limit_ms": "200", "engine.close_time_limit_ms": "300"})
broker.start()
with RawConnection(address_of(broker.bootstrap_servers)) as connection:
    produce_well(connection, create_topic(connection, "t"), batch_of())
other = sqlite3.connect("store/metadata.sqlite", isolation_level=None)
other.execute("BEGIN EXCLUSIVE")
try:
    broker.stop()
except Exception as early:
    print(type(early).__name__)
"""


def test_rule_12_the_program_ends_when_stop_has_abandoned_its_threads(tmp_path: Path) -> None:
    """A thread waits for the locked metadata for half a minute."""
    began = time.monotonic()
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout) == (0, "StoppedEarly\n"), done.stderr
    assert "Traceback" not in done.stderr and "Fatal" not in done.stderr, done.stderr
    assert time.monotonic() - began < embedded.EXIT_SECONDS_MAX + SLACK_SECONDS
