"""A standalone Spark whose executors reach nothing but the bucket, neither the metadata nor a broker: they read topics
with ``tail=flush`` and ``tail=committed``, and stage what sinks of both modes write."""

import json
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer

import siltstone
from support.maintenance.sinks import QUIET, create, values
from support.processes.tried import RecordTried
from support.spark import fenced_executors
from support.spark.spark_cluster import DRIVER_SETTINGS, SparkCluster, start_driver, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(1_800)]

ROWS = 2_000
DRIVER = """
import json, sys, time
from pathlib import Path
from siltstone.spark.starting import start_session
from pyspark_siltstone import DefaultSource

master, store, gate, settings = sys.argv[1], sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4])
session = start_session(master, "bucket only", settings)
session.dataSource.register(DefaultSource)

def rows(topic, tail):
    read = session.read.format("siltstone").options(store=store, subscribe=topic, tail=tail, maxRecordsPerPartition=300)
    return sorted(bytes(row.value).decode() for row in read.load().select("value").collect())

def write(topic, sink, **options):
    frame = session.range(1000).selectExpr("cast(id as string) as key", "format_string('value-%06d', id) as value")
    writer = frame.write.format("siltstone").options(store=store, topic=topic, sinkName=sink, batchId=0, **options)
    writer.mode("append").save()

(gate / "started").touch()
found = {"committed before": len(rows("flights", "committed"))}
(gate / "committed").touch()
found["flush"] = rows("flights", "flush")
(gate / "flushed").touch()
found["committed"] = rows("flights", "committed")
write("relayed", "relay")
(gate / "relayed").touch()
while not (gate / "stopped").exists():
    time.sleep(0.05)
write("loaded", "load")
found["loaded"] = rows("loaded", "auto")
session.stop()
print(json.dumps(found))
"""


def test_sr5_executors_that_reach_only_the_bucket_read_and_write_topics(
    tmp_path: Path,
    spark_cluster: SparkCluster,
    record_tried: RecordTried,
    request: pytest.FixtureRequest,
) -> None:
    store, says, gate = tmp_path / "store", tmp_path / "says", tmp_path / "gate"
    says.mkdir()
    gate.mkdir()
    broker = siltstone.Broker(store, settings={"engine.upload.cache_block_age_ms_max": "10min"})
    with broker:
        address = broker.bootstrap_servers
        for name in ("flights", "relayed", "loaded"):
            create(address, name, 3)
        producer = Producer({"bootstrap.servers": address, **QUIET})
        for number in range(ROWS):
            producer.produce("flights", key=str(number), value=f"value-{number:06d}")
        assert producer.flush(60) == 0
        settings = fenced(store, int(address.rpartition(":")[2]), says)
        driver = start_driver(DRIVER, spark_cluster.master, str(store), str(gate), json.dumps(settings))
        request.addfinalizer(lambda: end(driver))
        for step in ("started", "committed", "flushed", "relayed"):  # each has the time of one wait
            wait_until(lambda step=step: (gate / step).exists() or driver.poll() is not None, step)
        assert driver.poll() is None, driver.communicate()[1][-4_000:]
        assert values(address, "relayed", 3) == [b"value-%06d" % number for number in range(1_000)]
    (gate / "stopped").touch()
    output, errors = driver.communicate(timeout=600)
    assert driver.returncode == 0, errors[-4_000:]
    found = json.loads(output.splitlines()[-1])
    expected = [f"value-{number:06d}" for number in range(ROWS)]
    assert found["committed before"] == 0, "nothing was uploaded before it was asked for"
    assert found["flush"] == found["committed"] == expected
    assert found["loaded"] == expected[:1_000]
    names = sorted(path.name.partition("-")[0] for path in says.iterdir())
    assert set(names) == {"fenced"}, "no executor tried a broker or the metadata"
    assert len(names) >= 2, "the fence stood in the processes of both workers"
    record_tried("rows", 2 * ROWS + 2_000)


def end(driver: subprocess.Popen[str]) -> None:
    """Ends a driver that still runs, with its JVM."""
    if driver.poll() is None:
        for process in psutil.Process(driver.pid).children(recursive=True):
            process.kill()
        driver.kill()
        driver.wait()


def fenced(store: Path, port: int, says: Path) -> dict[str, Any]:
    hook = Path(next(iter(fenced_executors.__path__)))
    path = DRIVER_SETTINGS["spark.executorEnv.PYTHONPATH"]
    return {
        **DRIVER_SETTINGS,
        "spark.executorEnv.PYTHONPATH": f"{hook}:{path}",
        "spark.executorEnv.FENCED_PORT": str(port),
        "spark.executorEnv.FENCED_STORE": str(store),
        "spark.executorEnv.FENCED_SAYS": str(says),
    }
