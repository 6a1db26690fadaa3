"""Spark Connect, whose session has no context and whose server imports our package: what works is here, and what does
not is refused by name. The client is a process of its own, because a process has one kind of session."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

import siltstone
from support.processes.tried import RecordTried
from support.spark import connect_client

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]

COUNT = 50


def test_a_session_of_spark_connect_reads_writes_and_streams_topics(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    with siltstone.Broker(tmp_path / "store") as broker:
        broker.create_topic("source", partitions=2, config={"siltstone.table.format": "parquet"})
        broker.create_topic("copy", partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        expected = [json.dumps({"id": number}) for number in range(COUNT)]
        for number, value in enumerate(expected):
            producer.produce("source", key=b"%d" % number, value=value.encode())
        assert producer.flush(60) == 0
        with siltstone.open_store(broker.folder) as store:
            assert list(siltstone.scan("source", store=broker.folder, tail="flush").batches())
            assert siltstone.maintenance.plan(store, kinds=["table-export"]).run(None).is_well
        broker.create_topic("waits", config={"siltstone.table.format": "parquet"})
        producer.produce("waits", value=b"for an export")
        assert producer.flush(60) == 0
        assert list(siltstone.scan("waits", store=broker.folder, tail="flush").batches())
        tests = Path(connect_client.__file__).parents[2]
        done = subprocess.run(
            [
                sys.executable,
                connect_client.__file__,
                str(broker.folder),
                "source",
                "copy",
                "source",
                str(tmp_path),
            ],
            env={**os.environ, "PYTHONPATH": f"{tests.parent / 'src'}:{tests}"},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4_000:]
        found = json.loads(done.stdout.splitlines()[-1])
    refused = found.pop("maintenance")
    assert found == {
        "read": sorted(expected),
        "siltstone.spark.read": sorted(expected),
        "json": sum(range(COUNT)),
        "write": 2,
        "stream": {"batches": 3, "lag": 0, "backlogs": [30, 10, 0], "checkpoint": 2},
        "foreachBatch": COUNT,
        "read_table": COUNT,
        "named": COUNT,
    }, done.stderr[-4_000:]
    assert "this Spark session has no context (Spark Connect has none)" in refused
    record_tried("uses of Spark Connect", len(found) + 1)
