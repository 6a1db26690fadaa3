"""What tests of other people's programs do with a broker: topics, records, restarts, kills, and a bucket that fails."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

import siltstone
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.server.broker_thread import BrokerNotRunning
from support.kafka.quiet_client import QUIET
from support.processes.cli import run

DEADLINE_SECONDS = 60
DELAY_MS = 2_000


def produce(broker: siltstone.Broker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for value in values:
        producer.produce(topic, value, key=b"k", headers=[("h", b"1")])
    assert producer.flush(DEADLINE_SECONDS) == 0


def values(broker: siltstone.Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def becomes_true(condition: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def test_topics_have_the_partitions_and_configurations_that_a_test_wants() -> None:
    with siltstone.Broker() as broker:
        assert broker.create_topic("orders", partitions=3, config={"cleanup.policy": "compact"}) == "orders"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        assert len(admin.list_topics("orders", 60).topics["orders"].partitions) == 3
        described = run("topics", "describe", "orders", "--json", "-b", broker.bootstrap_servers).json
        assert described["configs"]["cleanup.policy"]["value"] == "compact"
        with pytest.raises(KafkaRefusal, match="TOPIC_ALREADY_EXISTS"):
            broker.create_topic("orders")


def test_an_error_begins_at_the_line_of_the_test() -> None:
    with (
        siltstone.Broker() as broker,
        pytest.raises(KafkaRefusal, match=r"did you mean retention\.ms\?") as refused,
    ):
        broker.create_topic("orders", config={"retention": "1d"})
    (shown,) = [entry for entry in refused.traceback if not entry.ishidden(refused)]
    assert "broker.create_topic" in str(shown.statement)


def test_records_are_all_that_a_topic_holds_with_their_places() -> None:
    with siltstone.Broker() as broker:
        broker.create_topic("orders", partitions=2)
        assert broker.records("orders") == []
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        for number, partition in enumerate((1, 0, 1)):
            producer.produce("orders", str(number), key=b"k", partition=partition, headers=[("h", None)])
        producer.produce("orders", None, partition=1)
        assert producer.flush(DEADLINE_SECONDS) == 0
        found = broker.records("orders")
        assert [(record.partition, record.offset, record.key, record.value) for record in found] == [
            (0, 0, b"k", b"1"), (1, 0, b"k", b"0"), (1, 1, b"k", b"2"), (1, 2, None, None),
        ]  # fmt: skip
        assert found[0].headers == (("h", None),) and found[0].timestamp_ms > 1_700_000_000_000
        assert broker.records("order") == []  # nobody made it, and the name of another topic changes nothing


def next_value(consumer: Consumer) -> bytes | None:
    """Of the next record. Errors that pass, such as a topic that is not there yet, are messages without a record."""
    until = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < until:
        message = consumer.poll(1)
        if message is not None and not message.error():
            return message.value()
    raise AssertionError("no record came")


def test_a_restart_keeps_store_and_address_so_that_clients_go_on() -> None:
    with siltstone.Broker() as broker:
        address, folder = broker.bootstrap_servers, broker.folder
        consumer = Consumer({
            "bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest", **QUIET,
        })  # fmt: skip
        consumer.subscribe(["orders"])
        produce(broker, "orders", b"1")
        assert next_value(consumer) == b"1"
        broker.restart()
        assert (broker.bootstrap_servers, broker.folder) == (address, folder)
        produce(broker, "orders", b"2")
        assert next_value(consumer) == b"2"
        consumer.close()
    assert not folder.exists()


@pytest.mark.parametrize("has_folder", [True, False])
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path, has_folder: bool) -> None:
    with siltstone.Broker(tmp_path if has_folder else None) as broker:
        produce(broker, "orders", b"1", b"2")
        folder = broker.folder
        broker.kill()
        with pytest.raises(BrokerNotRunning):
            broker.statistics()
        broker.restart()
        assert values(broker, "orders") == [b"1", b"2"]
        produce(broker, "orders", b"3")
        assert values(broker, "orders") == [b"1", b"2", b"3"]
        broker.kill()
        broker.restart()
        assert values(broker, "orders") == [b"1", b"2", b"3"]
    assert folder.exists() is has_folder


def test_a_killed_broker_has_uploaded_and_committed_nothing_more(tmp_path: Path) -> None:
    """An orderly stop uploads; that is the difference which a test of recovery needs."""

    def objects() -> int:
        return len(list((tmp_path / "bucket").glob("*/objects/*")))

    with siltstone.Broker(tmp_path) as broker:
        produce(broker, "orders", b"x" * 10_000)
        before = objects()
        broker.kill()
        assert objects() == before
        open_streams = run("streams", "--store", tmp_path, "--json").json["streams"]
        assert "OPENED" in {row["state"] for row in open_streams}
        broker.restart()
        broker.restart()
        assert objects() > before
        assert values(broker, "orders") == [b"x" * 10_000]


def test_a_producer_goes_on_over_a_kill() -> None:
    with siltstone.Broker() as broker:
        producer = Producer({
            "bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100, **QUIET,
        })  # fmt: skip
        for number in range(200):
            producer.produce("orders", str(number))
            producer.poll(0)
            if number == 100:
                broker.kill()
                broker.restart()
        assert producer.flush(DEADLINE_SECONDS) == 0
        assert values(broker, "orders") == [str(number).encode() for number in range(200)]


def test_a_broker_that_was_never_started_cannot_be_restarted_or_killed() -> None:
    broker = siltstone.Broker()
    for call in (broker.restart, broker.kill):
        with pytest.raises(BrokerNotRunning):
            call()
    with broker:
        pass
    with pytest.raises(BrokerNotRunning):
        broker.restart()


def test_a_bucket_that_refuses_writes_is_seen_and_nothing_is_lost() -> None:
    with siltstone.Broker(faults=siltstone.BucketFaults(refuses_writes=True)) as broker:
        produce(broker, "orders", b"1")
        assert values(broker, "orders") == [b"1"]
        broker.faults.end()
        broker.flush()
        broker.faults.refuses_writes = True
        produce(broker, "orders", b"2")
        broker.kill()
        broker.restart()
        assert values(broker, "orders") == [b"1", b"2"]


def test_a_slow_bucket_delays_a_flush_and_not_a_producer() -> None:
    with siltstone.Broker() as broker:
        produce(broker, "orders", b"1")
        broker.flush()
        broker.faults.delay_ms = DELAY_MS
        began = time.monotonic()
        produce(broker, "orders", b"2")
        assert time.monotonic() - began < DELAY_MS / 1000
        broker.flush()
        assert time.monotonic() - began >= DELAY_MS / 1000


def test_an_unreachable_bucket_does_not_keep_it_from_serving_and_stopping() -> None:
    with siltstone.Broker() as broker:
        broker.faults.is_unreachable = True
        produce(broker, "orders", b"1")
        assert values(broker, "orders") == [b"1"]


def test_an_event_loop_is_not_blocked_while_a_broker_starts_and_stops() -> None:
    async def main() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        async with siltstone.Broker() as broker:
            await asyncio.to_thread(broker.create_topic, "orders")
        ticking.cancel()
        return ticks

    assert asyncio.run(main()) > 10


def test_statistics_are_one_readable_line() -> None:
    with siltstone.Broker() as broker:
        produce(broker, "orders", b"1")
        line = repr(broker.statistics())
        assert line.startswith("<siltstone statistics: running, ready; ") and len(line) < 200
        assert "bytes in" in line and broker.statistics().network.bytes_in > 0
        assert repr(broker.faults) == "BucketFaults(delay_ms=0, refuses_writes=False, is_unreachable=False)"
