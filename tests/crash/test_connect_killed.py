"""Kafka Connect with ``exactly.once.source.support``: its connector reads a file that grows, and its worker is killed
with SIGKILL and started again, several times. Readers of committed records get each line once, in order. ``CRASH_SEED``
replays the moments."""

import random
import threading
import time
from pathlib import Path

import pytest

from oracles.java_artifacts import JavaArtifactsUnavailable
from oracles.java_programs import connect_worker
from oracles.kafka_connect import put_connector, worker_properties
from support.broker.broker_process import BrokerProcess, checked_store
from support.kafka.committed_values import CommittedValues, make_topics
from support.processes.ports import free_ports
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.crash, pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(600)]
KILLS = 4
SECONDS = 120


def connector(file: Path) -> dict[str, str]:
    """``batch.size`` stays 2,000: with a smaller one, the connector keeps what it has read beyond it until the file
    grows again."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": "lines",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }


class GrowingFile:
    """Gets 200 lines a second, until ``end``, which returns how many there are."""

    def __init__(self, path: Path) -> None:
        self._path, self._lines = path, 0
        path.touch()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        with self._path.open("a") as file:
            while not self._is_over.wait(0.05):
                file.write("".join(f"{number}\n" for number in range(self._lines, self._lines + 10)))
                file.flush()
                self._lines += 10

    def end(self) -> int:
        self._is_over.set()
        self._thread.join()
        return self._lines


def test_each_line_of_connect_is_committed_once(tmp_path: Path, record_tried: RecordTried) -> None:
    rng = random.Random(seed_of_this_run("CRASH_SEED"))
    port, rest_port = free_ports(2)
    with BrokerProcess(tmp_path / "store", port=port) as broker:
        servers = broker.bootstrap_servers
        make_topics(servers, {"lines": 1})
        try:
            worker = connect_worker(tmp_path, worker_properties(servers, rest_port))
        except JavaArtifactsUnavailable as reason:
            pytest.skip(str(reason))
        with worker, CommittedValues(servers, "lines", lambda: worker.log) as lines:
            worker.start()
            file = GrowingFile(tmp_path / "lines.txt")
            put_connector(rest_port, "file", connector(tmp_path / "lines.txt"))
            for kill in range(KILLS):
                lines.wait_for(len(lines.all) + 200)
                time.sleep(rng.uniform(0.0, 0.5))
                worker.kill()
                if kill == 1:
                    broker.kill()
                    broker.start()
                worker.start()
            count = file.end()
            lines.wait_for(count)
            assert worker.is_alive, worker.log[-4_000:]
            assert worker.stop(SECONDS) is not None
            lines.read_to_the_end()
            assert lines.values == [str(number) for number in range(count)]
        record_tried("kills of a worker", KILLS)
        record_tried("lines", count)
        assert "Traceback" not in broker.log
    checked_store(tmp_path / "store")
