"""Source, sink and a table with older versions of PySpark, each installed by pip in a folder of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import siltstone
from oracles.java_artifacts import JavaArtifactsUnavailable
from oracles.pip_packages import installed
from support.kafka.quiet_client import QUIET
from support.pages.documents import ROOT
from support.processes.tried import RecordTried
from support.spark import older_spark_program

PROGRAM = Path(older_spark_program.__file__)


@pytest.mark.spark
@pytest.mark.nightly(tried="versions of PySpark")
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize(("version", "has_streams"), [("4.1.4", False), ("4.2.1", True)])
def test_sr33_an_older_pyspark_reads_and_writes_and_what_it_lacks_is_refused(
    tmp_path: Path, version: str, has_streams: bool, record_tried: RecordTried
) -> None:
    try:
        packages = (f"pyspark=={version}", "py4j==0.10.9.9")
        folder = installed(f"spark-{version}", packages, with_what_they_need=False)
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))
    store = tmp_path / "store"
    with siltstone.Broker(store) as broker:
        config = {"siltstone.table.format": "parquet", "siltstone.table.value": "json"}
        broker.create_topic("t", partitions=2, config=config)
        broker.create_topic(older_spark_program.COPY)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        for number in range(10):
            producer.produce("t", value=json.dumps({"n": number}))
        assert producer.flush(60) == 0
        words = ["--kind", "table-export", "--runner", "in-process", "--flush", "--store", str(store)]
        subprocess.run(
            [sys.executable, "-m", "siltstone", "maintain", "run", *words], check=True, capture_output=True
        )
        said = seen_by(folder, str(store), "t", str(tmp_path / "checkpoint"))
    record_tried("versions of PySpark", 1)
    streamed = said.pop("streamed")
    assert said == {
        "version": version, "count": 10, "found": [["_rescued_data", "kafka", "n"], 45], "written": 5, "table": 10
    }  # fmt: skip
    if has_streams:
        assert streamed == 15
    else:
        assert "streams need Spark 4.2 or newer" in streamed["refused"]


def seen_by(folder: Path, *arguments: str) -> dict[str, Any]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))},
        "PYTHONPATH": f"{folder}:{ROOT / 'src'}:{ROOT / 'tests'}",
        "SPARK_HOME": str(folder / "pyspark"),
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout.splitlines()[-1])
