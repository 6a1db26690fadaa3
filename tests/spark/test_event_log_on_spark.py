"""What Spark writes about a read and a write whose options have a password: its event log, which its pages show."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

import siltstone
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]

PLANTED = "pl4nted-pa55word"
PROGRAM = """
import sys

from siltstone.spark.starting import LIGHT_JVM, start_session

store, events, *words = sys.argv[1:]
options = {f"kafka.{name}": value for name, _, value in (word.partition("=") for word in words)}
logged = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.dir": f"file://{events}"}
spark = start_session("local[1]", "event log", settings={**LIGHT_JVM, **logged})
place = {"store": store, **options}
frame = spark.read.format("siltstone").options(subscribe="t", **place).load()
assert [bytes(row.value) for row in frame.collect()] == [b"x"]
frame.createOrReplaceTempView("read")
assert spark.sql("SELECT count(*) FROM read").collect()[0][0] == 1
rows = spark.createDataFrame([(b"a",)], ["value"])
rows.write.format("siltstone").mode("append").options(topic="t", **place).save()
spark.stop()
"""


def test_sp01_the_event_log_of_a_read_and_a_write_has_no_password(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    with siltstone.Broker(tmp_path / "store", tls=True, users={"ada": PLANTED}) as broker:
        broker.create_topic("t", partitions=1)
        producer = confluent_kafka.Producer({**broker.client_config(), "log_level": 0})
        producer.produce("t", b"x")
        assert producer.flush(60) == 0
        config = [f"{name}={value}" for name, value in broker.client_config().items()]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(broker.folder), str(events), *config],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    written = b"".join(each.read_bytes() for each in events.rglob("events_*"))
    assert b"SparkListenerSQLExecutionStart" in written
    assert PLANTED.encode() not in written
    record_tried("bytes of events", len(written))
