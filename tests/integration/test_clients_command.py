"""``siltstone clients`` names real clients: ids, software as they name it, addresses and age."""

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Producer
from confluent_kafka import version as library_version

from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.kafka.quiet_client import QUIET
from support.kafka.raw_kafka import RawConnection
from support.processes.ports import free_ports

pytestmark = pytest.mark.clients


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SILTSTONE), *command], capture_output=True, text=True, timeout=60, check=False)


def _text(version: object) -> str:
    return str(version[0] if isinstance(version, tuple) else version)


async def started_consumer(at: str) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer("t", bootstrap_servers=at, client_id="reports")
    await consumer.start()
    return consumer


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


def test_each_connected_client_is_named_with_its_software_and_its_address(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    (port,) = free_ports(1)
    admin = f"127.0.0.1:{port}"
    with BrokerProcess(tmp_path / "store", {"admin.listeners": admin}) as broker:
        at = broker.bootstrap_servers
        assert run("clients", "--admin", admin).stdout == "No client is connected.\n"
        producer = Producer({"bootstrap.servers": at, "client.id": "billing", **QUIET})
        producer.produce("t", b"x")
        assert producer.flush(60) == 0
        reports = asyncio.run_coroutine_threadsafe(started_consumer(at), loop).result(60)
        with RawConnection(broker.address):  # it sends nothing, so that it has no name
            (report,) = json.loads(run("clients", "--admin", admin, "--json").stdout)["brokers"]
            found = {
                (each["client_id"], each["software"], each["software_version"]) for each in report["clients"]
            }
            named = {(name, software, version.partition("-")[0]) for name, software, version in sorted(found)}
            assert ("billing", "confluent-kafka-python", _text(library_version())) in named
            assert "reports" in {client_id for client_id, *_ in found}
            assert ("", "", "") in found
            assert report["node_id"] == 0 and report["connections"] == len(report["clients"])
            assert all(each["host"] == "127.0.0.1" and each["port"] for each in report["clients"])
            shown = run("clients", "--admin", admin).stdout
            assert "billing" in shown and "confluent-kafka-python" in shown
        asyncio.run_coroutine_threadsafe(reports.stop(), loop).result(60)
        del producer


def test_two_brokers_are_asked_and_another_server_is_not_taken_for_one(tmp_path: Path) -> None:
    ports = free_ports(2)
    stores = [BrokerProcess(tmp_path / str(port), {"admin.listeners": f"127.0.0.1:{port}"}) for port in ports]
    with stores[0], stores[1] as kafka:
        options = [word for port in ports for word in ("--admin", f"127.0.0.1:{port}")]
        assert len(json.loads(run("clients", *options, "--json").stdout)["brokers"]) == 2
        wrong = run("clients", "--admin", kafka.bootstrap_servers)
        assert wrong.returncode == 2 and "is no admin listener of a broker" in wrong.stderr, wrong.stderr
