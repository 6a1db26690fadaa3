"""Flink's exactly-once sink, whose job is killed with SIGKILL and restored from its newest checkpoint, several times:
readers of committed records get each number once. ``CRASH_SEED`` replays the moments."""

import random
import time
from pathlib import Path

import pytest

from oracles.java_artifacts import JavaArtifactsUnavailable
from oracles.java_programs import flink_numbers
from support.broker.broker_process import BrokerProcess, checked_store
from support.kafka.committed_values import CommittedValues, make_topics
from support.processes.ports import free_port
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.crash, pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(600)]
NUMBERS, PER_SECOND, KILLS = 6_000, 500, 3
SECONDS = 180


@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
def test_each_number_of_flink_is_committed_once(
    tmp_path: Path, naming: str, record_tried: RecordTried
) -> None:
    rng = random.Random(seed_of_this_run("CRASH_SEED"))
    with BrokerProcess(tmp_path / "store", port=free_port()) as broker:
        servers = broker.bootstrap_servers
        make_topics(servers, {"numbers": 3})
        try:
            job = flink_numbers(tmp_path, servers, NUMBERS, PER_SECOND, naming)
        except JavaArtifactsUnavailable as reason:
            pytest.skip(str(reason))
        with job, CommittedValues(servers, "numbers", lambda: job.log) as numbers:
            job.start()
            for kill in range(KILLS):
                numbers.wait_for(len(numbers.all) + 700)
                time.sleep(rng.uniform(0.0, 0.5))
                job.kill()
                if kill == 1:
                    broker.kill()
                    broker.start()
                job.start(newest_checkpoint(tmp_path / "checkpoints"))
            assert job.exit_status(SECONDS) == 0, job.log[-4_000:]
            numbers.wait_for(NUMBERS)
            numbers.read_to_the_end()
            assert sorted(map(int, numbers.values)) == list(range(NUMBERS))
        record_tried("kills of a job", KILLS)
        record_tried("numbers", NUMBERS)
        assert "Traceback" not in broker.log
    checked_store(tmp_path / "store")


def newest_checkpoint(folder: Path) -> str:
    """Returns the newest one that is complete, of all jobs that were started."""
    complete = [path.parent for path in folder.glob("*/chk-*/_metadata")]
    return str(max(complete, key=lambda path: (path.stat().st_mtime_ns, path.name)))
