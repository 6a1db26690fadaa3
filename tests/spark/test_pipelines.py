"""The project in ``examples/pipeline``, run by ``spark-pipelines`` in a process of its own, as people do."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.spark.java import find_java
from support.kafka.quiet_client import QUIET

pytestmark = [
    pytest.mark.spark,
    pytest.mark.nightly(tried="runs of a pipeline"),
    pytest.mark.timeout(900),
]

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent

AUTO_CDC = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.temporary_view
def airport_changes():
    reader = spark.readStream.format("siltstone").options(subscribe="airports", startingOffsets="earliest")
    changes = reader.option("store", spark.conf.get("siltstone.store")).load()
    return changes.selectExpr("CAST(key AS STRING) AS code", "CAST(value AS STRING) AS airport", "offset")


dp.create_streaming_table("airports")
dp.create_auto_cdc_flow(
    "airports", "airport_changes", keys=["code"], sequence_by="offset", apply_as_deletes="airport IS NULL"
)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example, with the two paths that its reader is asked to change."""
    copied = shutil.copytree(ROOT / "examples" / "pipeline", tmp_path / "pipeline")
    spec = copied / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8")
    for path, name in (("/path/to/pipeline-storage", "storage"), ("/path/to/my-store", "store")):
        assert path in text
        text = text.replace(path, str(tmp_path / name))
    spec.write_text(text, encoding="utf-8")
    return copied


def run(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            str(SPARK_HOME / "bin" / "spark-pipelines"),
            *("--remote", "local[2]", "--conf", "spark.sql.catalogImplementation=hive", "run"),
        ],
        cwd=project,
        env={
            **os.environ,
            "SPARK_HOME": str(SPARK_HOME),
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def produce(broker: siltstone.Broker, topic: str, pairs: dict[str, str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for key, value in pairs.items():
        producer.produce(topic, key=key, value=value)
    assert producer.flush(60) == 0


def flights(first: int, until: int) -> dict[str, str]:
    return {
        f"f{number}": json.dumps({"flight": f"f{number}", "delay": number}) for number in range(first, until)
    }


def late(broker: siltstone.Broker) -> list[str]:
    """The keys in the topic that the pipeline writes: each row once."""
    found = siltstone.scan("late-flights", store=broker.folder, tail="flush").to_arrow()
    return sorted(key.decode() for key in found["key"].to_pylist())


def test_ss24_a_pipeline_continues_from_topic_to_table_to_topic(project: Path, tmp_path: Path) -> None:
    with siltstone.Broker(tmp_path / "store") as broker:
        for topic in ("flights", "late-flights"):
            broker.create_topic(topic, partitions=2)
        for first, until in ((0, 100), (100, 110)):
            produce(broker, "flights", flights(first, until))
            done = run(project)
            assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
            assert late(broker) == sorted(f"f{number}" for number in range(61, until))


def test_ss25_auto_cdc_into_a_table_without_merge_is_refused(project: Path, tmp_path: Path) -> None:
    for example in (project / "transformations").iterdir():
        example.unlink()
    (project / "transformations" / "airports.py").write_text(AUTO_CDC, encoding="utf-8")
    with siltstone.Broker(tmp_path / "store") as broker:
        broker.create_topic("airports", config={"cleanup.policy": "compact"})
        produce(broker, "airports", {"JFK": "Kennedy"})
        done = run(project)
    assert done.returncode != 0
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in done.stdout + done.stderr
