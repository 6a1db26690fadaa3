"""Debezium's own connector reads a PostgreSQL table into a topic, and the topic becomes a table again: it equals the
table of the database. The worker is killed with SIGKILL in the middle, and the database goes on. ``CRASH_SEED`` replays
the changes."""

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyiceberg.catalog import load_catalog

import siltstone
from oracles.java_artifacts import DEBEZIUM, JavaArtifactsUnavailable
from oracles.java_programs import connect_worker
from oracles.kafka_connect import put_connector, worker_properties
from support.broker.broker_process import BrokerProcess
from support.kafka.quiet_client import QUIET
from support.maintenance.sinks import create
from support.metadata.postgres_server import PostgresServer, running_postgres_server
from support.processes.ports import free_ports
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.crash, pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(600)]
TOPIC = "shop.public.orders"
JSON = "org.apache.kafka.connect.json.JsonConverter"
SECONDS = 120
ROWS = 40


def connector(postgres: PostgresServer) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "postgres",
        "database.dbname": "postgres",
        "topic.prefix": "shop",
        "table.include.list": "public.orders",
        "plugin.name": "pgoutput",
        "decimal.handling.mode": "double",
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",  # truncates, too
    }


class Changes:
    """Changes the rows of the table as a program would: inserts, updates, deletes, changes of keys, now and then a
    truncate, in transactions of several statements; some are rolled back."""

    def __init__(self, postgres: PostgresServer, rng: random.Random) -> None:
        self._postgres, self._rng = postgres, rng
        postgres.sql(
            "CREATE TABLE orders (id bigint PRIMARY KEY, name text, price numeric(10, 2), paid boolean, "
            "tags text[], more jsonb)"
        )

    def make(self, count: int) -> None:
        with self._postgres.connect() as connection:
            connection.autocommit = False
            for _ in range(count):
                for _ in range(self._rng.randrange(1, 4)):
                    connection.execute(*self._statement())
                connection.rollback() if self._rng.random() < 0.1 else connection.commit()

    def _statement(self) -> tuple[Any, ...]:
        rng = self._rng
        one, other = rng.randrange(ROWS), rng.randrange(ROWS)
        name, price, paid = (
            rng.choice(["a", '\u00e9 "x"', None]),
            rng.randrange(1_000) / 4,
            rng.random() < 0.5,
        )
        if rng.random() < 0.01:
            return ("TRUNCATE orders",)
        match rng.randrange(6):
            case 0:
                return ("DELETE FROM orders WHERE id = %s", (one,))
            case 1:  # the key changes, unless the other one is taken
                text = "UPDATE orders SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM orders WHERE id = %s)"
                return (text, (other, one, other))
        return (
            "INSERT INTO orders VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET name = excluded.name, "
            "price = excluded.price, tags = excluded.tags",
            (one, name, price, paid, rng.choice([["x", "y"], [], None]), rng.choice([None, '{"k": [1, 2]}'])),
        )

    def rows(self) -> dict[int, tuple[Any, ...]]:
        found = self._postgres.sql("SELECT id, name, price::float8, paid, tags, more::text FROM orders")
        return {row[0]: tuple(row) for row in found}


def exported(folder: Path) -> dict[int, tuple[Any, ...]]:
    """Exports what the topic has, and returns the rows of the table."""
    with siltstone.open_store(folder) as store:
        report = siltstone.maintenance.plan(store, kinds=["table-export"], force=True).run()
        assert report.is_well, report
    catalog = f"sqlite:///{folder}/tables/catalog.sqlite"
    table = load_catalog("siltstone", type="sql", uri=catalog).load_table("kafka.shop_public_orders")
    found = {}
    for row in table.scan().to_arrow().to_pylist():
        assert row["_rescued_data"] in (None, '{"tags":[]}'), row
        tags = [] if row["_rescued_data"] else row["tags"]
        found[row["id"]] = (row["id"], row["name"], row["price"], row["paid"], tags, row["more"])
    return found


def test_ch8_the_table_equals_the_one_that_debezium_reads(tmp_path: Path, record_tried: RecordTried) -> None:
    rng = random.Random(seed_of_this_run("CRASH_SEED"))
    port, rest_port = free_ports(2)
    folder = tmp_path / "store"
    with running_postgres_server(wal_level="logical", max_replication_slots="4") as postgres:
        changes = Changes(postgres, rng)
        changes.make(60)  # what the snapshot reads
        with BrokerProcess(folder, port=port) as broker:
            properties = worker_properties(broker.bootstrap_servers, rest_port, JSON)
            properties |= {"exactly.once.source.support": "disabled", "offset.flush.interval.ms": "200"}
            config = {
                "siltstone.table.format": "iceberg", "siltstone.table.value": "json",
                "siltstone.table.columns": "infer", "siltstone.table.mode": "upsert",
                "siltstone.table.change": "debezium", "siltstone.table.key": "json",
                "siltstone.table.key.columns": "id long",
            }  # fmt: skip
            create(broker.bootstrap_servers, TOPIC, **config)
            try:
                worker = connect_worker(tmp_path, properties, DEBEZIUM)
            except JavaArtifactsUnavailable as reason:
                pytest.skip(str(reason))
            with worker:
                worker.start()
                put_connector(rest_port, "orders", connector(postgres))
                wait_for_changes(postgres, broker.bootstrap_servers, worker)
                for part in range(4):
                    changes.make(60)
                    time.sleep(rng.uniform(0.0, 2.0))
                    if part in (1, 2):
                        worker.kill()
                        changes.make(20)
                        worker.start()
                postgres.sql("TRUNCATE orders")
                changes.make(20)
                postgres.sql("INSERT INTO orders VALUES (999, 'the last')")
                wait_for(b"the last", broker.bootstrap_servers, worker)
                assert worker.stop(SECONDS) is not None
            assert broker.stop() == 0, broker.log[-4_000:]
        assert exported(folder) == changes.rows()
        record_tried("changes read by Debezium", 360)


def wait_for_changes(postgres: PostgresServer, servers: str, worker: Any) -> None:
    """Waits until the first snapshot is over, and its place noted. A connector that is killed before makes another one,
    and has no event of the rows that were deleted between the two."""
    postgres.sql("INSERT INTO orders VALUES (998, 'the first')")
    is_over = threading.Event()

    def change() -> None:
        while not is_over.wait(0.5):
            postgres.sql("UPDATE orders SET paid = NOT coalesce(paid, true) WHERE id = 998")

    changing = threading.Thread(target=change)
    changing.start()
    try:
        wait_for(b'"op":"u"', servers, worker)
        time.sleep(2)  # ten times the interval in which places are noted
    finally:
        is_over.set()
        changing.join()


def wait_for(wanted: bytes, servers: str, worker: Any) -> None:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "w", "auto.offset.reset": "earliest", **QUIET}
    )
    consumer.subscribe([TOPIC])
    give_up = time.monotonic() + SECONDS
    while True:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None and wanted in (message.value() or b""):
            consumer.close()
            return
        assert time.monotonic() < give_up, worker.log[-4_000:]
