"""Kafka Streams with ``exactly_once_v2``, killed with SIGKILL and started again, several times, and the broker once: a
word count by way of a repartition topic and a store with a changelog. For readers of committed records the counts of
each word are exactly 1, 2, … n. ``CRASH_SEED`` replays the moments."""

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from oracles.java_artifacts import JavaArtifactsUnavailable
from oracles.java_programs import word_count
from support.broker.broker_process import BrokerProcess, checked_store
from support.kafka.committed_values import CommittedValues, make_topics
from support.kafka.quiet_client import QUIET
from support.processes.ports import free_port
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.crash, pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(600)]
WORDS = [f"word-{number}" for number in range(12)]
KILLS = 4
SECONDS = 120


def test_tg19_the_counts_of_streams_are_exact(tmp_path: Path, record_tried: RecordTried) -> None:
    rng = random.Random(seed_of_this_run("CRASH_SEED"))
    with BrokerProcess(tmp_path / "store", port=free_port()) as broker:
        servers = broker.bootstrap_servers
        try:
            program = word_count(tmp_path, servers)
        except JavaArtifactsUnavailable as reason:
            pytest.skip(str(reason))
        make_topics(servers, {"lines": 3, "counts": 3})
        lines = Lines(servers, rng)
        with program, CommittedValues(servers, "counts", lambda: program.log) as counts:
            program.start()
            for kill in range(KILLS):
                counts.wait_for(len(counts.all) + 1_000)
                time.sleep(rng.uniform(0.0, 0.5))  # in the middle of its transactions
                program.kill()
                if kill == 1:
                    broker.kill()
                    broker.start()
                program.start()
            expected = lines.end()
            counts.wait_for(expected.total())
            assert program.is_alive, program.log
            assert program.stop(SECONDS) is not None
            counts.read_to_the_end()
            assert counts.by_key() == {
                word: [str(number + 1) for number in range(expected[word])] for word in expected
            }
        record_tried("kills of Streams", KILLS)
        record_tried("counts", expected.total())
        assert "Traceback" not in broker.log
    checked_store(tmp_path / "store")


class Lines:
    """Lines of random words come, 1,000 words a second, until ``end``, which returns how often each word came."""

    def __init__(self, servers: str, rng: random.Random) -> None:
        self._rng = random.Random(rng.random())
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, **QUIET})
        self._sent: Counter[str] = Counter()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._is_over.wait(0.05):
            for _ in range(10):
                line = self._rng.choices(WORDS, k=5)
                self._sent.update(line)
                self._producer.produce("lines", " ".join(line))
            self._producer.poll(0)

    def end(self) -> Counter[str]:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(SECONDS) == 0
        return self._sent
