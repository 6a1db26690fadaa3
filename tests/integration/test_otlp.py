"""A broker and a maintenance service in processes of their own push their metrics to a real receiver of OTLP."""

import re
import signal
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from siltstone.server.admin.families import FAMILIES
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.metrics.otlp_receiver import OtlpReceiver

SECONDS_MAX = 60


def arrived(receiver: OtlpReceiver, count: int) -> None:
    for _ in range(count):
        assert receiver.arrived.acquire(timeout=SECONDS_MAX), "a push"


@pytest.mark.clients
def test_a_broker_pushes_what_it_counts_and_ends_beside_a_silent_collector(tmp_path: Path) -> None:
    with OtlpReceiver().running() as receiver:
        options = ("--set", f"admin.otlp_endpoint={receiver.endpoint}", "--set", "admin.otlp_interval_ms=100")
        with BrokerProcess(tmp_path / "store", options=options) as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            for number in range(100):
                producer.produce("flights", b"%d" % number)
            assert producer.flush(SECONDS_MAX) == 0
            arrived(receiver, len(receiver.requests) + 3)
            metrics = receiver.metrics()
            known = {family.sample_name for family in FAMILIES.values() if family.type != "histogram"} | {
                f"siltstone_{family.name}" for family in FAMILIES.values() if family.type == "histogram"
            }
            assert set(metrics) <= known and len(metrics) > 50
            topics = {
                point.attributes[0].value.string_value: point.as_int or point.as_double
                for point in metrics["siltstone_topic_in_bytes_total"].sum.data_points
            }
            assert topics["flights"] > 0
            assert metrics["siltstone_append_seconds"].histogram.data_points[0].count > 0
            receiver.answers.clear()
            arrived(receiver, 1)
            assert broker.stop() == 0
            assert "Traceback" not in broker.log


def test_maintenance_pushes_its_own(tmp_path: Path) -> None:
    with OtlpReceiver().running() as receiver:
        command = [
            SILTSTONE, "maintain", "serve", "--store", tmp_path / "store", "--runner", "in-process",
            "--set", f"admin.otlp_endpoint={receiver.endpoint}", "--set", "admin.otlp_interval_ms=100",
        ]  # fmt: skip
        with (
            BrokerProcess(tmp_path / "store"),
            subprocess.Popen(
                command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
            ) as process,
        ):
            arrived(receiver, 5)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0, said
        assert [name for name in receiver.metrics() if re.match("siltstone_maintenance", name)]
