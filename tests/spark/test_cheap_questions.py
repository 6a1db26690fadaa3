"""Questions that need little of a topic read little of it: the bytes that the bucket returned are counted, and the plan
said how many it would be."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

import siltstone
from support.engine.s3_server import ENVIRONMENT, S3Server
from support.faults.s3_proxy import S3Proxy, s3_proxy
from support.kafka.quiet_client import QUIET
from support.maintenance.compacted_store import split_and_compact

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.timeout(900)]

COUNT, PARTITIONS, VALUE_BYTES = 8_000, 4, 1_000
TOPIC_BYTES = COUNT * VALUE_BYTES
FEW_BYTES = 1_100_000
"""Two blocks, the index, and markers of the bucket."""


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with s3_proxy(s3_server.endpoint_url) as passing:
        yield passing


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server, proxy: S3Proxy) -> Iterator[Path]:
    """Makes topics whose broker was stopped: numbers of plain records, a second apart; and decided, with transactions
    of which one was aborted."""
    folder = tmp_path_factory.mktemp("cheap") / "store"
    url = s3_server.new_url().replace(
        quote(s3_server.endpoint_url, safe=""), quote(proxy.endpoint_url, safe="")
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        with siltstone.Broker(folder, settings={"buckets.0": url}) as broker:
            fill(broker)
        yield folder


def fill(broker: siltstone.Broker) -> None:
    broker.create_topic("numbers", partitions=PARTITIONS, config={"siltstone.record.validation": "full"})
    broker.create_topic("decided")
    noise = bytes((number * 7919 >> 3) & 255 for number in range(VALUE_BYTES))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 16_384, **QUIET})
    for number in range(COUNT):
        when = (number // PARTITIONS + 1) * 1_000
        producer.produce("numbers", noise, partition=number % PARTITIONS, timestamp=when)
    assert producer.flush(60) == 0
    broker.flush()
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "cheap", **QUIET}
    transactional = Producer(settings)
    transactional.init_transactions(60)
    for commits in (True, False, True):
        transactional.begin_transaction()
        for number in range(10):
            transactional.produce("decided", b"%d" % number)
        assert transactional.flush(60) == 0  # an abort drops what was not sent
        (transactional.commit_transaction if commits else transactional.abort_transaction)(60)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes topic keyed: 300 records, of which key compaction has left 50."""
    folder = tmp_path_factory.mktemp("compacted") / "store"
    with siltstone.Broker(folder) as broker:
        broker.create_topic("keyed", config={"cleanup.policy": "compact"})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        for number in range(300):
            producer.produce("keyed", b"%d" % number, b"%d" % (number % 50))
        assert producer.flush(60) == 0
    split_and_compact(folder)
    return folder


@pytest.fixture
def bytes_of(proxy: S3Proxy) -> Callable[[Callable[[], Any]], tuple[Any, int]]:
    def counted(question: Callable[[], Any]) -> tuple[Any, int]:
        before = proxy.bytes_read
        answer = question()
        return answer, proxy.bytes_read - before

    return counted


def said_bytes(frame: Any) -> int:
    """Returns the bytes that the plan of the DataFrame says."""
    text = frame._jdf.queryExecution().toString()
    (number, unit) = re.search(r"siltstone: scan [^,]+,.*?([\d.]+) (B|KiB|MiB)\b", text).groups()
    return round(float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20}[unit])


@pytest.mark.nightly(tried="questions of Spark")
def test_a_whole_topic_is_read_whole_and_the_plan_says_so(spark: Any, store: Path, bytes_of: Any) -> None:
    frame = siltstone.spark.read("numbers", store=store, spark=spark, columns="offset")
    found, size = bytes_of(frame.count)
    assert found == COUNT
    assert TOPIC_BYTES < said_bytes(frame) <= size < 1.2 * said_bytes(frame)


def test_sr31_a_limit_reads_the_blocks_of_the_first_records(spark: Any, store: Path, bytes_of: Any) -> None:
    (frame, rows), size = bytes_of(
        lambda: (each := siltstone.spark.read("numbers", store=store, spark=spark, limit=5), each.collect())
    )
    assert [(row.partition, row.offset) for row in rows] == [(0, offset) for offset in range(5)]
    assert frame.rdd.getNumPartitions() == 1
    assert size < FEW_BYTES < TOPIC_BYTES / 7
    assert size <= said_bytes(frame)
    over = siltstone.spark.read("numbers", store=store, spark=spark, limit=COUNT + 5)
    assert over.count() == COUNT


def test_sr31_a_limit_of_a_compacted_topic_has_enough_rows(spark: Any, compacted: Path) -> None:
    frame = siltstone.spark.read("keyed", store=compacted, spark=spark, limit=49)
    assert frame.count() == 49
    assert siltstone.scan("keyed", store=compacted, limit=49).to_arrow().num_rows == 49


@pytest.mark.nightly(tried="questions of Spark")
def test_sr31_a_partition_offsets_and_times_read_their_part(spark: Any, store: Path, bytes_of: Any) -> None:
    in_one = COUNT // PARTITIONS

    def asked(**words: Any) -> tuple[int, int]:
        found, size = bytes_of(
            lambda: siltstone.spark.read("numbers", store=store, spark=spark, **words).count()
        )
        return found, size

    found, size = asked(partitions=2)
    assert found == in_one and size < TOPIC_BYTES / 3
    found, size = asked(partitions=2, start=in_one - 100)
    assert found == 100 and size < FEW_BYTES
    newest = datetime.fromtimestamp(in_one - 49, UTC)
    found, size = asked(timestamp_from=newest)
    assert found == 50 * PARTITIONS and size < PARTITIONS * FEW_BYTES < TOPIC_BYTES * 0.6


def test_sr32_records_are_counted_by_offsets_without_reading_them(store: Path, bytes_of: Any) -> None:
    """Also without a Spark."""
    found, size = bytes_of(lambda: siltstone.spark.count("numbers", store=store))
    assert found == COUNT
    assert size < 2_000, "the markers of the bucket"
    assert siltstone.spark.count("numbers", store=store, partitions=1, start=17) == COUNT // PARTITIONS - 17


@pytest.mark.nightly(tried="questions of Spark")
def test_sr32_a_compacted_topic_is_counted_by_indexes_and_a_transactional_one_is_read(
    spark: Any, store: Path, compacted: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "siltstone.spark.frames")
    for place, topic, count, way in (
        (compacted, "keyed", 50, r"50 records by \d index"),
        (store, "decided", 20, r"the rest of 1 par"),
    ):
        assert siltstone.spark.read(topic, store=place, spark=spark).count() == count
        assert siltstone.spark.count(topic, store=place, spark=spark) == count
        assert re.search(rf"counted {topic}: .*{way}", caplog.text), caplog.text
    found = siltstone.spark.count("decided", store=store, spark=spark, isolation="uncommitted")
    assert found == 30, "markers are no records"
    times = {
        "timestamp_from": datetime.fromtimestamp(10, UTC),
        "timestamp_until": datetime.fromtimestamp(20, UTC),
    }
    assert siltstone.spark.count("numbers", store=store, spark=spark, **times) == 10 * PARTITIONS
