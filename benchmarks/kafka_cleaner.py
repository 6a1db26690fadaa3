"""Apache Kafka's own log cleaner at the same work: so many records, so many keys, in partitions that are compacted side
by side.

The records are produced while the topic is cleaned by deletion; then it becomes a compacted one. What is measured is
the time until the cleaner has told of every partition that it is clean. Its threads are as many as the machine's cores,
and nothing else is its limit: no throttle, no waiting, one pass by the size of its buffer.
"""

import os
import re
import time
from pathlib import Path

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from oracles.apache_kafka import KAFKA_JVM, prepare_apache_kafka, started
from oracles.broker_process import BrokerProcess
from siltstone.model.limits import GIB, MIB

TOPIC = "compacted"
PARTITIONS = 10
MESSAGES_A_CALL = 10_000
CLEAN_SECONDS_MAX = 600
TELLING = (
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log=info",
    "-Dorg.slf4j.simpleLogger.log.kafka.log=info",
)
SETTINGS = {
    "log.cleaner.threads": str(os.cpu_count() or 1),
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(512 * MIB),
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.bytes": str(256 * MIB),
    "log.retention.ms": "-1",
}
CLEANED = re.compile(r"cleaned log (\S+-\d+)")


class Cleaned(msgspec.Struct, frozen=True):
    """The bytes are those of the log files: removed records have no offsets by which they could be counted."""

    records: int
    seconds: float
    bytes_before: int
    bytes_after: int

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


def clean(folder: Path, records: int, keys: int, codec: str) -> Cleaned:
    """Starts the cleaner. Raises JavaArtifactsUnavailable."""
    prepared = prepare_apache_kafka(folder, SETTINGS, 2 * GIB, (*KAFKA_JVM, *TELLING))
    with started(prepared) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        _produce(broker, records, keys, codec)
        _roll(admin, broker)
        before = _log_bytes(folder)
        begin = time.perf_counter()
        _configure(admin, {"cleanup.policy": "compact"})
        _wait_until_clean(broker.log)
        return Cleaned(records, time.perf_counter() - begin, before, _log_bytes(folder))


def _produce(broker: BrokerProcess, records: int, keys: int, codec: str) -> None:
    """A record takes 100 bytes: a key of 12, a value of 80, and the other fields of a record in a batch."""
    producer = Producer({
        "bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 50,
        "batch.size": 128 * 1024, "delivery.report.only.error": True, "queue.buffering.max.messages": 200_000,
    })  # fmt: skip
    for first in range(0, records, MESSAGES_A_CALL):
        for partition in range(PARTITIONS):
            numbers = range(first + partition, min(first + MESSAGES_A_CALL, records), PARTITIONS)
            messages = [
                {"key": b"%012d" % key_of(number, keys), "value": b"%080d" % number} for number in numbers
            ]
            while messages:
                taken = producer.produce_batch(TOPIC, messages, partition=partition)
                messages = messages[taken:]
                producer.poll(0.01 if messages else 0)
    assert producer.flush(60) == 0


def key_of(number: int, keys: int) -> int:
    """Returns the keys, evenly spread, in an order that is not that of the records; each key is always in one
    partition."""
    return (number * 7_919) % keys // PARTITIONS * PARTITIONS + number % PARTITIONS


def _roll(admin: AdminClient, broker: BrokerProcess) -> None:
    """The active segment is not cleaned, so one more record begins another segment."""
    _configure(admin, {"segment.ms": "100"})
    time.sleep(0.5)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"last", b"last", partition=partition)
    assert producer.flush(60) == 0
    _configure(admin, {"segment.ms": "604800000"})


def _configure(admin: AdminClient, values: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=entries)
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)


def _wait_until_clean(log: Path) -> None:
    give_up = time.monotonic() + CLEAN_SECONDS_MAX
    wanted = {f"{TOPIC}-{partition}" for partition in range(PARTITIONS)}
    while not wanted <= set(CLEANED.findall(log.read_text(errors="replace"))):
        assert time.monotonic() < give_up, f"not clean after {CLEAN_SECONDS_MAX} s"
        time.sleep(0.05)


def _log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"data/{TOPIC}-*/*.log"))
