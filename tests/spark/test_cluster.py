"""A job on a real cluster while its workers and executors are killed: the result is that of an undisturbed run. By day
``test_compaction_on_cluster`` has the same kills, with a compaction as the job."""

import hashlib
import json
from pathlib import Path

import pytest

from support.processes.tried import RecordTried
from support.spark.held_tasks import Gate
from support.spark.spark_cluster import DRIVER_SETTINGS, SparkCluster, start_driver, wait_until
from support.spark.spark_tasks import write_file

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(900)]

DRIVER = """
import json, sys
from pathlib import Path
from siltstone.spark.spark_runner import open_runner
from support.spark.held_tasks import HoldingRunner
from support.spark.spark_tasks import write_file
master, folder, settings, units = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
runner = HoldingRunner(open_runner(master, settings), Path(folder))
print(json.dumps([result.decode() for result in runner.run(write_file, [unit.encode() for unit in units])]))
runner.close()
"""


def digests(folder: Path) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())]


def test_killed_workers_and_executors_change_nothing(
    tmp_path: Path, spark_cluster: SparkCluster, record_tried: RecordTried
) -> None:
    disturbed, undisturbed, gate = tmp_path / "disturbed", tmp_path / "undisturbed", Gate(tmp_path / "gate")
    for folder in (disturbed, undisturbed):
        folder.mkdir()
    expected = [write_file(str(undisturbed / str(number)).encode()).decode() for number in range(4)]
    units = [str(disturbed / str(number)) for number in range(4)]

    driver = start_driver(
        DRIVER, spark_cluster.master, str(gate.folder), json.dumps(DRIVER_SETTINGS), json.dumps(units)
    )
    held = wait_until(
        lambda: len(gate.held_pids()) >= 2 and gate.held_pids(), "a task on each worker is held"
    )
    assert spark_cluster.executor_of(held[0]).pid != spark_cluster.executor_of(held[1]).pid
    spark_cluster.kill_python_worker(held[0])
    wait_until(lambda: len(gate.held_pids()) >= 3, "the killed worker's unit is attempted again")
    spark_cluster.kill_executor_of(held[1])
    wait_until(lambda: len(gate.held_pids()) >= 4, "the killed executor's unit is attempted again")
    gate.open()
    output, errors = driver.communicate(timeout=600)

    assert errors == ""
    assert json.loads(output) == expected
    assert digests(disturbed) == digests(undisturbed)
    assert len(gate.held_pids()) >= 4
    record_tried("kills", 2)
