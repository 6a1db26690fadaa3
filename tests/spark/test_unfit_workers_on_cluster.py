"""A team's own session on a standalone cluster whose Python lacks siltstone: the commonest mistake there is."""

import json
from pathlib import Path

import pytest

from support.engine.small_store import small_store
from support.processes.cli import run
from support.processes.tried import RecordTried
from support.spark.other_pythons import bare_python
from support.spark.spark_cluster import DRIVER_SETTINGS, SparkCluster, start_driver

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(300)]

DRIVER = """
import json, os, sys
master, folder, settings, python = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
from siltstone.spark.java import find_java
os.environ |= {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": python}
from pyspark.sql import SparkSession
import siltstone
builder = SparkSession.builder.master(master)
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
with siltstone.open_store(folder, {"compaction.split_size_bytes": "5KiB"}) as store:
    report = siltstone.maintenance.plan(store).run(spark)
runs = [run for run in report.runs if run.trouble]
print(json.dumps([[run.trouble, run.has_no_runner, len(run.units)] for run in runs]))
spark.stop()
"""


def test_workers_without_siltstone_are_one_line_and_nothing_is_set_aside(
    tmp_path: Path, spark_cluster: SparkCluster, record_tried: RecordTried
) -> None:
    record_tried("clusters", 1)
    settings = small_store(tmp_path / "store")
    driver = start_driver(
        DRIVER,
        spark_cluster.master,
        str(settings.folder),
        json.dumps(DRIVER_SETTINGS),
        str(bare_python(tmp_path)),
    )
    output, errors = driver.communicate(timeout=200)
    assert driver.returncode == 0, errors
    ((trouble, has_no_runner, units),) = json.loads(output)
    assert "cannot import siltstone: install siltstone" in trouble and "PYSPARK_PYTHON" in trouble
    assert (has_no_runner, units) == (True, 0)
    assert "No unit is set aside." in run("maintain", "status", "--store", settings.folder).out
