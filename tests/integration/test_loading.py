"""Batches of a sink that are written as objects, without a broker: each record once, wherever the driver dies, and a
broker that starts then has them as if it had appended them."""

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

import siltstone
from siltstone.kafka_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.entities import SINK_NODE, StreamMetadata, StreamState
from siltstone.metadata.refusals import SinkTakenOver, StreamNotClosed
from siltstone.metadata.sinks import SINK_PREFIX, SinkState, batch_folder
from siltstone.model.limits import GIB, MIB
from siltstone.model.objects import ObjectKind, ObjectState
from siltstone.runtime.clock import SystemClock
from siltstone.scanning.source import open_source
from siltstone.sinking import load
from siltstone.sinking.batch import abandon
from siltstone.sinking.failures import SinkBatchStuck, TopicGoneForSink
from siltstone.sinking.load_plan import plan_load
from siltstone.sinking.staging import REPORT_VERSION, StagedPart, TaskReport, stage_rows
from siltstone.stream_engine.engine import StreamEngine
from support.kafka.raw_kafka import RawConnection
from support.maintenance import sinks
from support.maintenance.sinks import COLUMNS, QUIET, Killed, Sink, consumed, create, rows_of, values
from support.processes.cli import run
from support.processes.ports import free_ports
from support.processes.tried import RecordTried

STEPS = ("staged", "intent", "prepared", "copied", "done")


class Store:
    """A store whose broker runs only where a test needs it."""

    def __init__(self, folder: Path) -> None:
        self.broker = siltstone.Broker(folder)
        self.folder = folder

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        with self.broker:
            return create(self.broker.bootstrap_servers, name, partitions, **config)

    def sink(self, topic: str | None, name: str = "out", mode: str | None = "objects") -> Sink:
        return Sink(self.folder, topic, name, mode=mode)

    def values(self, topic: str, partitions: int = 1) -> list[bytes]:
        with self.broker:
            return values(self.broker.bootstrap_servers, topic, partitions)

    def scanned(self, topic: str) -> list[bytes]:
        rows = siltstone.scan(topic, store=self.folder, columns=["value"]).to_arrow()
        return sorted(rows.column("value").to_pylist())

    def streams(self, topic: str) -> list[StreamMetadata]:
        with open_source(self.folder) as source:
            image = source.metadata.image
            found = image.topics[image.topic_ids[topic]]
            return [image.streams[each.data_stream_id] for each in found.partitions]

    def objects(self) -> dict[int, ObjectKind | None]:
        with open_source(self.folder) as source:
            found = source.metadata.image.objects.values()
            return {each.object_id: each.kind for each in found if each.state is ObjectState.COMMITTED}

    def check(self) -> None:
        with open_source(self.folder) as source:
            report = check(source)
            assert report.is_clean, report


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "store")
    yield store
    store.broker.stop()


def numbers(*ranges: range) -> list[bytes]:
    return sorted(b"value-%06d" % n for each in ranges for n in each)


def test_a_batch_without_a_broker_is_objects_that_scans_and_then_a_broker_read(store: Store) -> None:
    topic = store.topic("rows", 3)
    sink = store.sink(topic, mode=None)
    sink.write(0, rows_of(0, 100), rows_of(100, 50))
    assert sink.state() is SinkState.DONE and sink.staged() == []
    assert store.scanned(topic) == numbers(range(150))
    assert list(store.objects().values()).count(ObjectKind.STREAM_SET_OBJECT) >= 1, "small streams share one"
    for stream in store.streams(topic):
        assert (stream.state, stream.owner) == (StreamState.CLOSED, SINK_NODE)
        assert stream.owner_ranges[-1].end_offset == stream.end_offset > 0
    sink.write(1, rows_of(150, 10))
    assert [len(stream.owner_ranges) for stream in store.streams(topic)] == [1, 1, 1], "one for many batches"
    listed = run("streams", "--store", store.folder, COLUMNS="200").out
    assert listed.count(" sink ") == 3, "an owner that is no node is named"
    assert store.values(topic, 3) == numbers(range(160))
    with open_source(store.folder) as source:
        assert SINK_NODE not in source.metadata.image.nodes and not source.metadata.image.jobs
    store.check()
    with store.broker:
        producer = Producer({"bootstrap.servers": store.broker.bootstrap_servers, **QUIET})
        producer.produce(topic, b"value-000160", partition=0)
        assert producer.flush(60) == 0
        sink.write(2, rows_of(161, 10))
        standing = sink.standing()
        assert standing is not None and standing.mode == "relay", "a broker is there now"
    sink.write(3, rows_of(171, 10))
    assert store.scanned(topic) == numbers(range(181))
    store.check()


@pytest.mark.parametrize("step", STEPS)
def test_sw2_sw3_sw23_a_driver_that_dies_at_any_step_leaves_each_record_once(store: Store, step: str) -> None:
    topic = store.topic("killed", 2)
    sink = store.sink(topic)
    sink.write(0, rows_of(0, 100))
    with pytest.raises(Killed):
        sink.write(1, rows_of(100, 50), rows_of(150, 50), killed_at=step)
    with store.broker:
        there = values(store.broker.bootstrap_servers, topic, 2)
    assert there == numbers(range(200 if step == "done" else 100)), "all of it or nothing, at once"
    sink.write(1, rows_of(1_000, 100))
    sink.write(1, rows_of(2_000, 100))
    sink.write(2, rows_of(300, 10))
    second = range(1_000, 1_100) if step == "staged" else range(100, 200)
    assert store.values(topic, 2) == numbers(range(100), second, range(300, 310))
    with open_source(store.folder) as source:
        sweep(msgspec.structs.replace(source, clock=_Later(40 * 3_600_000)))
    store.check()


class _Later(SystemClock):
    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._by_ms


def test_sw8_a_topic_that_a_broker_has_open_is_refused_by_name_and_nothing_is_begun(store: Store) -> None:
    topic = store.topic("live")
    with store.broker:
        address = store.broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, **QUIET})
        producer.produce(topic, b"theirs-0")
        assert producer.flush(60) == 0
        sink = store.sink(topic)
        with pytest.raises(
            StreamNotClosed, match=r"live-0 is open at node 0.*stop that broker, or write with mode=relay"
        ):
            sink.write(0, rows_of(0, 10))
        assert sink.standing() is None
        producer.produce(topic, b"theirs-1")
        assert producer.flush(60) == 0
    sink.write(0, rows_of(0, 10))
    assert store.values(topic) == [b"theirs-0", b"theirs-1", *numbers(range(10))]


def test_sw8_an_idempotent_producer_goes_on_behind_a_load(store: Store) -> None:
    topic = store.topic("resumed")
    store.broker = siltstone.Broker(store.folder, port=free_ports(1)[0])
    with store.broker:
        producer = Producer(
            {"bootstrap.servers": store.broker.bootstrap_servers, "enable.idempotence": True, **QUIET}
        )
        for number in range(3):
            producer.produce(topic, b"theirs-%d" % number)
            assert producer.flush(60) == 0
        store.broker.stop()
        store.sink(topic).write(0, rows_of(0, 10))
        store.broker.start()
        producer.produce(topic, b"theirs-3")
        assert producer.flush(60) == 0
        found = [message.value() for message in consumed(store.broker.bootstrap_servers, topic)]
    assert found == [*(b"theirs-%d" % n for n in range(3)), *numbers(range(10)), b"theirs-3"]


def test_sw9_epochs_and_consumers_go_over_the_seam(store: Store) -> None:
    topic = store.topic("seam")
    with store.broker:
        producer = Producer({"bootstrap.servers": store.broker.bootstrap_servers, **QUIET})
        producer.produce(topic, b"before")
        assert producer.flush(60) == 0
    (before,) = store.streams(topic)
    store.sink(topic).write(0, rows_of(0, 10))
    (loaded,) = store.streams(topic)
    assert loaded.epoch == before.epoch + 1
    with store.broker:
        address = store.broker.bootstrap_servers
        (opened,) = store.streams(topic)
        producer = Producer({"bootstrap.servers": address, **QUIET})
        producer.produce(topic, b"after")
        assert producer.flush(60) == 0
        (opened,) = store.streams(topic)
        assert opened.epoch == loaded.epoch + 1
        epochs = [message.leader_epoch() for message in consumed(address, topic)]
        assert epochs == [before.epoch, *[loaded.epoch] * 10, opened.epoch]
        for epoch, end in ((before.epoch, 1), (loaded.epoch, 11), (opened.epoch, 12)):
            assert epoch_end(address, topic, opened.epoch, epoch) == (epoch, end)
        consumer = Consumer({"bootstrap.servers": address, "group.id": "seam", **QUIET})
        consumer.assign([TopicPartition(topic, 0, 1, leader_epoch=before.epoch)])
        message = consumer.poll(60)
        assert message is not None and message.error() is None and message.offset() == 1, (
            "it truncates nothing"
        )
        consumer.close()


def test_sw10_sw26_a_zombie_driver_prepares_and_commits_nothing(store: Store) -> None:
    topic = store.topic("zombie", 2)
    sink = store.sink(topic)
    first, second = sink.stage(0, rows_of(0, 50)), sink.stage(0, rows_of(100, 50))

    def taken_over(at: str, **how: Any) -> Any:
        def step(name: str) -> None:
            if name == at:
                with suppress(Killed):
                    sink.commit(0, second, **how)

        return step

    for at in ("intent", "copied"):
        with pytest.raises(SinkTakenOver):
            sink.commit(0, first, on_step=taken_over(at, killed_at="intent"))
        assert sink.state() is SinkState.INTENT and store.scanned(topic) == []
    sink.commit(0, first, on_step=taken_over("copied"))
    assert sink.state() is SinkState.DONE
    assert store.scanned(topic) == numbers(range(50)), "those of the first, once"
    with open_source(store.folder) as source:
        sweep(msgspec.structs.replace(source, clock=_Later(40 * 3_600_000)))
    store.check()


def test_sw13_maintenance_between_batches_changes_nothing(store: Store) -> None:
    topic = store.topic("maintained", 2, **{"cleanup.policy": "compact,delete"})
    sink = store.sink(topic)
    for batch_id in range(3):
        sink.write(batch_id, rows_of(100 * batch_id, 100))
        with siltstone.open_store(store.folder) as opened:
            siltstone.maintenance.plan(opened).run()
    with pytest.raises(Killed):
        sink.write(3, rows_of(300, 100), killed_at="copied")
    with siltstone.open_store(store.folder) as opened:
        siltstone.maintenance.plan(opened).run()
    sink.write(3, rows_of(900, 100))
    found = store.values(topic, 2)
    assert set(numbers(range(393, 400))) <= set(found) and len(found) == len(set(found))
    store.check()


def test_sw14_an_empty_batch_is_recorded_and_leaves_no_object(store: Store) -> None:
    topic = store.topic("empty", 2)
    before = store.objects()
    sink = store.sink(topic)
    sink.write(0, rows_of(0, 0))
    sink.write(1)
    assert (sink.state(), sink.staged(), store.objects()) == (SinkState.DONE, [], before)
    sink.write(2, pa.record_batch({"key": [b"a"], "value": [b"v"]}), rows_of(3, 0))
    assert store.scanned(topic) == [b"v"]
    assert sorted(stream.end_offset for stream in store.streams(topic)) == [0, 1]


def test_sw15_a_topic_that_went_away_is_named_and_nothing_is_written(store: Store) -> None:
    topic = store.topic("going")
    sink = store.sink(topic)
    reports = sink.stage(0, rows_of(0, 5))
    with store.broker:
        admin = AdminClient({"bootstrap.servers": store.broker.bootstrap_servers, **QUIET})
        admin.delete_topics([topic])[topic].result(60)
    with pytest.raises(TopicGoneForSink, match="topic going was deleted or created again"):
        sink.commit(0, reports)
    store.topic("going")
    with pytest.raises(TopicGoneForSink):
        sink.commit(0, reports)
    assert sink.state() is None
    reports = sink.stage(0, rows_of(0, 5))
    with store.broker:
        admin = AdminClient({"bootstrap.servers": store.broker.bootstrap_servers, **QUIET})
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(60)
    sink.commit(0, reports)
    assert [stream.end_offset for stream in store.streams(topic)] == [5, 0, 0]

    def deleted(step: str) -> None:
        if step == "copied":
            with store.broker:
                admin = AdminClient({"bootstrap.servers": store.broker.bootstrap_servers, **QUIET})
                admin.delete_topics([topic])[topic].result(60)

    with pytest.raises(SinkBatchStuck, match="the topic was deleted, and none of its records were written"):
        sink.commit(1, sink.stage(1, rows_of(5, 5)), on_step=deleted)
    with open_source(store.folder) as source:
        given_up = abandon(source, "out")
    assert given_up is not None and sink.state() is SinkState.ABANDONED


def test_sw18_a_topic_with_log_append_time_has_the_time_of_the_load(store: Store) -> None:
    topic = store.topic("appended", 1, **{"message.timestamp.type": "LogAppendTime"})
    before_ms = SystemClock().now_ms()
    store.sink(topic).write(0, rows_of(0, 3))
    after_ms = SystemClock().now_ms()
    rows = siltstone.scan(topic, store=store.folder).to_arrow()
    assert rows.column("timestampType").to_pylist() == [1, 1, 1]
    with store.broker:
        found = [message.timestamp() for message in consumed(store.broker.bootstrap_servers, topic)]
    assert {kind for kind, _ in found} == {2} and len(found) == 3
    assert all(before_ms <= at_ms <= after_ms for _, at_ms in found)


def test_sw23_a_broker_that_opens_the_topic_during_the_copy_keeps_it_and_relays_it_afterwards(
    store: Store,
) -> None:
    topic = store.topic("raced", 2)
    sink = store.sink(topic)
    sink.write(0, rows_of(0, 20))

    def opened(step: str) -> None:
        if step == "copied":
            store.broker.start()
            producer = Producer({"bootstrap.servers": store.broker.bootstrap_servers, **QUIET})
            for number in range(2):
                producer.produce(topic, b"theirs", partition=number)
            assert producer.flush(60) == 0

    with pytest.raises(StreamNotClosed, match="is open at node 0"):
        sink.commit(1, sink.stage(1, rows_of(20, 20)), on_step=opened)
    assert sink.state() is SinkState.INTENT
    with pytest.raises(StreamNotClosed):
        sink.write(1, rows_of(900, 20))
    sink.mode = None
    sink.write(1, rows_of(900, 20))
    assert sink.state() is SinkState.DONE
    found = values(store.broker.bootstrap_servers, topic, 2)
    assert found == sorted([b"theirs"] * 2 + numbers(range(40))), "the rows of the batch that was begun, once"
    sink.write(2, rows_of(40, 20))
    assert len(values(store.broker.bootstrap_servers, topic, 2)) == 62
    store.broker.stop()
    store.check()


def test_sw23_a_nameless_batch_that_is_refused_leaves_no_record(store: Store) -> None:
    topic = store.topic("nameless")
    sink = store.sink(topic, "batch-00")

    def opened(step: str) -> None:
        if step == "copied":
            store.broker.start()
            assert values(store.broker.bootstrap_servers, topic) == []

    reports = sink.stage(0, rows_of(0, 5))
    with pytest.raises(StreamNotClosed):
        sink.commit(0, reports, on_step=opened, is_nameless=True)
    store.broker.stop()
    assert sink.standing() is None
    sink.commit(0, reports, is_nameless=True)
    assert sink.standing() is None and store.scanned(topic) == numbers(range(5))


def test_sw25_many_partitions_and_tasks_make_a_small_record_and_no_job(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.topic("many", 100)
    sink = store.sink(topic)
    tasks = [rows_of(7 * number, 7) for number in range(40)]
    sink.write(0, *tasks)
    with open_source(store.folder) as source:
        image = source.metadata.image
        assert len(image.keys[f"{SINK_PREFIX}out"]) < 16 * 1024 + 16 * 100
        assert not image.jobs
        assert sum(each.kind is ObjectKind.STREAM_SET_OBJECT for each in image.objects.values()) <= 2
    assert store.scanned(topic) == numbers(range(280))


def test_large_streams_are_stream_objects_cut_at_a_size_and_uploaded_in_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.topic("large", 2, **{"compression.type": "uncompressed"})
    monkeypatch.setattr("siltstone.sinking.encoding.BATCH_BYTES_MAX", 2_000)
    small = partial(stage_rows, held_bytes_max=20_000, inline_bytes_max=100)
    monkeypatch.setattr(sinks, "stage_rows", small)
    cut = partial(plan_load, split_size_bytes=1_000, object_bytes_max=30_000)
    monkeypatch.setattr(load, "plan_load", cut)
    before = store.objects()
    sink = store.sink(topic)
    sink.write(0, *(rows_of(500 * number, 500) for number in range(8)))
    made = {key: kind for key, kind in store.objects().items() if key not in before}
    assert set(made.values()) == {ObjectKind.STREAM_OBJECT} and len(made) >= 4
    assert store.values(topic, 2) == numbers(range(4_000))
    store.check()


def test_sw12_a_broker_opens_what_was_loaded_without_reading_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.topic("opened", 1, **{"compression.type": "uncompressed", "retention.ms": "-1"})
    columns = [*COLUMNS, ("timestamp", "timestamp")]
    sink = Sink(store.folder, topic, columns=columns, mode="objects")
    body = b"v" * 1_000
    for batch_id in range(4):
        times = pa.array([(1_700_000_000_000 + batch_id) * 1_000] * 1_000, pa.timestamp("us", "UTC"))
        sink.write(
            batch_id, pa.record_batch({"key": [None] * 1_000, "value": [body] * 1_000, "timestamp": times})
        )
    (stream,) = store.streams(topic)
    read: list[int] = []
    real = StreamEngine.read

    async def counted(self: StreamEngine, stream: Any, *given: Any) -> Any:
        found = await real(self, stream, *given)
        read.extend(len(batch) for batch in found)
        return found

    monkeypatch.setattr(StreamEngine, "read", counted)
    with store.broker:
        address = store.broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address, **QUIET})
        asked = TopicPartition(topic, 0)
        producer = Producer({"bootstrap.servers": address, **QUIET})
        producer.produce(topic, b"after")
        assert producer.flush(60) == 0
        assert sum(read) < 10_000 < stream.ranges[0].size_bytes, "it opens the partition by the metadata"
        for batch_id in range(4):
            spec = {asked: OffsetSpec.for_timestamp(1_700_000_000_000 + batch_id)}
            assert admin.list_offsets(spec)[asked].result(60).offset == 1_000 * batch_id
        newest = admin.list_offsets({asked: OffsetSpec.max_timestamp()})[asked].result(60)
        assert newest.offset == 4_000
    with siltstone.open_store(store.folder) as opened:
        siltstone.maintenance.plan(opened).run()
    assert store.streams(topic)[0].start_offset == 0, "nothing is as old as retention wants"


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
def test_sw12_a_gibibyte_is_opened_in_a_second_of_work(
    store: Store, monkeypatch: pytest.MonkeyPatch, record_tried: RecordTried
) -> None:
    """The load has 1 GiB of batches of 1 MiB. The CPU time of this process counts, in which the broker runs."""
    topic = store.topic("gibibyte", 1, **{"retention.ms": "-1"})
    sink = store.sink(topic)
    (stream,) = store.streams(topic)
    batch = bytes(build_batch([Record(timestamp_ms=5_000, key=None, value=b"v" * 1_022)] * 1_000))
    count, parts = GIB // len(batch) + 1, []
    with sink.opened(plans=True) as (source, plan):
        bucket = source.buckets.store(0)
        for number, first in enumerate(range(0, count, 50)):
            key = f"{batch_folder('out', 0)}{number}-a"
            bucket.put(key, [batch] * (held := min(50, count - first)))
            topic_id = plan.topics[0].topic_id
            parts.append(
                StagedPart(topic, topic_id, 0, stream.stream_id, key, 0, held * len(batch), held * 1_000)
            )
    sink.commit(0, [TaskReport(REPORT_VERSION, 0, "query", SystemClock().now_ms(), tuple(parts))])
    read: list[int] = []
    real = StreamEngine.read

    async def counted(self: StreamEngine, stream: Any, *given: Any) -> Any:
        found = await real(self, stream, *given)
        read.extend(len(batch) for batch in found)
        return found

    monkeypatch.setattr(StreamEngine, "read", counted)
    with store.broker:
        producer = Producer({"bootstrap.servers": store.broker.bootstrap_servers, **QUIET})
        before = time.process_time()
        producer.produce(topic, b"after", partition=0)
        assert producer.flush(60) == 0
        assert time.process_time() - before < 1 and sum(read) < MIB
        assert store.streams(topic)[0].end_offset == count * 1_000
    record_tried("bytes", count * len(batch))


def epoch_end(address: str, topic: str, current: int, asked: int) -> tuple[int, int]:
    host, port = address.split(":")
    partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=asked)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[partition])])
    with RawConnection((host, int(port))) as connection:
        ((row,),) = (each.partitions for each in connection.ask(request, 4).topics)
    assert row.error_code == 0
    return row.leader_epoch, row.end_offset
