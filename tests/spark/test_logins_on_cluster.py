"""SP02 with two executors: each reads ``kafka.client.config`` in the folder where it runs, as on machines of their own.

The option names the file without a folder. A worker of a cluster gives each executor a folder, so the file is there on
one, or on both.
"""

import json
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import siltstone
from support.kafka.quiet_client import QUIET
from support.processes.tried import RecordTried
from support.spark.spark_cluster import DRIVER_SETTINGS, SparkCluster, start_driver

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(600)]

RECORDS = 200
SETTINGS = DRIVER_SETTINGS | {
    "spark.task.maxFailures": "1",  # a repeated task may meet the other executor, and succeed
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.cores.max": "2",
}
DRIVER = """
import json, os, shutil, sys
from pathlib import Path

master, store, here, settings = sys.argv[1], sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4])
os.chdir(here)
from pyspark import BarrierTaskContext
from siltstone.spark.starting import start_session
from pyspark_siltstone import DefaultSource

session = start_session(master, "logins", settings)
session.dataSource.register(DefaultSource)
place = {"store": store, "kafka.client.config": "client.properties"}

def folder_of_this_executor(_):
    BarrierTaskContext.get().barrier()
    return [os.getcwd()]

folders = session.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(folder_of_this_executor).collect()
found = {"folders": sorted(set(folders) | {str(here)})}

def batch():
    frame = session.read.format("siltstone").options(subscribe="t", **place).load()
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())

def stream(name):
    query = (
        session.readStream.format("siltstone").options(subscribe="t", startingOffsets="earliest", **place).load()
        .select("value").writeStream.format("siltstone").options(topic=name, mode="transaction", sinkName=name, **place)
        .option("checkpointLocation", str(here / name)).trigger(availableNow=True).start()
    )
    query.awaitTermination(300)

def failure_of(work, *names):
    try:
        work(*names)
    except Exception as failure:
        return str(failure)
    return ""

shutil.copy("client.properties", folders[0])
found["batch on one"], found["stream on one"] = failure_of(batch), failure_of(stream, "one")
shutil.copy("client.properties", folders[1])
found["rows"] = batch()
stream("both")
session.stop()
print(json.dumps(found))
"""


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    with siltstone.Broker(tmp_path / "store", tls=True, users={"ada": "pencil"}) as running:
        running.create_topic("t", partitions=2)
        for copy in ("one", "both"):
            running.create_topic(copy)
        producer = confluent_kafka.Producer({**running.client_config(), **QUIET})
        for number in range(RECORDS):
            producer.produce("t", b"%d" % number, partition=number % 2)
        assert producer.flush(60) == 0
        yield running


def test_sp02_an_executor_without_the_file_says_so_and_with_it_every_row_is_there(
    tmp_path: Path, broker: siltstone.Broker, spark_cluster: SparkCluster, record_tried: RecordTried
) -> None:
    """No record is in an object: each of two tasks, of a partition each, asks the broker, one on each executor."""
    here = tmp_path / "driver"
    here.mkdir()
    file = here / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in broker.client_config().items()))
    file.chmod(0o640)
    driver = start_driver(DRIVER, spark_cluster.master, str(broker.folder), str(here), json.dumps(SETTINGS))
    output, errors = driver.communicate(timeout=500)
    assert driver.returncode == 0, errors[-5_000:]
    found = json.loads(output.splitlines()[-1])
    assert len(found["folders"]) == 3, found["folders"]
    for way in ("batch on one", "stream on one"):
        assert "this driver or executor has no client.properties: put the file at that path" in found[way]
    assert found["rows"] == [*range(RECORDS)]
    assert sorted(int(record.value) for record in broker.records("both")) == [*range(RECORDS)]
    assert not broker.records("one")
    record_tried("executors without the file", 2)
