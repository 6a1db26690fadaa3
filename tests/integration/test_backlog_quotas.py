"""Backlog quotas with a client that knows nothing of them (librdkafka), and retention after a broker that was killed by
nobody: what a registered group committed is what maintenance goes by."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from siltstone import Broker
from siltstone.kafka_client.producing import delivery
from siltstone.metadata.sinks import SinkState
from siltstone.model.errors import Unavailable
from support.maintenance.sinks import Sink, rows_of, values

LOOK_MS = 200
SETTINGS = {
    "broker.backlog_quota_check_interval_ms": str(LOOK_MS),
    "broker.group_progress_interval_ms": str(LOOK_MS),
}
QUOTA_BYTES = 50_000
VALUE = b"v" * 1_000
BEYOND = 60
HELD_SECONDS = 1.0
SECONDS_MAX = 60.0

pytestmark = pytest.mark.xdist_group("backlog-quotas")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as running:
        yield running


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


class Deliveries:
    """``errors`` of what was refused; ``delivered`` counts the rest."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0})
        self.delivered = 0
        self.errors: list[KafkaError] = []

    def send(self, topic: str, count: int) -> None:
        for _ in range(count):
            self._producer.produce(topic, VALUE, partition=0, on_delivery=self._told)

    def flush(self, seconds: float = SECONDS_MAX) -> int:
        """How many are still on their way."""
        return self._producer.flush(seconds)

    def _told(self, error: KafkaError | None, _: Any) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.errors.append(error)


def make_topic(servers: str, topic: str, policy: str) -> None:
    configs = {
        "siltstone.retention.groups": "readers",
        "siltstone.backlog.quota.bytes": str(QUOTA_BYTES),
        "siltstone.backlog.quota.policy": policy,
    }
    admin = AdminClient({"bootstrap.servers": servers})
    (made,) = admin.create_topics([NewTopic(topic, 1, config=configs)]).values()
    made.result(SECONDS_MAX)


def send_beyond_the_quota(deliveries: Deliveries, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """Sends more than the quota, waits until the broker has noticed, and sends one record more."""
    deliveries.send(topic, BEYOND)
    assert deliveries.flush() == 0 and not deliveries.errors
    give_up = time.monotonic() + SECONDS_MAX
    while f"{topic}-0 takes no records" not in caplog.text:
        assert time.monotonic() < give_up, "the broker did not look at the backlog"
        time.sleep(0.02)
    deliveries.send(topic, 1)


def read_and_commit(servers: str, topic: str, count: int) -> int:
    """All there is, at least so many; how many."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages: list[Any] = []
        while len(messages) < count or consumer.position([TopicPartition(topic, 0)])[0].offset < count:
            messages += consumer.consume(1_000, timeout=1.0)
        assert all(message.error() is None for message in messages)
        consumer.commit(offsets=[TopicPartition(topic, 0, messages[-1].offset() + 1)], asynchronous=False)
        return len(messages)
    finally:
        consumer.close()


def test_r12_a_held_producer_goes_on_when_the_group_has_caught_up(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(servers, "held", "producer_request_hold")
    deliveries = Deliveries(servers)
    send_beyond_the_quota(deliveries, "held", caplog)
    assert deliveries.flush(HELD_SECONDS) == 1, "the record was not held"
    assert deliveries.delivered == BEYOND and not deliveries.errors
    assert read_and_commit(servers, "held", BEYOND) == BEYOND, "nothing was stored that was not answered"
    assert deliveries.flush() == 0
    assert deliveries.delivered == BEYOND + 1 and not deliveries.errors
    assert read_and_commit(servers, "held", BEYOND + 1) == BEYOND + 1


def test_sw21_a_sink_that_is_held_leaves_its_intent_and_is_finished_later(
    broker: Broker, servers: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(servers, "sink", "producer_request_hold")
    deliveries = Deliveries(servers)
    send_beyond_the_quota(deliveries, "sink", caplog)
    sink = Sink(broker.folder, "sink")
    with monkeypatch.context() as patience:
        patience.setattr(delivery, "BROKER_TIME_LIMIT_MS", 200)
        patience.setattr(delivery, "DELIVERY_TIME_LIMIT_MS", 600)
        with pytest.raises(Unavailable):
            sink.write(0, rows_of(0, 20))
    assert sink.state() is SinkState.INTENT
    read_and_commit(servers, "sink", BEYOND)
    assert deliveries.flush() == 0
    sink.write(0, rows_of(500, 20))
    assert sink.state() is SinkState.DONE
    expected = [*[b"value-%06d" % number for number in range(20)], *[VALUE] * (BEYOND + 1)]
    assert sorted(values(servers, "sink")) == sorted(expected), "the rows of the first driver, once"


def test_a_refused_producer_is_told_why(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    make_topic(servers, "refused", "producer_exception")
    deliveries = Deliveries(servers)
    send_beyond_the_quota(deliveries, "refused", caplog)
    assert deliveries.flush() == 0
    assert [error.code() for error in deliveries.errors] == [KafkaError.POLICY_VIOLATION]
    assert read_and_commit(servers, "refused", BEYOND) == BEYOND


def test_a_slow_group_is_moved_and_reads_on_from_there(servers: str) -> None:
    make_topic(servers, "evicted", "consumer_backlog_eviction")
    deliveries = Deliveries(servers)
    deliveries.send("evicted", BEYOND)
    assert deliveries.flush() == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers"})
    try:
        give_up = time.monotonic() + SECONDS_MAX
        while time.monotonic() < give_up:
            (committed,) = consumer.committed([TopicPartition("evicted", 0)], timeout=SECONDS_MAX)
            if committed.offset > 0:
                break
            time.sleep(0.05)
        assert (BEYOND - committed.offset) * len(VALUE) <= QUOTA_BYTES * 9 // 10 < QUOTA_BYTES
    finally:
        consumer.close()
