"""docs/real-time.md works: Spark's connector in real-time mode, between two topics of our broker."""

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import siltstone
from oracles.java_artifacts import SPARK_KAFKA_CONNECTOR, JavaArtifactsUnavailable, fetch_jars
from support.kafka.quiet_client import QUIET
from support.pages.documents import ROOT, blocks
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(600)]

(PROGRAM,) = RUN = blocks(ROOT / "docs" / "real-time.md", "python")


@pytest.mark.nightly(tried="records in real time")
def test_ss22_records_go_from_topic_to_topic_in_real_time(
    spark: Any, tmp_path: Path, record_tried: RecordTried
) -> None:
    try:
        fetch_jars(SPARK_KAFKA_CONNECTOR)
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))
    with siltstone.Broker(tmp_path / "store") as broker:
        for topic in ("orders", "shouted"):
            broker.create_topic(topic)
        address = broker.bootstrap_servers
        running = PROGRAM.replace("siltstone.spark.session(kafka=True)", "spark_of_tests")
        program = running.replace("localhost:9092", address).replace(
            '"checkpoint"', f'"{tmp_path / "checkpoint"}"'
        )
        names: dict[str, Any] = {"spark_of_tests": spark}
        exec(program, names)
        producer = Producer({"bootstrap.servers": address, "linger.ms": 0, **QUIET})
        consumer = Consumer(
            {"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest", **QUIET}
        )
        consumer.subscribe(["shouted"])
        try:
            found: set[bytes] = set()
            number, until = 0, time.monotonic() + 300
            while len(found) < 100 and time.monotonic() < until:
                producer.produce("orders", f"order {number}")
                producer.poll(0)
                number += 1
                if (message := consumer.poll(0.05)) is not None and message.error() is None:
                    found.add(message.value())
            assert names["query"].exception() is None
            assert len(found) >= 100, "within a micro-batch of a minute nothing would have come"
            assert all(each.startswith(b"ORDER ") for each in found)
            record_tried("records", len(found))
        finally:
            names["query"].stop()
            consumer.close()
