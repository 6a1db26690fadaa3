"""Batches of a sink into topics of real brokers, without Spark: each record once, wherever the driver dies."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

import siltstone
from siltstone.kafka_client.producing import progress
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.refusals import SinkBatchUnfinished, SinkTakenOver
from siltstone.metadata.sinks import (
    STAGING_KEPT_MS,
    SinkState,
    batch_folder,
    sinks_of,
)
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.scanning.failures import TopicNotThere
from siltstone.scanning.source import open_source
from siltstone.sinking import relay
from siltstone.sinking.batch import SinkDriver, abandon
from siltstone.sinking.failures import (
    BrokerNotFound,
    RowRefused,
    SinkBatchStuck,
    SinkRefused,
    TopicGoneForSink,
)
from siltstone.sinking.staged_sweep import sweep_staged
from siltstone.sinking.staging import (
    stage_rows,
)
from support.broker.broker_process import BrokerProcess
from support.maintenance.sinks import COLUMNS, QUIET, Killed, Sink, consumed, create, rows_of, values
from support.maintenance.sinks import STEPS as MODE_STEPS

STEPS = ("staged", "intent", "relaying", "relayed", "done")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("sinking") / "store") as running:
        yield running


def test_sw1_rows_arrive_byte_for_byte_in_the_partitions_of_their_keys(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "rows", 3)
    columns = [
        ("key", "binary"), ("value", "string"), ("headers", "array<struct<key:string,value:binary>>"),
        ("timestamp", "timestamp"), ("partition", "int"), ("topic", "string"),
    ]  # fmt: skip
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.record_batch(
        {
            "key": [b"a", None, b"", b"k" * 300],
            "value": ["ä", None, "", "v" * 2_000],
            "headers": pa.array(
                [[{"key": "n", "value": b"x"}, {"key": "none", "value": None}], None, [], None], headers
            ),
            "timestamp": pa.array([1_700_000_000_123_456, None, 0, 5_000], pa.timestamp("us", "UTC")),
            "partition": pa.array([None, 2, None, 0], pa.int32()),
            "topic": [None, topic, topic, topic],
        }
    )
    with pytest.raises(RowRefused, match="column topic is null"):
        Sink(broker.folder, None, "rows", columns).stage(0, rows)
    Sink(broker.folder, topic, "rows", columns).write(0, rows)
    found = {message.key(): message for message in consumed(address, topic, 3)}
    assert [found[key].value() for key in (b"a", None, b"", b"k" * 300)] == [
        "ä".encode(),
        None,
        b"",
        b"v" * 2_000,
    ]
    assert found[b"a"].headers() == [("n", b"x"), ("none", None)] and found[None].headers() is None
    assert found[b"a"].timestamp() == (1, 1_700_000_000_123) and found[b""].timestamp() == (1, 0)
    assert (found[None].partition(), found[b"k" * 300].partition()) == (2, 0)
    keyed = create(address, "keyed", 5)
    producer = Producer({"bootstrap.servers": address, "partitioner": "murmur2_random", **QUIET})
    keys = [b"%d" % number for number in range(500)]
    for key in keys:
        producer.produce(keyed, b"theirs", key)
    assert producer.flush(60) == 0
    Sink(broker.folder, keyed, "keyed").write(0, pa.record_batch({"key": keys, "value": [b"ours"] * 500}))
    places: dict[bytes, set[int]] = {}
    for message in consumed(address, keyed, 5):
        places.setdefault(message.key(), set()).add(message.partition())
    assert len(places) == 500 and all(len(numbers) == 1 for numbers in places.values())


CASES = [
    *((None, step) for step in STEPS),
    *(("transaction", step) for step in MODE_STEPS["transaction"][1:]),
]


@pytest.mark.parametrize(("mode", "step"), CASES)
def test_sw2_sw3_a_driver_that_dies_at_any_step_leaves_each_record_once(
    broker: siltstone.Broker, mode: str | None, step: str
) -> None:
    """The repetition has other rows, like a query that is not deterministic: they are written only if the driver died
    before the intent."""
    address = broker.bootstrap_servers
    topic = create(address, f"killed-{mode}-{step}", 2)
    sink = Sink(broker.folder, topic, f"killed-{mode}-{step}", mode=mode)
    sink.write(0, rows_of(0, 100))
    with pytest.raises(Killed):
        sink.write(1, rows_of(100, 50), rows_of(150, 50), killed_at=step)
    sink.write(1, rows_of(1_000, 100))
    sink.write(1, rows_of(2_000, 100))
    sink.write(2, rows_of(300, 10))
    second = range(1_000, 1_100) if step == "staged" else range(100, 200)
    expected = sorted(b"value-%06d" % n for n in (*range(100), *second, *range(300, 310)))
    assert values(address, topic, 2) == expected
    assert sink.state() is SinkState.DONE


@pytest.mark.parametrize("forgets", [False, True])
def test_sw2_sw7_a_batch_that_was_half_relayed_goes_on_behind_what_is_there(
    broker: siltstone.Broker, forgets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds if the broker has forgotten the producer: the relay then reads in the partition itself how far the
    producer came."""
    address = broker.bootstrap_servers
    topic = create(address, f"half-{forgets}", 3)
    sink = Sink(broker.folder, topic, f"half-{forgets}")
    sink.write(0, rows_of(0, 40))
    monkeypatch.setattr("siltstone.sinking.encoding.BATCH_BYTES_MAX", 500)
    reports = sink.stage(1, rows_of(40, 150), rows_of(190, 150))
    real = relay.Relay._outgoing

    def cut_off(self: Any, done: Any) -> Iterator[Any]:
        for number, outgoing in enumerate(real(self, done)):
            if number == 9:
                raise Killed
            yield outgoing

    with monkeypatch.context() as dying:
        dying.setattr(relay.Relay, "_outgoing", cut_off)
        with pytest.raises(Killed):
            sink.commit(1, reports)
    assert len(values(address, topic, 3)) > 40, "a part of it is there"
    others = Producer({"bootstrap.servers": address, "enable.idempotence": True, **QUIET})
    for number in range(30):
        others.produce(topic, b"theirs", partition=number % 3)
    assert others.flush(60) == 0
    if forgets:
        monkeypatch.setattr(relay, "described_sequences", lambda *_: {})
    sink.write(1, rows_of(5_000, 5))
    assert values(address, topic, 3) == sorted([b"theirs"] * 30 + [b"value-%06d" % n for n in range(340)])


def test_sw22_a_batch_is_stuck_where_records_were_taken_away_and_the_producer_forgotten(
    broker: siltstone.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "stuck")
    sink = Sink(broker.folder, topic, "stuck")
    sink.write(0, rows_of(0, 10))
    with pytest.raises(Killed):
        sink.write(1, rows_of(10, 10), killed_at="relayed")
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    for future in admin.delete_records([TopicPartition(topic, 0, 15)]).values():
        future.result(60)
    monkeypatch.setattr(relay, "described_sequences", lambda *_: {})
    with pytest.raises(
        SinkBatchStuck, match=r"batch 1 of sink stuck is stuck at stuck-0.*retention has removed"
    ):
        sink.write(1, rows_of(10, 10))
    with pytest.raises(SinkBatchUnfinished):
        sink.write(2, rows_of(20, 10))
    with open_source(broker.folder) as source:
        given_up = abandon(source, "stuck")
        assert given_up is not None and given_up.batch_id == 1
        assert abandon(source, "stuck") is None
    sink.write(2, rows_of(20, 10))
    assert len(consumed(address, topic)) == 5 + 10


def test_sw5_sw26_of_two_drivers_with_one_batch_one_writes(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "two", 2)
    sink = Sink(broker.folder, topic, "two")
    first, second = sink.stage(0, rows_of(0, 50)), sink.stage(0, rows_of(100, 50))
    with sink.opened() as (source, plan):

        def other_goes_first(step: str) -> None:
            if step == "relaying":
                sink.commit(0, second)  # it finds the intent, and finishes it with the parts of the first

        SinkDriver(source, plan, "two", on_step=other_goes_first).commit("query", 0, first)
    assert values(address, topic, 2) == [b"value-%06d" % n for n in range(50)]
    with sink.opened() as (source, plan):

        def resumed_meanwhile(step: str) -> None:
            if step == "relaying":
                with pytest.raises(Killed):
                    sink.commit(1, second, killed_at="relaying")

        with pytest.raises(SinkTakenOver):
            SinkDriver(source, plan, "two", on_step=resumed_meanwhile).commit(
                "query", 1, sink.stage(1, rows_of(50, 5))
            )
    sink.commit(1, second)
    assert values(address, topic, 2) == [b"value-%06d" % n for n in range(55)]


def test_sw13_maintenance_between_batches_changes_nothing_for_a_sink(tmp_path: Path) -> None:
    with siltstone.Broker(tmp_path / "store") as running:
        topic = create(running.bootstrap_servers, "maintained", 2, **{"cleanup.policy": "compact,delete"})
        sink = Sink(running.folder, topic)
        for batch_id in range(3):
            sink.write(batch_id, rows_of(100 * batch_id, 100))
            running.flush()
            with siltstone.open_store(running.folder) as store:
                siltstone.maintenance.plan(store).run()
        with pytest.raises(Killed):
            sink.write(3, rows_of(300, 100), killed_at="relaying")
        sink.write(3, rows_of(900, 100))
        found = values(running.bootstrap_servers, topic, 2)
        assert {b"value-%06d" % n for n in range(293, 400)} <= set(found) and len(found) == len(set(found))


def test_sw14_an_empty_batch_is_recorded_and_leaves_no_object(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "empty")
    sink = Sink(broker.folder, topic, "empty")
    sink.write(0, rows_of(0, 0))
    sink.write(1)
    assert (sink.state(), sink.staged()) == (SinkState.DONE, [])
    sink.write(0 + 2, rows_of(0, 3), rows_of(3, 0))
    assert len(consumed(broker.bootstrap_servers, topic)) == 3 and sink.staged() == []


def test_the_record_of_a_batch_without_a_name_goes_when_it_is_done(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "nameless")
    sink = Sink(broker.folder, topic, "batch-0000")
    reports = sink.stage(0, rows_of(0, 5))
    with sink.opened() as (source, plan):
        SinkDriver(source, plan, "batch-0000", is_nameless=True).commit("", 0, reports)
    assert sink.state() is None and len(consumed(broker.bootstrap_servers, topic)) == 5


def test_large_tasks_are_staged_as_objects_that_are_gone_when_the_batch_is_done(
    broker: siltstone.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SW4: what a lost attempt has staged is swept after a day, and an intent keeps its parts."""
    limits = {"held_bytes_max": 20_000, "inline_bytes_max": 100}
    address = broker.bootstrap_servers
    topic = create(address, "large", 2, **{"compression.type": "uncompressed"})
    sink = Sink(broker.folder, topic, "large")
    with sink.opened() as (_, plan):
        batches = [rows_of(first, 500) for first in range(0, 2_000, 500)]
        report = stage_rows(
            plan,
            batches,
            folder=batch_folder("large", 0),
            task_number=0,
            query_id="query",
            clock=SystemClock(),
            rng=system_randomness(),
            **limits,
        )
    assert len({part.key for part in report.parts}) == 4 and not report.inline
    lost = sink.stage(0, rows_of(0, 500), **limits)  # the attempt whose rows are not used
    with pytest.raises(Killed):
        sink.commit(0, [report], killed_at="intent")
    with open_source(broker.folder) as source:
        monkeypatch.setattr(source.metadata, "now_ms", _Later(60_000).now_ms)
        assert sweep_staged(source, 0).objects == 0, "young"
        before = sink.staged()
        sweep_staged(source, 0, kept_ms=1)
        assert sink.staged() == before and len(before) == 6, "an intent keeps its folder"
    sink.commit(0, lost)
    assert values(address, topic, 2) == [b"value-%06d" % n for n in range(2_000)]
    sink.stage(1, rows_of(0, 500), **limits)
    with open_source(broker.folder) as source:
        monkeypatch.setattr(source.metadata, "now_ms", _Later(STAGING_KEPT_MS + 60_000).now_ms)
        assert sweep(source).staged_deleted >= 1
    assert sink.staged() == []


class _Later(SystemClock):
    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._by_ms


def test_sw15_a_topic_that_went_away_is_named_and_nothing_is_written(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    sink = Sink(broker.folder, create(address, "going"), "going")
    reports = sink.stage(0, rows_of(0, 5))
    admin.delete_topics(["going"])["going"].result(60)
    with pytest.raises(TopicGoneForSink, match="topic going was deleted or created again"):
        sink.commit(0, reports)
    create(address, "going")
    with pytest.raises(TopicGoneForSink):
        sink.commit(0, reports)
    assert sink.state() is None and consumed(address, "going") == []
    reports = sink.stage(0, rows_of(0, 5))
    admin.create_partitions([NewPartitions("going", 3)])["going"].result(60)
    sink.commit(0, reports)
    assert len(consumed(address, "going", 3)) == 5, "written to the partitions they were staged for"
    with pytest.raises(Killed):
        sink.write(1, rows_of(5, 5), killed_at="relaying")
    admin.delete_topics(["going"])["going"].result(60)
    create(address, "going")
    with pytest.raises(SinkBatchStuck, match="the topic was deleted"):
        sink.commit(1, [])


def test_sw16_what_the_topic_would_refuse_is_refused_by_the_task(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    create(address, "small", 2, **{"max.message.bytes": "1000", "compression.type": "uncompressed"})
    create(address, "compacted", 1, **{"cleanup.policy": "compact"})
    create(address, "recent", 1, **{"message.timestamp.before.max.ms": "1000"})
    big = pa.record_batch({"value": [b"v" * 2_000]})
    no_key = pa.record_batch({"value": [b"v"]})
    there = [("value", "binary"), ("partition", "int")]
    old = pa.record_batch({"value": [b"v"], "timestamp": pa.array([5_000], pa.timestamp("us"))})
    for topic, columns, rows, named in (
        ("small", COLUMNS[1:], big, "has 2.* bytes, and max.message.bytes is 1000"),
        (
            "small",
            there,
            pa.record_batch({"value": [b"v"], "partition": pa.array([9], pa.int32())}),
            "says partition 9",
        ),
        ("compacted", COLUMNS[1:], no_key, "the topic is compacted, and the row has no key"),
        ("recent", [("value", "binary"), ("timestamp", "timestamp")], old, "message.timestamp.before.max.ms"),
    ):
        sink = Sink(broker.folder, topic, "refused", columns)
        with pytest.raises(RowRefused, match=named):
            sink.stage(0, rows)
        assert sink.state() is None
    with pytest.raises(TopicNotThere, match="no topic 'absent'"):
        Sink(broker.folder, "absent").stage(0)
    for columns, named in (
        ([("value", "int")], "column value has type int, and a sink takes binary or string"),
        ([("value", "binary"), ("extra", "int")], "a sink has no column 'extra'"),
        ([("key", "binary")], "needs the column value"),
    ):
        with pytest.raises(SinkRefused, match=named):  # SW20: before any task
            Sink(broker.folder, "small", "refused", columns).stage(0)


def test_sw18_a_topic_with_log_append_time_has_the_brokers_times(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "appended", 1, **{"message.timestamp.type": "LogAppendTime"})
    Sink(broker.folder, topic, "appended").write(0, rows_of(0, 3))
    assert {message.timestamp()[0] for message in consumed(broker.bootstrap_servers, topic)} == {2}


def test_sw8_live_idempotent_producers_are_undisturbed(broker: siltstone.Broker) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "shared")
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, **QUIET})
    sink = Sink(broker.folder, topic, "shared")
    for batch_id in range(3):
        producer.produce(topic, b"theirs-%d" % batch_id)
        assert producer.flush(60) == 0
        sink.write(batch_id, rows_of(batch_id, 1))
    found = [message.value() for message in consumed(address, topic)]
    assert found == [each for n in range(3) for each in (b"theirs-%d" % n, b"value-%06d" % n)]


@pytest.mark.crash
def test_sw6_a_broker_that_is_killed_half_way_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    process = BrokerProcess(store)
    with process:
        address = process.bootstrap_servers
        topic = create(address, "flights", 2)
        sink = Sink(store, topic)
        sink.write(0, rows_of(0, 30))
        reports = sink.stage(1, rows_of(30, 300))

        def kill(self: Any, done: Any, real: Any = relay.Relay._outgoing) -> Iterator[Any]:
            yield next(real(self, done))
            process.kill()
            raise Killed

        with monkeypatch.context() as dying:
            dying.setattr(relay.Relay, "_outgoing", kill)
            with pytest.raises(Killed):
                sink.commit(1, reports)
        with pytest.raises(BrokerNotFound, match="siltstone serve"):
            sink.commit(1, reports)
        assert sink.state() is SinkState.INTENT
        process.start()
        sink.commit(1, reports)
        address = process.bootstrap_servers
        assert values(address, topic, 2) == [b"value-%06d" % n for n in range(330)]


def test_progress_is_read_from_the_partition_in_several_fetches(
    broker: siltstone.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FETCH_BYTES_MAX", 600)
    topic = create(broker.bootstrap_servers, "fetched", 1, **{"compression.type": "uncompressed"})
    sink = Sink(broker.folder, topic, "fetched")
    for batch_id in range(10):
        sink.write(batch_id, rows_of(10 * batch_id, 10))
    with pytest.raises(Killed):
        sink.write(10, rows_of(100, 10), killed_at="relayed")
    monkeypatch.setattr(relay, "described_sequences", lambda *_: {})
    sink.write(10, rows_of(random.randrange(900), 10))
    assert values(broker.bootstrap_servers, topic) == [b"value-%06d" % n for n in range(110)]
    with open_source(broker.folder) as source:
        assert sinks_of(source.metadata.image)["fetched"].batch_id == 10
