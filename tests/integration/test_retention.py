"""Retention beside a broker with real clients: consumers continue at the new start, and it stays that over any end."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from siltstone.metadata.entities import StreamMetadata
from siltstone.model.limits import MIB
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import BrokerProcess, checked_store
from support.maintenance.retained_store import retain

TOPIC = "t"
VALUE_BYTES = 10_000
RECORDS = 500
SOON = {"engine.upload.cache_block_bytes_max": "256KiB", "engine.upload.cache_block_age_ms_max": "200"}
SECONDS_MAX = 60.0
KEPT_BYTES = 2 * MIB


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "store", SOON) as running:
        yield running


def create_topic(broker: BrokerProcess) -> None:
    configs = {"segment.bytes": str(MIB), "retention.bytes": str(KEPT_BYTES), "retention.ms": "-1"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, config=configs)])[TOPIC].result(SECONDS_MAX)


def produce(broker: BrokerProcess, first: int, count: int) -> None:
    producer = Producer({
        "bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "batch.size": 100_000,
        "linger.ms": 5,
    })  # fmt: skip
    for number in range(first, first + count):
        producer.produce(TOPIC, key=b"%d" % number, value=b"v" * VALUE_BYTES)
    assert producer.flush(SECONDS_MAX) == 0


@contextmanager
def consumer(broker: BrokerProcess) -> Iterator[Consumer]:
    made = Consumer({
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    })  # fmt: skip
    with closing(made):
        yield made


def ends(reader: Consumer) -> tuple[int, int]:
    low, high = reader.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=SECONDS_MAX)
    return low, high


def read(reader: Consumer, offset: int, until: int) -> list[tuple[int, bytes]]:
    """As a consumer that was at ``offset`` reads on."""
    reader.assign([TopicPartition(TOPIC, 0, offset)])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + SECONDS_MAX
    while (not found or found[-1][0] < until - 1) and time.monotonic() < deadline:
        message = reader.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            found.append((message.offset(), message.key()))
    return found


@contextmanager
def maintenance(folder: Path) -> Iterator[MaintenanceContext]:
    """In this process, which is another than the broker's."""
    with open_store(load_node_settings(folder)) as store:
        yield store.context


def data_stream(context: MaintenanceContext) -> StreamMetadata:
    image = context.metadata.refresh()
    (topic,) = (each for each in image.topics.values() if each.name == TOPIC)
    return image.streams[topic.partitions[0].data_stream_id]


def retained_start(folder: Path, records: int) -> int:
    """Runs until all records are in the bucket, and what is due is committed and gone."""
    deadline = time.monotonic() + SECONDS_MAX
    with maintenance(folder) as context:
        while time.monotonic() < deadline:
            uploaded = data_stream(context).end_offset == records
            report = retain(context)
            assert not report.failed
            stream = data_stream(context)
            held = sum(segment.size_bytes for segment in stream.segments)
            if uploaded and stream.start_offset and held < KEPT_BYTES + MIB:
                return stream.start_offset
            time.sleep(0.1)
    raise AssertionError("nothing was trimmed")


def as_numbered(found: list[tuple[int, bytes]]) -> bool:
    return all(key == b"%d" % offset for offset, key in found)


def test_consumers_see_the_new_start_and_every_restart_keeps_it(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    create_topic(broker)
    produce(broker, 0, RECORDS)
    with consumer(broker) as reader:
        assert ends(reader) == (0, RECORDS)
        start = retained_start(folder, RECORDS)
        assert RECORDS // 4 < start < RECORDS
        assert (RECORDS - start) * VALUE_BYTES > KEPT_BYTES
        deadline = time.monotonic() + SECONDS_MAX
        while ends(reader) != (start, RECORDS):  # the broker has not heard of it yet
            assert time.monotonic() < deadline
        for offset in (0, start - 1, start):
            found = read(reader, offset, RECORDS)
            assert [found[0][0], found[-1][0], len(found)] == [start, RECORDS - 1, RECORDS - start]
            assert as_numbered(found)
        (at_once,) = reader.offsets_for_times([TopicPartition(TOPIC, 0, 0)], timeout=SECONDS_MAX)
        assert at_once.offset == start != OFFSET_INVALID
    broker.kill()
    broker.start()
    with consumer(broker) as reader:
        assert ends(reader) == (start, RECORDS)
        produce(broker, RECORDS, RECORDS // 2)
        assert as_numbered(read(reader, 0, RECORDS * 3 // 2))
    later = retained_start(folder, RECORDS * 3 // 2)
    assert later > start
    assert broker.stop() == 0
    broker.start()
    with consumer(broker) as reader:
        assert ends(reader) == (later, RECORDS * 3 // 2)
        found = read(reader, 0, RECORDS * 3 // 2)
        assert found[0][0] == later and as_numbered(found)
    assert broker.stop() == 0
    assert "clean" in checked_store(folder)
