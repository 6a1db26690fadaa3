"""A JVM that dies under a service: in a process of its own, since it takes the Spark of that process with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.tried import RecordTried

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

TESTS = Path(__file__).parents[1]

PROGRAM = """
from pyspark import SparkContext
from siltstone.offline.tasks.runner import LateRunner
from siltstone.offline.tasks.runner import RunFailed
from siltstone.spark.spark_runner import open_runner
from support.spark.spark_tasks import double

late = LateRunner(lambda: open_runner("local[1]"))
first = late.start()
assert first.run(double, [b"1"]) == [b"11"] and late.start() is first
SparkContext._gateway.proc.kill()
SparkContext._gateway.proc.wait()
try:
    late._runner.run(double, [b"2"])
except Exception as failure:
    print("failed as", type(failure).__name__)
second = late.start()
assert second is not first
assert second.run(double, [b"3"]) == [b"33"]
late.close()
print("continued")
"""


def test_the_next_run_starts_another(tmp_path: Path, record_tried: RecordTried) -> None:
    record_tried("JVMs killed", 1)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout.splitlines() == ["failed as RunnerLost", "continued"], done.stderr
