"""Share groups with the clients that people use: Java's KafkaShareConsumer and confluent-kafka's ShareConsumer."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from oracles.java_clients import JavaClients, running_java_clients
from support.broker.broker_process import BrokerProcess
from support.kafka.kafka_oracles import or_skip

SECONDS_MAX = 60
LOCK_MS = 15_000


def made_ready(broker: BrokerProcess, topic: str, group: str, records: int, **configs: str) -> None:
    at = {"bootstrap.servers": broker.bootstrap_servers}
    admin = AdminClient(at)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(SECONDS_MAX)
    configs = {"share.auto.offset.reset": "earliest", **configs}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)
    produce(broker, topic, 0, records)


def produce(broker: BrokerProcess, topic: str, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for number in range(first, end):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(SECONDS_MAX) == 0


class JavaMember:
    """A KafkaShareConsumer that is told what to do with each record."""

    def __init__(self, clients: JavaClients, consumer: Any, topic: str) -> None:
        self._clients, self._consumer = clients, consumer
        consumer.subscribe(clients.machine.classes.java.util.List.of(topic))

    def poll(self, count: int, outcome: str = "ACCEPT") -> list[tuple[int, int]]:
        """Returns offsets and delivery counts of at least ``count`` records, acknowledged as ``outcome``."""
        seen: list[tuple[int, int]] = []
        give_up = time.monotonic() + SECONDS_MAX
        while len(seen) < count and time.monotonic() < give_up:
            for record in self._consumer.poll(self._clients.machine.milliseconds(500)).iterator():
                delivered = record.deliveryCount().get()
                seen.append((record.offset(), delivered))
                if outcome:
                    self._consumer.acknowledge(record, self._clients.acknowledge_type(outcome))
            if outcome:
                failures = self._consumer.commitSync()
                assert not any(failures[each].isPresent() for each in failures), failures.toString()
        return seen


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("shares") / "store") as running:
        yield running


@pytest.fixture(scope="module")
def java(broker: BrokerProcess) -> Iterator[JavaClients]:
    with or_skip(lambda: running_java_clients(broker.bootstrap_servers)) as clients:
        yield clients


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
def test_java_accepts_releases_and_rejects(broker: BrokerProcess, java: JavaClients) -> None:
    made_ready(broker, "orders", "java", 10)
    with java.share_consumer({"group.id": "java"}) as consumer:
        member = JavaMember(java, consumer, "orders")
        assert member.poll(10, "RELEASE") == [(offset, 1) for offset in range(10)]
        assert member.poll(10, "ACCEPT") == [(offset, 2) for offset in range(10)]
        produce(broker, "orders", 10, 13)
        assert member.poll(3, "REJECT") == [(offset, 1) for offset in range(10, 13)]
        produce(broker, "orders", 13, 14)
        assert member.poll(1, "ACCEPT") == [(13, 1)]


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
def test_sh1_two_members_share_a_partition(broker: BrokerProcess, java: JavaClients) -> None:
    made_ready(broker, "shared", "pair", 40)
    with ExitStack() as open_ones:
        config = {"group.id": "pair", "max.poll.records": 5, "share.acquire.mode": "record_limit"}
        members = [
            JavaMember(java, open_ones.enter_context(java.share_consumer(config)), "shared") for _ in range(2)
        ]
        seen = [record for _ in range(4) for member in members for record in member.poll(5)]
    assert sorted(seen) == [(offset, 1) for offset in range(40)]


def confluent(broker: BrokerProcess, group: str, topic: str, **other: Any) -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            **other,
        }
    )
    consumer.subscribe([topic])
    return consumer


def polled(consumer: ShareConsumer, count: int, outcome: AcknowledgeType | None) -> list[bytes]:
    seen: list[bytes] = []
    give_up = time.monotonic() + SECONDS_MAX
    while len(seen) < count and time.monotonic() < give_up:
        for message in consumer.poll(1.0):
            assert message.error() is None, message.error()
            seen.append(message.value())
            if outcome is not None:
                consumer.acknowledge(message, outcome)
        if outcome is not None:
            consumer.commit_sync(10.0)
    return seen


@pytest.mark.clients
def test_confluent_accepts_what_a_closed_member_had(broker: BrokerProcess) -> None:
    made_ready(broker, "tasks", "confluent", 20)
    everything = [b"%d" % number for number in range(20)]
    with closing(confluent(broker, "confluent", "tasks")) as first:
        assert polled(first, 20, AcknowledgeType.RELEASE) == everything
    with closing(confluent(broker, "confluent", "tasks")) as second:
        assert polled(second, 20, AcknowledgeType.ACCEPT) == everything
        produce(broker, "tasks", 20, 25)
        assert polled(second, 5, AcknowledgeType.ACCEPT) == [b"%d" % number for number in range(20, 25)]


@pytest.mark.clients
def test_sh10_what_was_acknowledged_stays_when_the_broker_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "store") as broker:
        made_ready(broker, "tasks", "killed", 10)
        with closing(confluent(broker, "killed", "tasks")) as consumer:
            assert len(polled(consumer, 10, AcknowledgeType.ACCEPT)) == 10
            produce(broker, "tasks", 10, 20)
            assert len(polled(consumer, 10, AcknowledgeType.RELEASE)) >= 10
            broker.kill()
        broker.start()
        with closing(confluent(broker, "killed", "tasks")) as consumer:
            assert polled(consumer, 10, AcknowledgeType.ACCEPT) == [
                b"%d" % number for number in range(10, 20)
            ]


HOLDER = """
import sys, time
from confluent_kafka import ShareConsumer
servers, group, topic, count = sys.argv[1:]
consumer = ShareConsumer(
    {"bootstrap.servers": servers, "group.id": group, "share.acknowledgement.mode": "explicit"}
)
consumer.subscribe([topic])
held = []
while len(held) < int(count):
    held += [message.offset() for message in consumer.poll(1.0)]
print(held, flush=True)
sys.stdin.read()
"""
"""Acquires all records with one poll, and acknowledges none."""


@contextmanager
def holder(broker: BrokerProcess, group: str, topic: str, count: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, broker.bootstrap_servers, group, topic, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def killed_with(broker: BrokerProcess, group: str, topic: str, count: int) -> None:
    """A member is killed (SIGKILL) while it holds the first ``count`` records."""
    with holder(broker, group, topic, count) as member:
        assert member.stdout is not None
        assert member.stdout.readline() == f"{list(range(count))}\n"
        member.kill()
        assert member.wait(SECONDS_MAX) == -signal.SIGKILL


@pytest.mark.clients
def test_sh7_what_a_killed_member_held_comes_again_at_once_with_count_2(broker: BrokerProcess) -> None:
    made_ready(broker, "held", "orphans", 10)
    killed_with(broker, "orphans", "held", 10)
    started = time.monotonic()
    with closing(confluent(broker, "orphans", "held")) as other:
        seen: list[tuple[int, int]] = []
        while len(seen) < 10 and time.monotonic() < started + SECONDS_MAX:
            seen += [(each.offset(), each.delivery_count()) for each in other.poll(1.0)]
    assert seen == [(offset, 2) for offset in range(10)]
    assert time.monotonic() - started < LOCK_MS / 1_000  # its connection has ended, and no lock had to


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
def test_sh7_java_gets_what_a_killed_member_held(broker: BrokerProcess, java: JavaClients) -> None:
    made_ready(broker, "left", "heirs", 10)
    killed_with(broker, "heirs", "left", 10)
    with java.share_consumer({"group.id": "heirs"}) as consumer:
        assert JavaMember(java, consumer, "left").poll(10) == [(offset, 2) for offset in range(10)]
