"""``StreamOfTopics`` on real brokers, without Spark: the micro-batches of a query have each record once, whatever
happens between them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import siltstone
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import ManualClock
from siltstone.scanning.failures import DataLost, TailNotReadable, TopicNotThere
from siltstone.scanning.request import EARLIEST, LATEST, Bound, BoundKind, Bounds, ScanRequest
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.source import open_source
from siltstone.scanning.streaming import topic_stream
from siltstone.scanning.streaming.advancing import BatchLimit, LimitKind
from siltstone.scanning.streaming.failures import StoreIsAnother, TopicGone, TopicMadeAnew
from siltstone.scanning.streaming.position import (
    StreamPosition,
    decode_position,
    encode_position,
)
from siltstone.scanning.streaming.topic_stream import StreamOfTopics, StreamRequest
from support.broker.broker_process import BrokerProcess
from support.kafka.quiet_client import QUIET

ALL = BatchLimit()


class Query:
    """What Spark does with a stream: it keeps the position as text, asks for the next one, and reads what is between
    them. ``rows`` has all that was read, by partition."""

    def __init__(
        self,
        store: Path,
        topic: str,
        checkpoint: str | None = None,
        *,
        is_bounded: bool = False,
        **options: Any,
    ) -> None:
        self.context: MaintenanceContext | None = None
        self._store = store
        settings = {
            name: options.pop(name)
            for name in ("offsets_min", "trigger_delay_ms", "group_id")
            if name in options
        }
        scan = ScanRequest(**{"topics": (topic,), "start": Bounds(EARLIEST), **options})
        self.stream = StreamOfTopics(self._open, StreamRequest(scan, poll_interval_ms=0, **settings))
        if is_bounded:
            self.stream.fix_ends()
        self.checkpoint = checkpoint or json.dumps(encode_position(self.stream.initial()))
        self.rows: dict[tuple[str, int], list[int]] = {}

    @contextmanager
    def _open(self) -> Iterator[MaintenanceContext]:
        with open_source(self._store) as self.context:
            yield self.context

    @property
    def position(self) -> StreamPosition:
        return decode_position(json.loads(self.checkpoint))

    def next(self, limit: BatchLimit = ALL) -> str:
        return json.dumps(encode_position(self.stream.latest(self.position, limit)))

    def read(self, end: str) -> int:
        count = 0
        for unit in self.stream.plan(self.position, decode_position(json.loads(end))):
            for batch in unit_rows(unit):
                count += batch.num_rows
                for row in batch.select(["topic", "partition", "offset"]).to_pylist():
                    self.rows.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
        self.checkpoint = end
        return count

    def batch(self, limit: BatchLimit = ALL) -> int:
        """Reads one micro-batch; the number of its rows, 0 if there is none."""
        end = self.next(limit)
        return self.read(end) if end != self.checkpoint else 0

    def __enter__(self) -> "Query":
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    folder = tmp_path_factory.mktemp("streaming") / "store"
    with siltstone.Broker(folder, settings={"engine.upload.block_size_bytes": "4KiB"}) as running:
        yield running


def create(address: str, name: str, partitions: int = 1) -> str:
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    admin.create_topics([NewTopic(name, partitions)])[name].result(60)
    return name


def delete(address: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    admin.delete_topics([name])[name].result(60)


def produce(address: str, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, **QUIET})
    for number in range(count):
        producer.produce(topic, b"value-%d" % number, partition=partition)
    assert producer.flush(60) == 0


def test_ss1_available_now_ends_where_the_topic_ended_when_it_began(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "bounded")
    produce(address, topic, 60)
    broker.flush()
    produce(address, topic, 40)  # these are in no object yet
    limit = BatchLimit(LimitKind.OFFSETS, 40)
    with Query(broker.folder, topic, is_bounded=True) as query:
        produce(address, topic, 7)
        create(address, "bounded-later")
        assert [query.batch(limit) for _ in range(4)] == [40, 40, 20, 0]
    with Query(broker.folder, topic, query.checkpoint, is_bounded=True) as again:
        assert [again.batch(limit), again.batch(limit)] == [7, 0]
    assert query.rows["bounded", 0] + again.rows["bounded", 0] == [*range(107)]
    with Query(broker.folder, topic, is_bounded=True, start=Bounds(LATEST)) as late:
        assert late.batch() == 0 and late.position.offsets == again.position.offsets


def test_ss2_ss14_a_replayed_micro_batch_has_the_same_records(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "replayed", 2)
    produce(broker.bootstrap_servers, topic, 50)
    with Query(broker.folder, topic) as query:
        start, end = query.checkpoint, query.next(BatchLimit(LimitKind.OFFSETS, 30))
        assert query.read(end) == 30
    produce(broker.bootstrap_servers, topic, 20)
    broker.flush()
    columns = ("topic", "partition", "offset")  # SS14: others than before; positions know no columns
    with Query(broker.folder, topic, start, columns=columns) as restarted:
        assert restarted.read(end) == 30  # the first call is for positions of the checkpoint
        assert restarted.rows == query.rows
        assert restarted.batch() == 40 and restarted.rows[topic, 0] == [*range(70)]


def test_ss4_a_partition_that_is_added_is_read_from_its_first_record(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "growing")
    produce(address, topic, 20)
    with Query(broker.folder, topic, start=Bounds(LATEST)) as query:
        admin = AdminClient({"bootstrap.servers": address, **QUIET})
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(60)
        assert query.batch() == 0
        produce(address, topic, 5, partition=2)
        produce(address, topic, 3)
        assert query.batch() == 8
    assert query.rows == {(topic, 2): [0, 1, 2, 3, 4], (topic, 0): [20, 21, 22]}


def test_ss5_a_topic_made_anew_is_never_taken_for_the_old_one(
    broker: siltstone.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "renewed")
    produce(address, topic, 10)
    with Query(broker.folder, topic) as query:
        assert query.batch() == 10
        start = query.checkpoint
        produce(address, topic, 5)
        end = query.next()
        delete(address, topic)
        for ask in (query.next, lambda: query.read(end)):
            with pytest.raises(TopicGone, match="topic renewed was deleted"):
                ask()
        create(address, topic)
        produce(address, topic, 30)  # more than before: only ids tell them apart
        for ask in (query.next, lambda: query.read(end)):
            with pytest.raises(TopicMadeAnew, match="topic renewed was deleted and created again"):
                ask()
    with Query(broker.folder, topic, start, fail_on_data_loss=False) as lenient:
        assert lenient.batch() == 30
        assert lenient.rows == {(topic, 0): [*range(30)]}
        assert "created again" in caplog.text
        delete(address, topic)
        assert lenient.batch() == 0 and lenient.position.offsets == {}


def test_ss5_a_pattern_finds_later_topics_and_keeps_to_the_ids_it_has_read(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    produce(address, create(address, "some-1"), 3)
    with Query(broker.folder, "", topics=(), pattern="some-.*", start=Bounds(LATEST)) as query:
        produce(address, create(address, "some-2"), 4)
        assert query.batch() == 4
        delete(address, "some-2")
        with pytest.raises(TopicGone):
            query.next()


def test_ss7_compaction_and_sweeps_take_nothing_from_a_micro_batch(tmp_path: Path) -> None:
    topic, folder = "compacting", tmp_path / "store"
    with siltstone.Broker(folder, settings={"engine.upload.block_size_bytes": "1KiB"}) as running:
        create(running.bootstrap_servers, topic, 2)
        for _ in range(3):
            produce(running.bootstrap_servers, topic, 15)
            produce(running.bootstrap_servers, topic, 15, partition=1)
            running.flush()
    with Query(folder, topic) as query:
        units = query.stream.plan(query.position, decode_position(json.loads(query.next())))
        planned = {piece.object_id for unit in units for piece in unit.pieces}
        with siltstone.open_store(folder) as store:
            siltstone.maintenance.plan(store, kinds=["sso-compaction"]).run()
            assert planned & set(store.metadata.refresh().destroyed), "they were replaced"
            assert sweep(store.context, grace_period_ms=0).objects_pinned >= 1
            assert sum(batch.num_rows for unit in units for batch in unit_rows(unit)) == 90
            query.next()  # the next micro-batch is planned: this one is over
            assert not store.metadata.refresh().pins
            assert sweep(store.context, grace_period_ms=0).objects_deleted >= 1
            assert query.batch() == 90, "planned anew, from the objects that there are now"
            query.stream.close()
            assert not store.metadata.refresh().pins


def test_ss9_an_idle_query_reads_the_metadata_log_now_and_then_and_nothing_else(
    broker: siltstone.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create(broker.bootstrap_servers, "idle", 2)
    produce(broker.bootstrap_servers, topic, 10)
    calls: list[str] = []

    def counted(used: Any, name: str) -> None:
        real = getattr(used, name)

        def call(*arguments: Any) -> Any:
            calls.append(name)
            return real(*arguments)

        monkeypatch.setattr(used, name, call)

    with Query(broker.folder, topic) as query:
        query.stream = StreamOfTopics(query._open, StreamRequest(ScanRequest(topics=(topic,))))
        assert query.batch() == 10
        assert query.context is not None
        clock = ManualClock()
        query.context = msgspec.structs.replace(query.context, clock=clock)
        query.stream._opened = query.context
        query.stream._seen_ms = -1e9
        before = query.next()  # ends the pin
        for name in ("get_range", "head", "list"):
            counted(query.context.buckets.store(0), name)
        for name in ("read_after", "append"):
            counted(query.context.metadata._log, name)
        for _ in range(480):
            clock.advance_ms(12.5)  # Spark asks 80 times a second
            assert query.next() == before == query.checkpoint
    assert set(calls) == {"read_after"}
    assert 20 <= len(calls) <= 31, "5 a second for 6 seconds"


def test_ss13_finished_micro_batches_are_committed_for_a_group(
    broker: siltstone.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "grouped", 2)
    produce(address, topic, 30)
    with Query(broker.folder, topic, group_id="tools") as query:
        query.stream.finished(query.position)
        query.batch(BatchLimit(LimitKind.OFFSETS, 20))
        query.stream.finished(query.position)
        consumer = Consumer({"bootstrap.servers": address, "group.id": "tools", **QUIET})
        partitions = consumer.committed([TopicPartition(topic, number) for number in range(2)], 60)
        consumer.close()
        assert [each.offset for each in partitions] == [20, 0]
        assert not caplog.records
        delete(address, topic)
        query.stream.finished(query.position)  # there is nothing to commit, and nothing to fail for


def test_ss10_few_offsets_wait_for_more_and_not_longer_than_the_delay(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "few")
    produce(broker.bootstrap_servers, topic, 10)
    clock = ManualClock()
    with Query(broker.folder, topic, offsets_min=1_000, trigger_delay_ms=2_000) as query:
        assert query.context is not None
        query.stream._opened = msgspec.structs.replace(query.context, clock=clock)
        assert query.batch() == 0
        clock.advance_ms(1_999)
        assert query.batch() == 0
        clock.advance_ms(1)
        assert query.batch() == 10
        produce(broker.bootstrap_servers, topic, 1_000)
        clock.advance_ms(1)
        assert query.batch() == 1_000
    produce(broker.bootstrap_servers, topic, 1)
    with Query(broker.folder, topic, query.checkpoint, is_bounded=True, offsets_min=1_000) as bounded:
        assert bounded.batch() == 1


def test_a_checkpoint_of_another_store_and_a_start_that_is_lost_are_refused(
    broker: siltstone.Broker, tmp_path: Path
) -> None:
    topic = create(broker.bootstrap_servers, "elsewhere")
    produce(broker.bootstrap_servers, topic, 10)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    with Query(broker.folder, topic) as query:
        checkpoint, end = query.checkpoint, query.next()
        for future in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
            future.result(60)
        with pytest.raises(DataLost, match=r"elsewhere-0.*from 0 on.*begins at 4"):
            query.read(end)
    with Query(broker.folder, topic, checkpoint, fail_on_data_loss=False) as lenient:
        assert lenient.batch(BatchLimit(LimitKind.OFFSETS, 3)) == 3
        assert lenient.rows[topic, 0] == [4, 5, 6]
    five = Bounds(None, {(topic, 0): Bound(BoundKind.OFFSET, 5)})
    with Query(broker.folder, topic, start=five) as from_five:
        assert from_five.batch() == 5
    with pytest.raises(TopicNotThere, match="no topic 'absent'"):
        Query(broker.folder, "absent")
    with siltstone.Broker(tmp_path / "other") as other:
        create(other.bootstrap_servers, topic)
        with Query(tmp_path / "other", topic, checkpoint) as stranger:
            for ask in (stranger.next, lambda: stranger.read(checkpoint.replace(": 0", ": 9"))):
                with pytest.raises(StoreIsAnother, match="belongs to store"):
                    ask()


@pytest.mark.crash
def test_ss8_ss16_while_a_broker_is_dead_the_query_reads_what_is_in_objects_and_never_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(topic_stream, "OUTAGE_MS_MAX", 1_000)
    store = tmp_path / "store"
    process = BrokerProcess(store, {"engine.upload.block_size_bytes": "4KiB"})
    with process:
        address = process.bootstrap_servers
        topic = create(address, "flights")
        produce(address, topic, 100)
        with Query(store, topic) as query:
            assert query.batch() == 100
            produce(address, topic, 20)
            end = query.next()
            assert decode_position(json.loads(end)).offsets.popitem()[1] == 120
            process.kill()
            with pytest.raises(TailNotReadable, match="cannot be asked"):
                query.read(end)  # it was planned into the tail, and its end is in Spark's log
            assert query.next() == query.checkpoint, "the others do not go back, nor on"
            assert caplog.text.count("only as far as they are in objects") == 1
            with pytest.raises(TailNotReadable):  # it ends by itself, so it would leave out a tail in silence
                Query(store, topic, query.checkpoint, is_bounded=True)
            process.start()
            assert query.read(end) == 20
            address = process.bootstrap_servers
            produce(address, topic, 5)
            while len(query.rows[topic, 0]) < 125:  # the owner is left alone for a second after a failure
                query.batch()
            assert query.rows[topic, 0] == [*range(125)]
