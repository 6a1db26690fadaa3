"""Consumers of committed records are as fast as consumers of all records."""

import time

import pytest
from confluent_kafka import Consumer, TopicPartition

import siltstone
from integration.test_transactions import SECONDS, producer_of, topic_of
from support.kafka.quiet_client import QUIET
from support.processes.tried import RecordTried

RECORDS, PER_TRANSACTION = 1_000_000, 1_000
ABORTED_EVERY = 100
"""One transaction in so many is aborted."""


def seconds_to_read(broker: siltstone.Broker, topic: str, isolation: str, expected: int) -> float:
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "nobody", "isolation.level": isolation, **QUIET,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    begun, found = time.perf_counter(), 0
    while found < expected:
        messages = consumer.consume(10_000, SECONDS)
        assert messages, f"nothing came after {found} records"
        found += len(messages)
    taken = time.perf_counter() - begun
    consumer.close()
    assert found == expected
    return taken


@pytest.mark.nightly(tried="records")
@pytest.mark.timeout(600)
def test_tp36_committed_records_are_read_as_fast_as_all(record_tried: RecordTried) -> None:
    with siltstone.Broker() as broker:
        topic = topic_of(broker, "t", 1)
        producer = producer_of(broker, "pay", **{"linger.ms": 20})
        for number in range(RECORDS // PER_TRANSACTION):
            producer.begin_transaction()
            for _ in range(PER_TRANSACTION):
                producer.produce(topic, b"x" * 100)
            producer.flush(SECONDS)  # an abort drops what was not sent
            if number % ABORTED_EVERY:
                producer.commit_transaction(SECONDS)
            else:
                producer.abort_transaction(SECONDS)
        aborted = RECORDS // ABORTED_EVERY
        taken: dict[str, list[float]] = {}
        for _ in range(3):
            for isolation, expected in (("read_uncommitted", RECORDS), ("read_committed", RECORDS - aborted)):
                taken.setdefault(isolation, []).append(seconds_to_read(broker, topic, isolation, expected))
    record_tried("records", 3 * (2 * RECORDS - aborted))
    all_of_them, committed = (min(taken[isolation]) for isolation in ("read_uncommitted", "read_committed"))
    assert committed * 0.9 <= all_of_them, (
        f"{committed:.2f} s for committed records, {all_of_them:.2f} s for all"
    )
