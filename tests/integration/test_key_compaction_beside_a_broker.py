"""A broker at work while its topics are compacted: what consumers end up with is what a dict says, before, during and
after; and what groups committed is never lost, though their topic is compacted too."""

import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import siltstone
from siltstone.carrying.pipeline.kind import Outcome
from siltstone.carrying.pipeline.set_aside import set_aside
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.compression import compress
from siltstone.kafka_protocol.records.reading import Record
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.model.limits import DECOMPRESSED_BATCH_BYTES_MAX
from siltstone.model.objects import ObjectKind
from support.broker.keyed_broker import SETTINGS, Keyed, table_of
from support.kafka.kafka_batches import with_body, with_offset_deltas
from support.kafka.raw_calls import RawTopic, create_topic, produce, produce_well, read_all
from support.kafka.raw_kafka import RawConnection, address_of
from support.maintenance.compacted_store import compact_keys, maintained, roll, split


def assert_sound(folder: Path) -> None:
    with maintained(folder) as context:
        report = check(context)
    assert report.is_clean, report.findings


def test_the_same_table_before_during_and_after(tmp_path: Path) -> None:
    with (
        siltstone.Broker(tmp_path, settings=SETTINGS) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
        RawConnection(address_of(broker.bootstrap_servers)) as reading,
    ):
        keyed = [Keyed(connection, name) for name in ("a", "b")]
        for one in keyed:
            one.produce(120)
        broker.flush()
        before = [table_of(connection, one.topic) for one in keyed]
        assert [table for table, _ in before] == [one.expected for one in keyed]
        with maintained(tmp_path) as context:
            kinds = {each.kind for each in context.metadata.image.objects.values()}
            assert ObjectKind.STREAM_SET_OBJECT in kinds
            split(context)
            roll(context)
            with reader_at_work(reading, keyed) as seen:
                report = compact_keys(context)
                sweep(context, 0)  # whatever the broker still holds of them is gone from the bucket
                seen.wait_for_more()
            assert {unit.name for unit in report.units} >= {"a-0", "b-0"}
            assert sum(unit.records_removed for unit in report.units) > 0
        Keyed(connection, "filler").produce(
            300
        )  # else the tail cache may still have all of b as it was produced
        for one, (_, count_before) in zip(keyed, before, strict=True):
            table, count = table_of(connection, one.topic)
            assert table == one.expected and count < count_before
            one.produce(20)
            assert table_of(connection, one.topic)[0] == one.expected
    assert_sound(tmp_path)
    with (
        siltstone.Broker(tmp_path, settings=SETTINGS) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        for one in keyed:
            one.connection = connection
            assert table_of(connection, one.topic)[0] == one.expected
            one.produce(5)
            assert table_of(connection, one.topic)[0] == one.expected


class reader_at_work:  # noqa: N801  a context manager
    """Reads the topics again and again, and compares, as long as the body runs."""

    def __init__(self, connection: RawConnection, keyed: list[Keyed]) -> None:
        self._connection = connection
        self._keyed = keyed
        self._expected = [dict(one.expected) for one in keyed]
        self._over = threading.Event()
        self._rounds = threading.Semaphore(0)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "reader_at_work":
        self._thread.start()
        self.wait_for_more()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def wait_for_more(self) -> None:
        """Two rounds: one of them began after the call."""
        for _ in range(2):
            assert self._rounds.acquire(timeout=60), self._failure

    def _read(self) -> None:
        try:
            while not self._over.is_set():
                tables = [table_of(self._connection, one.topic)[0] for one in self._keyed]
                assert tables == self._expected
                self._rounds.release()
        except BaseException as failure:  # told where the body ends
            self._failure = failure


@pytest.mark.parametrize("rounds", [1, 3])
def test_what_groups_committed_is_never_lost(tmp_path: Path, rounds: int) -> None:
    """``__consumer_offsets`` is a compacted topic like any other."""
    expected: dict[str, int] = {}
    for round_ in range(rounds):
        with siltstone.Broker(tmp_path, settings=SETTINGS) as broker:
            servers = broker.bootstrap_servers
            if round_ == 0:
                with RawConnection(address_of(servers)) as connection:
                    topic = create_topic(connection, "t")
                    produce_well(connection, topic, build_batch([Record(timestamp_ms=1, value=b"v")] * 1000))
            for group in ("g1", "g2", f"only-{round_}"):
                assert committed(servers, group) == expected.get(group)
                expected[group] = commit_often(servers, group, start=round_ * 50)
            broker.flush()
            with maintained(tmp_path) as context:
                split(context)
                roll(context)
                report = compact_keys(context)
                assert report.is_well, report
                sweep(context, 0)
            names = {unit.name.rpartition("-")[0] for unit in report.units if unit.records_removed}
            assert names == {"__consumer_offsets"}
            assert {group: committed(servers, group) for group in expected} == expected
    with siltstone.Broker(tmp_path, settings=SETTINGS) as broker:
        assert {group: committed(broker.bootstrap_servers, group) for group in expected} == expected
    assert_sound(tmp_path)


def commit_often(servers: str, group: str, start: int) -> int:
    """The last offset committed."""
    consumer = _consumer(servers, group)
    try:
        for offset in range(start, start + 50):
            (done,) = consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
            assert done.error is None
        return start + 49
    finally:
        consumer.close()


def committed(servers: str, group: str) -> int | None:
    consumer = _consumer(servers, group)
    try:
        (found,) = consumer.committed([TopicPartition("t", 0)], timeout=60)
        return None if found.offset < 0 else int(found.offset)
    finally:
        consumer.close()


def _consumer(servers: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})


def test_batches_whose_offset_deltas_do_not_increase_stop_no_compaction(tmp_path: Path) -> None:
    """A topic that was not compacted took them; as soon as it is, they are refused, and those that are there are
    compacted with the rest."""
    records = [Record(timestamp_ms=1_700_000_000_000, key=key, value=b"old") for key in (b"a", b"b", b"a")]
    disordered = [with_offset_deltas(records, deltas) for deltas in ((0, 0, 0), (2, 1, 0), (0, 5, 2))]
    with (
        siltstone.Broker(tmp_path, settings=SETTINGS) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        topic = create_topic(connection, "deltas")
        assert produce_well(connection, topic, *map(bytes, disordered)) == [0, 3, 6]
        make_compacted(connection, topic)
        refused = [produce(connection, topic, bytes(batch)) for batch in disordered]
        assert [row.error_code for row in refused] == [ErrorCode.INVALID_RECORD] * 3
        newer = [Record(timestamp_ms=1_700_000_000_000, key=key, value=b"new") for key in (b"a", b"c")]
        assert produce_well(connection, topic, build_batch(newer)) == [9]
        broker.flush()
        with maintained(tmp_path) as context:
            split(context)
            roll(context)
            report = compact_keys(context)
        assert report.is_well, report
        assert sum(unit.records_removed for unit in report.units) == 8
    with (
        siltstone.Broker(tmp_path, settings=SETTINGS) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        left = [
            (record.offset, bytes(record.key or b""), bytes(record.value or b""))
            for record in read_all(connection, topic)
        ]
        assert left == [(7, b"b", b"old"), (9, b"a", b"new"), (10, b"c", b"new")]
        assert_sound(tmp_path)


def make_compacted(connection: RawConnection, topic: RawTopic) -> None:
    config = AlterableConfig(name="cleanup.policy", config_operation=0, value="compact")
    resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=[config])
    (row,) = connection.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert row.error_code == 0


def test_ab04_a_bomb_is_named_and_set_aside_and_other_topics_are_compacted(tmp_path: Path) -> None:
    """A topic that was not compacted took it, since nobody looked at its records."""
    zeros = bytes(compress(Codec.ZSTD, bytes(DECOMPRESSED_BATCH_BYTES_MAX + 1)))
    plain = build_batch(
        [Record(timestamp_ms=1_700_000_000_000, key=b"k", value=b"v")], compression=Codec.ZSTD
    )
    with (
        siltstone.Broker(tmp_path, settings=SETTINGS) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        topic, keyed = create_topic(connection, "bombed"), Keyed(connection, "good")
        assert produce_well(connection, topic, bytes(with_body(plain, zeros))) == [0]
        make_compacted(connection, topic)
        newer = [Record(timestamp_ms=1_700_000_000_000, key=key, value=b"new") for key in (b"a", b"a")]
        produce_well(connection, topic, build_batch(newer))
        keyed.produce(120)
        broker.flush()
        with maintained(tmp_path) as context:
            split(context)
            roll(context)
            report = compact_keys(context)
            aside = [
                set_aside(context.metadata.refresh(), report.kind, name) for name in ("bombed-0", "good-0")
            ]
        bombed, good = report.units
        assert (bombed.name, bombed.outcome) == ("bombed-0", Outcome.FAILED)
        assert "a batch from offset 0 on, in the block at 0 of object" in bombed.text
        assert f"decompress to more than {DECOMPRESSED_BATCH_BYTES_MAX} bytes" in bombed.text
        assert (good.name, good.outcome) == ("good-0", Outcome.DONE) and good.records_removed > 0
        assert [each and each.failures for each in aside] == [1, None]
        assert table_of(connection, keyed.topic)[0] == keyed.expected
        assert (
            produce(connection, topic, bytes(with_body(plain, zeros))).error_code
            == ErrorCode.MESSAGE_TOO_LARGE
        )
