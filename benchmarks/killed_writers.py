"""(kw) Writers of Iceberg tables are killed with SIGKILL twenty times while a topic grows: the usual ways from Apache
Kafka, and table export from our broker. Counts the rows that are lost and doubled at the end.

==================== =======================================================================================
way                  writer
==================== =======================================================================================
append               Spark: ``foreachBatch`` that appends, as guides show
append once          … that appends unless the table has rows with the number of the batch
Iceberg's sink       Spark: ``writeStream.format("iceberg")``
Connect              two workers of Kafka Connect with Iceberg's own sink; one of them is killed, so that the
                     other one takes its tasks, and it is started again
ours                 table export in a process of its own
==================== =======================================================================================

One Spark runs the first three at once and is killed with all of them. When the kills are over, each way may finish."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from threading import Event, Thread

import msgspec
from confluent_kafka import Producer
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

import siltstone
from benchmarks.support.places import folder
from benchmarks.support.report import Row
from benchmarks.support.topics import PARTITIONS, create
from oracles.apache_kafka import running_apache_kafka
from oracles.broker_process import free_ports
from oracles.foreign_streams import ForeignStreams, query
from oracles.java_artifacts import ICEBERG_CONNECT, PYSPARK_JARS, JavaArtifactsUnavailable
from oracles.java_programs import JavaProgram, connect_worker
from oracles.kafka_connect import put_connector, worker_properties
from support.processes.killed import killed_in_the_end

KILLS = 20
PER_SECOND = 400
TOPIC = "numbers"
SEED = 7
SETTLED_SECONDS = 120
"""A sink of Connect commits each second here. A killed worker leaves a transaction open, behind which the others wait a
minute: when the table has not changed for twice as long, it does not change again."""
SECONDS_MAX = 900
JSON = "org.apache.kafka.connect.json.JsonConverter"
TITLE = f"(kw) writers of Iceberg tables killed {KILLS} times"
WAYS = ("append", "once", "sink")
NAMES = {
    "append": "Spark, foreachBatch that appends", "once": "… that looks for the number of its batch",
    "sink": "Spark, Iceberg's own sink", "connect": "Kafka Connect, Iceberg's sink", "ours": "table export",
}  # fmt: skip


class Ended(msgspec.Struct, frozen=True):
    """What a way has at the end, of so many records."""

    records: int
    lost: int
    doubled: int

    def row(self, way: str, kills: int) -> Row:
        figure = f"{self.lost:,} lost, {self.doubled:,} doubled"
        return Row(NAMES[way], figure, f"{self.records:,} records, {kills} kills")


def run(kills: int = KILLS) -> list[Row]:
    try:
        with folder() as place:
            return [*_ours(place, kills), *_theirs(place, kills)]
    except JavaArtifactsUnavailable as reason:
        return [Row("left out", str(reason))]


# -- the topic ---------------------------------------------------------------------------------------------------------


class Growing:
    """Produces numbers until it is stopped; ``count`` of them are acknowledged then."""

    def __init__(self, servers: str) -> None:
        self.count = 0
        self._servers, self._is_over = servers, Event()
        self._thread = Thread(target=self._produce, daemon=True)

    def __enter__(self) -> "Growing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        self._is_over.set()
        self._thread.join()
        return self.count

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 5})
        while not self._is_over.wait(0.1):
            for _ in range(PER_SECOND // 10):
                value = b'{"n": %d}' % self.count
                producer.produce(TOPIC, value, b"%d" % self.count, partition=self.count % PARTITIONS)
                self.count += 1
            producer.poll(0)
        assert producer.flush(60) == 0


def ended(records: int, numbers: Iterable[int]) -> Ended:
    counts = Counter(numbers)
    assert not counts.keys() - set(range(records)), "rows of records that nobody produced"
    return Ended(records, records - len(counts), sum(counts.values()) - len(counts))


# -- ours --------------------------------------------------------------------------------------------------------------


def _ours(place: Path, kills: int) -> Iterator[Row]:
    rng, store = Random(SEED), place / "store"
    with siltstone.Broker(store, settings={"engine.upload.cache_block_age_ms_max": "200ms"}) as broker:
        config = {
            "siltstone.table.format": "iceberg",
            "siltstone.table.value": "json",
            "siltstone.table.columns": "n long",
        }
        broker.create_topic(TOPIC, partitions=PARTITIONS, config=config)
        with Growing(broker.bootstrap_servers) as topic:
            for _ in range(kills):
                with killed_in_the_end(
                    [sys.executable, "-m", "benchmarks.support.export_driver", str(store)]
                ):
                    time.sleep(rng.uniform(1, 4))
            records = topic.stop()
        broker.flush()
        time.sleep(1)  # the lease of the last one
        with siltstone.open_store(store) as opened:
            while siltstone.maintenance.plan(opened, kinds=["table-export"], force=True).run().runs[0].done:
                pass
    catalog = SqlCatalog("siltstone", uri=f"sqlite:///{store / 'tables' / 'catalog.sqlite'}")
    yield ended(records, _numbers(catalog.load_table(f"kafka.{TOPIC}"))).row("ours", kills)


def _numbers(table: Table) -> list[int]:
    return list(table.scan().to_arrow()["n"].to_pylist())


# -- theirs ------------------------------------------------------------------------------------------------------------


def _theirs(place: Path, kills: int) -> Iterator[Row]:
    with running_apache_kafka() as kafka:
        create(kafka.bootstrap_servers, TOPIC)
        streams = ForeignStreams(place)
        with Growing(kafka.bootstrap_servers) as topic, closing(streams):
            _kill_streams(place, streams, kafka.bootstrap_servers, kills)
            records = topic.stop()
        yield from _finished_streams(place, streams, kafka.bootstrap_servers, records, kills)
    with running_apache_kafka() as kafka:
        create(kafka.bootstrap_servers, TOPIC)
        yield _connect(place, kafka.bootstrap_servers, kills).row("connect", kills)


def _queries(place: Path, servers: str, *, ends: bool) -> list[dict[str, object]]:
    return [
        query(way, servers, TOPIC, f"lake.db.{way}", place / f"checkpoint-{way}", ends=ends) for way in WAYS
    ]


def _kill_streams(place: Path, streams: ForeignStreams, servers: str, kills: int) -> None:
    rng = Random(SEED)
    for number in range(kills):
        streams.start()
        if not number:
            streams.sql("CREATE NAMESPACE lake.db")
            for way in WAYS:
                more = ", batch bigint" if way == "once" else ""
                columns = f"key string, value string, partition int, offset bigint{more}"
                streams.sql(f"CREATE TABLE lake.db.{way} ({columns}) USING iceberg")
        before = _batches(place)
        streams.run(*_queries(place, servers, ends=False), waits=False)
        _wait_for_batches(place, before)
        time.sleep(rng.uniform(0, 4))
        streams.kill()


def _batches(place: Path) -> list[int]:
    """Returns how many micro-batches each query has ended, as its checkpoint says."""
    return [len(list(place.glob(f"checkpoint-{way}/commits/[0-9]*"))) for way in WAYS]


def _wait_for_batches(place: Path, before: list[int]) -> None:
    """Waits until each query has ended a micro-batch, so that the kill comes during a later one."""
    begun = time.monotonic()
    while any(now <= was for now, was in zip(_batches(place), before, strict=True)):
        assert time.monotonic() - begun < SECONDS_MAX, "a query ends no micro-batch"
        time.sleep(0.1)


def _finished_streams(
    place: Path, streams: ForeignStreams, servers: str, records: int, kills: int
) -> Iterator[Row]:
    with streams:
        streams.run(*_queries(place, servers, ends=True), waits=True)
        for way in WAYS:
            rows = streams.sql(f"SELECT cast(get_json_object(value, '$.n') as bigint) n FROM lake.db.{way}")
            yield ended(records, [row["n"] for row in rows]).row(way, kills)


def _connect(place: Path, servers: str, kills: int) -> Ended:
    """The connector has two tasks, one on each worker, and a killed worker's goes to the other one when its sessions
    have expired."""
    rng, lake = Random(SEED), place / "lake"
    lake.mkdir()
    create(servers, "control-iceberg")
    with ExitStack() as stack, Growing(servers) as topic:
        workers, ports = _workers(place, servers, stack)
        for worker in workers:
            worker.start()
        put_connector(ports[0], "iceberg", _connector(lake))
        time.sleep(10)
        for number in range(kills):
            time.sleep(rng.uniform(2, 9))
            worker = workers[number % len(workers)]
            worker.kill()
            time.sleep(rng.uniform(0, 8))
            worker.start()
        records = topic.stop()
        for worker in workers:  # the other ways are started once more, too
            assert worker.stop(60) is not None
            worker.start()
        return ended(records, _settled(lake / "db" / "numbers", records))


def _workers(place: Path, servers: str, stack: ExitStack) -> tuple[list[JavaProgram], list[int]]:
    ports = free_ports(2)
    hadoop = tuple(
        each for name in ("hadoop-client", "commons-logging") for each in PYSPARK_JARS.glob(f"{name}-*.jar")
    )
    workers = []
    for port in ports:
        home = place / f"worker-{port}"
        home.mkdir()
        properties = worker_properties(servers, port, JSON) | {
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter.schemas.enable": "false",
            "exactly.once.source.support": "disabled",
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "500",
            "consumer.auto.offset.reset": "earliest",
            "consumer.metadata.max.age.ms": "2000",
        }
        workers.append(stack.enter_context(connect_worker(home, properties, ICEBERG_CONNECT, hadoop)))
    return workers, list(ports)


def _connector(lake: Path) -> dict[str, str]:
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "2",
        "topics": TOPIC,
        "iceberg.tables": "db.numbers",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog": "lake",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": lake.as_uri(),
        "iceberg.control.topic": "control-iceberg",
        "iceberg.control.commit.interval-ms": "1000",
        "iceberg.control.commit.timeout-ms": "5000",
    }


def _settled(table: Path, records: int) -> list[int]:
    """Waits until all numbers are there, or nothing comes any more."""
    found: list[int] = []
    changed = begun = time.monotonic()
    while time.monotonic() - begun < SECONDS_MAX:
        time.sleep(2)
        before, found = len(found), _newest_numbers(table)
        if len(found) != before:
            changed = time.monotonic()
        if len(set(found)) == records or time.monotonic() - changed > SETTLED_SECONDS:
            break
    return found


def _newest_numbers(table: Path) -> list[int]:
    """Reads a table of Iceberg's catalog in folders, whose newest metadata has the highest number."""
    versions = {int(each.name[1:].split(".")[0]): each for each in table.glob("metadata/v*.metadata.json")}
    return _numbers(StaticTable.from_metadata(versions[max(versions)].as_uri())) if versions else []
