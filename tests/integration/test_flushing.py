"""Scans with ``tail=flush``: brokers upload what they have acknowledged, and then only objects are read."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.metadata.flushes import flushes_of
from siltstone.object_store.metadata_mark import MetadataOlderThanBucket
from siltstone.offline.context import MaintenanceContext
from siltstone.scanning import flushing, tail
from siltstone.scanning.failures import TailNotReadable
from siltstone.scanning.request import EARLIEST, LATEST, Bounds, ScanRequest, Tail
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.source import open_source
from siltstone.scanning.streaming.advancing import BatchLimit
from siltstone.scanning.streaming.topic_stream import StreamOfTopics, StreamRequest
from support.broker.broker_process import BrokerProcess
from support.maintenance.sinks import QUIET, create

SLOW = {"engine.upload.cache_block_age_ms_max": "10min", "engine.upload.block_size_bytes": "4KiB"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("flushing") / "store", settings=SLOW) as running:
        yield running


@pytest.fixture
def no_broker_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a broker was asked")

    monkeypatch.setattr(tail, "Cluster", refused)


def produce(address: str, topic: str, count: int, first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": address, **QUIET})
    for number in range(first, first + count):
        producer.produce(topic, key=b"key-%d" % (number % 3), value=b"value-%06d" % number)
    assert producer.flush(60) == 0


@pytest.mark.usefixtures("no_broker_is_asked")
def test_sr5_what_was_just_acknowledged_is_uploaded_and_read_from_its_object(
    broker: siltstone.Broker,
) -> None:
    topic = create(broker.bootstrap_servers, "flights")
    produce(broker.bootstrap_servers, topic, 10)
    before = siltstone.scan(topic, store=broker.folder, tail="committed")
    assert before.to_arrow().num_rows == 0
    flushed = siltstone.scan(topic, store=broker.folder, tail="flush")
    assert flushed.plan.object_count == 1 and not any(unit.tail_pieces for unit in flushed.plan.units)
    assert flushed.to_arrow().column("offset").to_pylist() == list(range(10))
    produce(broker.bootstrap_servers, topic, 5, 10)
    assert siltstone.scan(topic, store=broker.folder, tail="flush").to_arrow().num_rows == 15
    assert flushed.to_arrow().num_rows == 10


def test_sr5_many_scans_at_once_share_the_uploads(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "shared", 2)
    produce(broker.bootstrap_servers, topic, 10)
    counts: list[int] = []

    def scan() -> None:
        counts.append(siltstone.scan(topic, store=broker.folder, tail="flush").to_arrow().num_rows)

    threads = [threading.Thread(target=scan) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [10] * 6
    with open_source(broker.folder) as source:
        flushes = flushes_of(source.metadata.image, 0)
        assert flushes.asked == flushes.answered >= 6


def test_sr30_the_tail_of_a_compacted_topic_is_uploaded_so_key_compaction_takes_no_planned_row(
    broker: siltstone.Broker, no_broker_is_asked: None
) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1"}
    topic = create(broker.bootstrap_servers, "newest", 1, **config)
    produce(broker.bootstrap_servers, topic, 30)
    planned = siltstone.scan(topic, store=broker.folder)
    assert not any(unit.tail_pieces for unit in planned.plan.units)
    produce(broker.bootstrap_servers, topic, 30, 30)
    broker.flush()
    with siltstone.open_store(broker.folder) as store:
        siltstone.maintenance.plan(store).run()
    assert planned.to_arrow().column("offset").to_pylist() == list(range(30))


def test_a_scan_without_a_lease_writes_nothing_and_fetches_such_a_tail(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "read-only", 1, **{"cleanup.policy": "compact"})
    produce(broker.bootstrap_servers, topic, 3)
    with open_source(broker.folder) as source:
        before = source.metadata.image.version
    planned = siltstone.scan(topic, store=broker.folder, lease="0")
    assert any(unit.tail_pieces for unit in planned.plan.units) and planned.to_arrow().num_rows == 3
    with open_source(broker.folder) as source:
        assert source.metadata.image.version == before


def test_sr4_an_owner_that_was_killed_is_named_and_a_closed_store_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "FLUSH_MS_MAX", 300)
    store = tmp_path / "store"
    with BrokerProcess(store, SLOW) as process:
        address = process.bootstrap_servers
        create(address, "flights")
        produce(address, "flights", 10)
        process.kill()
        with pytest.raises(TailNotReadable, match=r"node 0 has 1 partition open \(flights-0\).*not uploaded"):
            siltstone.scan("flights", store=store, tail="flush")
        process.start()
        monkeypatch.setattr(flushing, "FLUSH_MS_MAX", 60_000)
        assert siltstone.scan("flights", store=store, tail="flush").to_arrow().num_rows == 10
        address = process.bootstrap_servers
        produce(address, "flights", 5, 10)
    assert siltstone.scan("flights", store=store, tail="flush").to_arrow().num_rows == 15


def test_rule_11_an_older_copy_of_the_metadata_asks_for_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with siltstone.Broker(folder, settings=SLOW) as running:
        create(running.bootstrap_servers, "flights")
        produce(running.bootstrap_servers, "flights", 10)
        running.kill()
        metadata = folder / "metadata.sqlite"
        older = metadata.read_bytes()
        running.restart()
        produce(running.bootstrap_servers, "flights", 10, 10)
        running.flush()
        running.kill()
    metadata.write_bytes(older)
    for suffix in ("-wal", "-shm"):
        metadata.with_name(metadata.name + suffix).unlink(missing_ok=True)
    with pytest.raises(MetadataOlderThanBucket):
        siltstone.scan("flights", store=folder, tail="flush", lease="0")
    with open_source(folder) as source:
        assert flushes_of(source.metadata.image, 0).asked == 0


@pytest.mark.usefixtures("no_broker_is_asked")
def test_a_stream_reads_what_was_flushed_and_flushes_only_from_time_to_time(
    broker: siltstone.Broker,
) -> None:
    topic = create(broker.bootstrap_servers, "streamed")
    produce(broker.bootstrap_servers, topic, 10)

    @contextmanager
    def opened() -> Iterator[MaintenanceContext]:
        with open_source(broker.folder) as source:
            yield source

    def request(flush_interval_ms: int, start: Any = EARLIEST) -> StreamRequest:
        scan = ScanRequest(topics=(topic,), start=Bounds(start), tail=Tail.FLUSH)
        return StreamRequest(scan, poll_interval_ms=0, flush_interval_ms=flush_interval_ms)

    def rows(stream: StreamOfTopics, *ends: Any) -> int:
        with open_source(broker.folder) as source:
            return sum(
                batch.num_rows
                for unit in stream.plan(*ends)
                for batch in unit_rows(unit, source.clock, source.rng)
            )

    stream, rare = StreamOfTopics(opened, request(0)), StreamOfTopics(opened, request(3_600_000, LATEST))
    try:
        first = stream.initial()
        second = stream.latest(first, BatchLimit())
        assert rows(stream, first, second) == 10
        seldom = rare.initial()
        assert rare.latest(seldom, BatchLimit()) == seldom, "latest is behind what was acknowledged"
        produce(broker.bootstrap_servers, topic, 5, 10)
        assert rare.latest(seldom, BatchLimit()) == seldom, "the next flush is in an hour"
        third = stream.latest(second, BatchLimit())
        assert rows(stream, second, third) == 5
        assert rows(rare, seldom, rare.latest(seldom, BatchLimit())) == 5
    finally:
        stream.close()
        rare.close()
    bounded = StreamOfTopics(opened, request(0))
    try:
        produce(broker.bootstrap_servers, topic, 5, 15)
        bounded.fix_ends()
        start = bounded.initial()
        assert rows(bounded, start, bounded.latest(start, BatchLimit())) == 20
    finally:
        bounded.close()
