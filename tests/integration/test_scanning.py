"""``siltstone.scan`` on real brokers: the rows are those that a consumer gets, wherever the records are."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.kafka_client import cluster
from siltstone.kafka_client.connection import open_connection
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import UnpinScan
from siltstone.model.objects import object_key
from siltstone.object_store.metadata_mark import MetadataOlderThanBucket
from siltstone.scanning import scan as scan_module
from siltstone.scanning import tail
from siltstone.scanning.failures import (
    DataLost,
    OffsetBeyondEnd,
    ScanDamaged,
    ScanOutdated,
    ScanRefused,
    TailNotReadable,
    TopicNotThere,
)
from siltstone.scanning.planning import wanted_partitions
from siltstone.scanning.result import Scan
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import BrokerProcess
from support.kafka.quiet_client import QUIET

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    folder = tmp_path_factory.mktemp("scanning") / "store"
    with siltstone.Broker(folder, settings={"engine.upload.block_size_bytes": "4KiB"}) as running:
        yield running


def create(address: str, name: str, partitions: int = 1, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    for future in admin.create_topics([NewTopic(name, partitions, config=config)]).values():
        future.result(60)
    return name


def produce(
    address: str, topic: str, count: int, first: int = 0, codec: str = "none", at_ms: int = 1_000
) -> None:
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20, **QUIET})
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=None if number % 5 == 0 else b"key-%d" % number,
            value=None if number % 7 == 0 else b"value-%d" % number * (number % 11),
            headers=[("name", b"x"), ("none", None)] if number % 3 == 0 else None,
            timestamp=at_ms + number,
        )
    assert producer.flush(60) == 0


def consumed(address: str, topic: str, partitions: int, count: int) -> list[Row]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "scanning", "auto.offset.reset": "earliest", **QUIET}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    rows: list[Row] = []
    while len(rows) < count:
        messages = consumer.consume(count - len(rows), 20)
        assert messages, f"{len(rows)} of {count} records"
        rows += [row_of(each) for each in messages]
    consumer.close()
    return sorted(rows, key=lambda row: row[:3])


def row_of(message: Any) -> Row:
    assert message.error() is None
    kind, time_ms = message.timestamp()
    return (
        message.topic(), message.partition(), message.offset(), message.key(), message.value(), time_ms, kind - 1,
        message.headers(),
    )  # fmt: skip


def scanned(scan: Scan) -> list[Row]:
    table = scan.to_arrow()
    for number in set(table["partition"].to_pylist()):
        offsets = table.filter(pc.field("partition") == number)["offset"].to_pylist()
        assert offsets == sorted(offsets), "the rows of a partition come in offset order"

    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    return sorted(
        (
            row["topic"], row["partition"], row["offset"], row["key"], row["value"], time // 1000, row["timestampType"],
            row["headers"] and [(each["key"], each["value"]) for each in row["headers"]],
        )
        for row, time in zip(table.to_pylist(), times, strict=True)
    )  # fmt: skip


def test_sr1_rows_are_what_a_consumer_gets_with_every_codec_and_both_kinds_of_time(
    broker: siltstone.Broker,
) -> None:
    address = broker.bootstrap_servers
    for name, kind in (("created", "CreateTime"), ("appended", "LogAppendTime")):
        create(address, name, 2, **{"message.timestamp.type": kind})
        for number, codec in enumerate(CODECS):
            produce(address, name, 40, 40 * number, codec)
            if number == 2:
                broker.flush()
        expected = consumed(address, name, 2, 200)
        found = siltstone.scan(name, store=broker.folder, headers=True)
        assert found.plan.object_count >= 1, "a part is in objects"
        assert any(each.has_tail for each in found.plan.cuts), "and a part is not"
        assert scanned(found) == expected
        broker.flush()
        assert scanned(siltstone.scan(name, store=broker.folder, headers=True)) == expected


def test_sr6_sr7_a_scan_is_of_the_moment_at_which_it_was_planned(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "moments")
    produce(broker.bootstrap_servers, topic, 10)
    planned = siltstone.scan(topic, store=broker.folder)
    assert planned.to_arrow().num_rows == 10
    produce(broker.bootstrap_servers, topic, 5, 10)
    assert planned.to_arrow().num_rows == 10
    assert siltstone.scan(topic, store=broker.folder).to_arrow().num_rows == 15
    broker.flush()  # what was planned as a tail is uploaded by then
    assert planned.to_arrow().num_rows == 10


def test_sr10_sr12_a_trim_takes_no_planned_rows_and_new_scans_begin_behind_it(
    broker: siltstone.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create(broker.bootstrap_servers, "trimmed")
    produce(broker.bootstrap_servers, topic, 100)
    broker.flush()
    planned = siltstone.scan(topic, store=broker.folder)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for future in admin.delete_records([TopicPartition(topic, 0, 30)]).values():
        future.result(60)
    assert planned.to_arrow().num_rows == 100
    assert siltstone.scan(topic, store=broker.folder).to_arrow()["offset"].to_pylist() == [*range(30, 100)]
    with pytest.raises(DataLost, match=r"trimmed-0.*from 10 on.*begins at 30: 20 offsets"):
        siltstone.scan(topic, store=broker.folder, start=10)
    lenient = siltstone.scan(topic, store=broker.folder, start=10, fail_on_data_loss=False)
    assert lenient.to_arrow().num_rows == 70
    assert "20 offsets were removed" in caplog.text
    assert "20 offsets were removed" in repr(lenient)
    with pytest.raises(OffsetBeyondEnd, match="ends at 100"):
        siltstone.scan(topic, store=broker.folder, end=101)


def test_sr13_times_are_resolved_as_the_broker_resolves_them(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "times")
    for first in range(0, 400, 100):
        produce(broker.bootstrap_servers, topic, 100, first, "lz4", at_ms=10_000 + 9 * first)
        if first < 300:
            broker.flush()  # the last hundred stay in the tail
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "times", **QUIET})
    for time_ms in (
        0,
        10_000,
        10_050,
        10_500,
        11_000,
        11_099,
        12_099,
        12_500,
        13_050,
        13_099,
        13_100,
        20_000,
    ):
        (told,) = consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], 20)
        start = datetime.fromtimestamp(time_ms / 1000, UTC)
        found = siltstone.scan(topic, store=broker.folder, start=start).plan.cuts[0].start_offset
        assert found == (400 if told.offset == -1 else told.offset), time_ms
    consumer.close()


def test_a_scan_by_time_asks_all_tails_of_a_node_over_the_same_connections(
    broker: siltstone.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create(broker.bootstrap_servers, "tails-by-time", 5)
    produce(broker.bootstrap_servers, topic, 100, at_ms=10_000)
    opened: list[object] = []

    def counted(address: object, clock: object, security: object) -> Any:
        opened.append(address)
        return open_connection(address, clock, security)

    monkeypatch.setattr(cluster, "open_connection", counted)
    times = {"start": datetime.fromtimestamp(10.05, UTC), "end": datetime.fromtimestamp(10.09, UTC)}
    assert siltstone.scan(topic, store=broker.folder, **times).plan.offset_count == 40
    assert len(opened) == 2, "one to any broker, one to the leader"


def test_a_broker_is_asked_once_per_connection_whose_it_is(
    broker: siltstone.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create(broker.bootstrap_servers, "many-fetches")
    for first in range(0, 200, 20):
        produce(broker.bootstrap_servers, topic, 20, first)
    planned = siltstone.scan(topic, store=broker.folder)
    asked: list[str] = []
    refuse = tail.refuse_stranger
    monkeypatch.setattr(tail, "FETCH_BYTES_MAX", 1_000)
    monkeypatch.setattr(tail, "refuse_stranger", lambda *each: asked.append(each[2]) or refuse(*each))
    fetched = tail.TailReader._fetched
    positions: list[int] = []
    monkeypatch.setattr(
        tail.TailReader, "_fetched", lambda self, at: positions.append(at) or fetched(self, at)
    )
    assert planned.to_arrow().num_rows == 200
    assert len(positions) > 3 and asked == [topic]


def test_ranges_by_partition_and_columns_in_their_order(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "ranges", 3)
    produce(broker.bootstrap_servers, topic, 90)
    broker.flush()
    scan = siltstone.scan(
        topic,
        store=broker.folder,
        partitions=[0, 2],
        start={0: 2, 2: "earliest"},
        end={0: 5, 2: 1},
        columns="offset,partition",
    )
    assert scan.to_arrow().to_pydict() == {"offset": [2, 3, 4, 0], "partition": [0, 0, 0, 2]}
    assert list(scan.to_pandas().columns) == ["offset", "partition"]
    assert scan.to_polars().height == 4
    assert [each.num_rows for each in scan.batches()] == [3, 1]
    with pytest.raises(ScanRefused, match="not say where the scan is to begin in ranges-1"):
        siltstone.scan(topic, store=broker.folder, start={0: 2})
    with pytest.raises(ScanRefused, match="where the scan is to end in ranges-7, which it does not read"):
        siltstone.scan(topic, store=broker.folder, end={0: 2, 1: 2, 2: 2, 7: 1})


def test_the_partitions_of_a_scan_are_settled_once(
    broker: siltstone.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where fields of values are inferred from the first values, which a scan of their own reads."""
    topic = create(broker.bootstrap_servers, "settled-once")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    producer.produce(topic, b'{"n": 1}')
    assert producer.flush(60) == 0
    settled: list[str] = []
    monkeypatch.setattr(
        scan_module, "wanted_partitions", lambda *of: settled.append("once") or wanted_partitions(*of)
    )
    assert siltstone.scan(topic, store=broker.folder, value="json").to_arrow().num_rows == 1
    assert settled == ["once"]


def test_a_name_that_is_mistyped_leaves_no_pin(tmp_path: Path) -> None:
    with siltstone.Broker(tmp_path / "store") as running:
        create(running.bootstrap_servers, "numbers")
    with siltstone.open_store(tmp_path / "store") as store:
        with pytest.raises(TopicNotThere, match="no topic 'nubmers'"):
            siltstone.scan("nubmers", store=tmp_path / "store")
        store.metadata.refresh()
        assert not store.metadata.image.pins


def test_sr26_what_is_not_there_is_refused_in_one_line(broker: siltstone.Broker) -> None:
    folder = broker.folder
    create(broker.bootstrap_servers, "there")
    with pytest.raises(TopicNotThere, match="no topic 'absent'"):
        siltstone.scan("absent", store=folder)
    for wrong, named in (
        ({"tail": "all"}, "tail='all': choose from auto, fetch, flush, committed"),
        ({"start": "yesterday"}, "start='yesterday' is not a place"),
        ({"end": -3}, "end=-3 is not a place"),
        ({"start": datetime(2026, 1, 1)}, "no time zone"),
    ):
        with pytest.raises(ScanRefused, match=named):
            siltstone.scan("there", store=folder, **wrong)  # type: ignore[arg-type]


def test_a_scan_describes_itself_for_people(broker: siltstone.Broker) -> None:
    topic = create(broker.bootstrap_servers, "described<b>".replace("<b>", ""), 2)
    produce(broker.bootstrap_servers, topic, 50)
    broker.flush()
    scan = siltstone.scan(topic, store=broker.folder)
    first, header, *rows = repr(scan).splitlines()
    assert first.startswith("scan of 2 partitions: 50 offsets in 1 object, ")
    assert header.split() == ["partition", "start", "end", "in", "no", "object", "yet"]
    assert [row.split()[0] for row in rows] == ["described-0", "described-1"]
    html = scan._repr_html_()
    assert html.count("<tr>") == 3 and "described-1" in html


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """Makes a store whose broker was stopped cleanly: 200 records in objects, many blocks."""
    with siltstone.Broker(tmp_path / "store", settings={"engine.upload.block_size_bytes": "1KiB"}) as running:
        create(running.bootstrap_servers, "flights", 2)
        produce(running.bootstrap_servers, "flights", 100)
        running.flush()
        produce(running.bootstrap_servers, "flights", 100, 100)
    return tmp_path / "store"


def test_sr2_sr20_without_a_broker_all_rows_or_an_error_that_names_object_and_offset(closed: Path) -> None:
    scan = siltstone.scan("flights", store=closed)
    assert scan.to_arrow().num_rows == 200
    assert siltstone.scan("flights", store=f"sqlite://{closed}/metadata.sqlite").to_arrow().num_rows == 200
    piece = scan.plan.units[0].pieces[0]
    path = closed / "bucket" / object_key(piece.object_id)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[100] ^= 0x40
    path.chmod(0o644)
    path.write_bytes(damaged)
    with pytest.raises(
        ScanDamaged,
        match=rf"flights-\d cannot be read from offset \d+ on: DamagedBlock.*object {piece.object_id}",
    ):
        scan.to_arrow()
    path.write_bytes(whole[:90])
    with pytest.raises(ScanDamaged, match=r"ObjectTruncated"):
        siltstone.scan("flights", store=closed).to_arrow()
    path.unlink()
    with pytest.raises(
        ScanOutdated, match=rf"object {piece.object_id} is no longer in its bucket.*plan the scan again"
    ):
        siltstone.scan("flights", store=closed).to_arrow()


def test_sr2_a_store_is_found_by_its_folder_wherever_its_broker_has_its_bucket(tmp_path: Path) -> None:
    """As with ``serve --store FOLDER --bucket s3://…``: no file in the folder names the bucket."""
    elsewhere = {"buckets.0": (tmp_path / "elsewhere").as_uri()}
    with siltstone.Broker(tmp_path / "store", settings=elsewhere) as running:
        create(running.bootstrap_servers, "flights")
        produce(running.bootstrap_servers, "flights", 10)
    assert not (tmp_path / "store" / "bucket").exists()
    assert siltstone.scan("flights", store=tmp_path / "store").to_arrow().num_rows == 10


@pytest.mark.parametrize("lease", ["1h", "0"])
def test_sr8_what_compaction_replaced_is_kept_for_a_scan_with_a_lease(closed: Path, lease: str) -> None:
    scan = siltstone.scan("flights", store=closed, lease=lease)
    planned = {piece.object_id for unit in scan.plan.units for piece in unit.pieces}
    with siltstone.open_store(closed) as store:
        siltstone.maintenance.plan(store, kinds=["sso-compaction"]).run()
        swept = sweep(store.context, grace_period_ms=0)
        assert not planned & set(store.metadata.image.objects) or swept.objects_pinned == len(planned)
        if lease == "0":
            assert not store.metadata.image.pins
            with pytest.raises(ScanOutdated, match="plan the scan again"):
                scan.to_arrow()
            return
        assert scan.to_arrow().num_rows == 200
        (pin,) = store.metadata.image.pins.values()
        assert pin.until_ms >= scan.plan.lease_until_ms and "flights" in pin.holder
        store.metadata.execute(UnpinScan(pin.token))
        assert sweep(store.context, grace_period_ms=0).objects_deleted == len(planned)
    with pytest.raises(ScanOutdated):
        scan.to_arrow()


def test_rule_11_a_scan_of_an_older_copy_of_the_metadata_pins_nothing(closed: Path) -> None:
    """A pin is an entry of the log, which would make the older copy look newer."""
    metadata = closed / "metadata.sqlite"
    older = metadata.read_bytes()
    with siltstone.open_store(closed) as store:
        siltstone.maintenance.plan(store, kinds=["sso-compaction"]).run()
    metadata.write_bytes(older)
    with pytest.raises(MetadataOlderThanBucket):
        siltstone.scan("flights", store=closed)
    with siltstone.open_store(closed) as store:
        assert not store.metadata.image.pins


@pytest.mark.parametrize("lease", ["", "1", "25h", "-1h", "1 fortnight"])
def test_sr26_a_lease_that_cannot_be_is_refused(closed: Path, lease: str) -> None:
    with pytest.raises(ScanRefused, match="write 0 to 24h"):
        siltstone.scan("flights", store=closed, lease=lease)


@pytest.mark.crash
def test_sr3_sr4_the_tail_of_a_broker_that_lives_was_killed_and_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = tmp_path / "store"
    with BrokerProcess(store) as process:
        address = process.bootstrap_servers
        create(address, "flights")
        produce(address, "flights", 10)
        planned = siltstone.scan("flights", store=store)
        assert planned.to_arrow().num_rows == 10
        assert planned.plan.object_count == 0
        process.kill()
        with pytest.raises(
            TailNotReadable, match=r"node 0 has 1 partition open \(flights-0\).*tail=committed"
        ):
            siltstone.scan("flights", store=store)
        committed = siltstone.scan("flights", store=store, tail="committed")
        assert committed.to_arrow().num_rows == 0
        assert "1 partition may have records that are in no object yet" in caplog.text
        process.start()
        assert siltstone.scan("flights", store=store).to_arrow().num_rows == 10
    assert siltstone.scan("flights", store=store).plan.object_count >= 1


def test_sr29_a_broker_of_another_store_at_the_address_is_not_believed(tmp_path: Path) -> None:
    store = tmp_path / "store"
    settings = {"topics.retention.ms": "-1"}
    with siltstone.Broker(store, settings=settings) as running, siltstone.Broker() as other:
        create(running.bootstrap_servers, "flights")
        create(other.bootstrap_servers, "flights")
        produce(running.bootstrap_servers, "flights", 10)
        with siltstone.open_store(load_node_settings(store)) as opened:
            from siltstone.metadata.node_address import put_node_address

            opened.metadata.execute(put_node_address(0, other.bootstrap_servers))
            with pytest.raises(TailNotReadable, match="another store answers there"):
                siltstone.scan("flights", store=opened)


def test_sr30_a_planned_tail_of_a_topic_that_was_made_anew_gives_no_foreign_row(
    broker: siltstone.Broker,
) -> None:
    address = broker.bootstrap_servers
    topic = create(address, "anew")
    produce(address, topic, 10)
    planned = siltstone.scan(topic, store=broker.folder)
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    trimmed = create(address, "anew-trimmed")
    produce(address, trimmed, 10)
    planned_trimmed = siltstone.scan(trimmed, store=broker.folder)
    for future in admin.delete_records([TopicPartition(trimmed, 0, 4)]).values():
        future.result(60)
    with pytest.raises(DataLost, match="from 0 on, but the partition begins at 4"):
        planned_trimmed.to_arrow()
    for future in admin.delete_topics([topic]).values():
        future.result(60)
    create(address, topic)
    produce(address, topic, 20)
    with pytest.raises(TopicNotThere, match="created again"):
        planned.to_arrow()
