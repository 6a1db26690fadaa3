"""``siltstone.Broker`` with an ordinary client: what was produced is there, also after a restart and for commands."""

import asyncio
import logging
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

import siltstone
from siltstone.scanning.source import open_source
from siltstone.stream_engine.errors import EngineNotRunning
from support.kafka.quiet_client import QUIET
from support.processes.cli import run


def produce(broker: siltstone.Broker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def consume(broker: siltstone.Broker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers, "group.id": "readers",
            "auto.offset.reset": "earliest", **QUIET,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    found = [message.value() for message in consumer.consume(count, 20) if message.error() is None]
    consumer.close()
    return found


def test_a_given_folder_goes_on_where_it_was(tmp_path: Path) -> None:
    with siltstone.Broker(tmp_path) as broker:
        produce(broker, "orders", b"1", b"2")
        assert consume(broker, "orders", 2) == [b"1", b"2"]
    with siltstone.Broker(tmp_path) as broker:
        produce(broker, "orders", b"3")
        assert consume(broker, "orders", 1) == [b"3"]


def test_settings_reach_the_broker() -> None:
    settings = {"broker.num_partitions": "4", "topics.retention.ms": "60000"}
    with siltstone.Broker(settings=settings) as broker:
        produce(broker, "orders", b"1")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        assert len(admin.list_topics("orders", 60).topics["orders"].partitions) == 4


def test_settings_may_forbid_topics_nobody_made() -> None:
    with siltstone.Broker(settings={"broker.auto_create_topics_enable": "false"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        assert admin.list_topics("orders", 60).topics["orders"].error is not None


def test_flush_puts_what_was_acknowledged_where_maintenance_finds_it(tmp_path: Path) -> None:
    def records_committed() -> int:
        return sum(row["end_offset"] for row in run("streams", "--store", tmp_path, "--json").json["streams"])

    with siltstone.Broker(tmp_path) as broker:
        produce(broker, "orders", b"1", b"2", b"3")
        before = records_committed()
        broker.flush()
        assert records_committed() >= before + 3
        assert run("check", "--store", tmp_path).status == 0


def test_a_topic_that_no_client_has_created_yet_has_no_records() -> None:
    with siltstone.Broker() as broker:
        assert broker.records("nothing-was-sent") == []


def test_two_brokers_at_once_keep_their_records_apart() -> None:
    with siltstone.Broker() as one, siltstone.Broker() as other:
        threads = [
            threading.Thread(target=produce, args=(broker, "orders", value))
            for broker, value in ((one, b"one"), (other, b"other"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (consume(one, "orders", 1), consume(other, "orders", 1)) == ([b"one"], [b"other"])


def test_it_serves_inside_a_program_that_has_an_event_loop_of_its_own() -> None:
    async def main() -> list[bytes]:
        with siltstone.Broker() as broker:
            await asyncio.to_thread(produce, broker, "orders", b"1")
            return await asyncio.to_thread(consume, broker, "orders", 1)

    assert asyncio.run(main()) == [b"1"]


def test_a_broker_that_can_store_nothing_any_more_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(node) -> None:
        node.node.engine._fail(OSError("the disk is gone"))

    with caplog.at_level(logging.ERROR), siltstone.Broker() as broker:
        produce(broker, "orders", b"1")
        broker._thread().ask(fail)
        assert broker.statistics().engine.state == "FAILED"
        with pytest.raises(EngineNotRunning, match="the disk is gone"):
            broker.flush()
        refused = []
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 1_500, **QUIET}
        )
        producer.produce("orders", b"2", on_delivery=lambda error, _: refused.append(str(error)))
        producer.flush(60)
        assert len(refused) == 1 and refused != ["None"]
    assert "the disk is gone" in caplog.text


def test_a_client_finds_nobody_after_the_end() -> None:
    with siltstone.Broker() as broker:
        address = broker.bootstrap_servers
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": address, **QUIET}).list_topics(timeout=1)


def test_a_program_that_reads_the_files_of_its_own_broker_loses_nothing(tmp_path: Path) -> None:
    """A copy that is made with the standard library closes the metadata database, and with that the process lost its
    locks on it: the next command deleted a file of it, and what the broker did from then on was nowhere."""
    command = [sys.executable, "-m", "siltstone", "status", "--store", tmp_path / "store"]
    with siltstone.Broker(tmp_path / "store") as broker:
        broker.create_topic("before")
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
        subprocess.run(command, check=True, capture_output=True)
        broker.create_topic("after")
        subprocess.run(command, check=True, capture_output=True)
        with open_source(tmp_path / "store") as source:
            names = {each.name for each in source.metadata.image.topics.values()}
    assert {"before", "after"} <= names
    with siltstone.Broker(tmp_path / "store") as broker:
        assert broker.create_topic("later")
        names = set(AdminClient(broker.client_config()).list_topics(timeout=30).topics)
    assert {"before", "after", "later"} <= names
