"""Fills a topic with records, by default of 116 bytes, in lz4, produced by confluent-kafka into a broker that is a
process of its own, and uploads it: the broker is stopped cleanly and started again, so that its caches are empty."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers.contenders import Siltstone
from oracles.broker_process import HOST

TOPIC = "flights"
PARTITIONS = 4
VALUE_BYTES = 80
_FLUSH_SECONDS = 600

Made = tuple[bytes, bytes, int]
"""Key, value and partition of a record."""


def plain_record(number: int) -> Made:
    """Returns a record with 12 bytes of key and 80 of value."""
    value = b"%d %d" % (number, number * 7919)
    return b"%012d" % (number % 100_000), value.ljust(VALUE_BYTES, b"."), number % PARTITIONS


class FilledTopic(msgspec.Struct, frozen=True):
    """``address``: of the broker; ``pid``: of its process; ``store``: its folder."""

    address: str
    pid: int
    store: Path
    records: int


@contextmanager
def filled_topic(
    place: Path,
    records: int,
    configs: Mapping[str, str] | None = None,
    made: Callable[[int], Made] = plain_record,
) -> Iterator[FilledTopic]:
    """Runs a broker with a topic of records that ``made`` returns for their numbers."""
    prepared = Siltstone().prepared(place)
    address = f"{HOST}:{prepared.port}"
    with prepared.started():
        produce(address, records, configs, made)
    with prepared.started() as broker:
        yield FilledTopic(address, broker.pid, place / "store", records)


def produce(
    address: str,
    records: int,
    configs: Mapping[str, str] | None = None,
    made: Callable[[int], Made] = plain_record,
) -> None:
    create(address, TOPIC, configs)
    producer = Producer(
        {
            "bootstrap.servers": address, "compression.type": "lz4", "linger.ms": 50, "batch.size": 131_072,
            "queue.buffering.max.messages": 1_000_000,
        }
    )  # fmt: skip
    for number in range(records):
        key, value, partition = made(number)
        while True:
            try:
                producer.produce(TOPIC, value, key, partition=partition)
                break
            except BufferError:
                producer.poll(1)
    assert producer.flush(_FLUSH_SECONDS) == 0


def create(
    address: str, topic: str, configs: Mapping[str, str] | None = None, *, partitions: int = PARTITIONS
) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, config=dict(configs or {}))])[topic].result(60)
