"""Tables written by tasks on Spark, and read by Spark, DuckDB, Polars, pyiceberg and deltalake."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.metadata.commands import AlterTopicConfigs
from siltstone.offline.opening.store import Store
from siltstone.spark.spark_runner import SparkRunner
from siltstone.tables.failures import TableNotThere
from siltstone.tables.inspecting import file_urls, opened_table
from siltstone.tables.replay_kind import TableReplay
from siltstone.tables.task_input import Mending
from support.engine.s3_server import ENVIRONMENT, S3Server
from support.maintenance.foreign_table import ForeignTable, Row, flat_row
from support.maintenance.foreign_writers import delete_by_positions, delete_by_vector, iceberg_table
from support.maintenance.table_world import table_world
from support.processes.tried import RecordTried

pytestmark = pytest.mark.spark

COUNT = 400
DAY_MS = 86_400_000
Place = tuple[int, int, Any, Any]


def filled(folder: Path, table_format: str) -> list[tuple[Any, Any]]:
    """Three partitions, all codecs, records of two days. Returns the pairs of key and value that were sent."""
    sent = []
    with siltstone.Broker(folder) as broker:
        config = {"siltstone.table.format": table_format}
        broker.create_topic("flights", partitions=3, config=config)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = Producer(
                {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "log_level": 0}
            )
            for number in range(COUNT // 5):
                key = None if number % 5 == 0 else b"key-%d" % number
                value = None if number % 7 == 0 else b"value-%d-" % number + codec.encode()
                producer.produce(
                    "flights", key=key, value=value, timestamp=1_700_000_000_000 + number % 2 * DAY_MS
                )
                sent.append((key, value))
            assert producer.flush(60) == 0
            del producer
    return sent


def opened_by_duckdb(files: list[str], _: Any, __: Store) -> list[Place]:
    import duckdb  # at its end, each process that has imported it complains about leaks of DuckDB's

    return (
        duckdb.read_parquet([each.removeprefix("file://") for each in files])
        .select('"partition", "offset", "key", "value"')
        .fetchall()
    )


def opened_by_polars(files: list[str], _: Any, __: Store) -> list[Place]:
    frame = pl.scan_parquet([each.removeprefix("file://") for each in files])
    return frame.select("partition", "offset", "key", "value").collect().rows()


def opened_by_spark(files: list[str], spark: Any, _: Store) -> list[Place]:
    rows = spark.read.parquet(*files).select("partition", "offset", "key", "value").collect()
    return [(row[0], row[1], _bytes(row[2]), _bytes(row[3])) for row in rows]


def opened_by_pyiceberg(_: list[str], __: Any, store: Store) -> list[Place]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("siltstone", **store.kind_settings.tables.catalog)
    rows = catalog.load_table("kafka.flights").scan().to_arrow().to_pylist()
    catalog.close()
    return [(row["partition"], row["offset"], row["key"], row["value"]) for row in rows]


def opened_by_polars_as_delta(_: list[str], __: Any, store: Store) -> list[Place]:
    table = f"{store.kind_settings.tables.location}/kafka/flights"
    return pl.scan_delta(table).select("partition", "offset", "key", "value").collect().rows()


def opened_by_deltalake(_: list[str], __: Any, store: Store) -> list[Place]:
    import deltalake

    table = deltalake.DeltaTable(f"{store.kind_settings.tables.location}/kafka/flights")
    rows = table.to_pyarrow_table(columns=["partition", "offset", "key", "value"]).to_pylist()
    return [tuple(row.values()) for row in rows]  # type: ignore[misc]


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_tb1_tb7_the_rows_that_spark_wrote_are_those_of_every_reader(
    spark: Any, tmp_path: Path, table_format: str
) -> None:
    sent = filled(tmp_path / "store", table_format)
    with siltstone.open_store(tmp_path / "store") as store:
        expected = [
            (row["partition"], row["offset"], row["key"], row["value"])
            for row in siltstone.scan("flights", store=store).to_arrow().to_pylist()
        ]
        assert Counter((key, value) for _, _, key, value in expected) == Counter(sent)
        report = siltstone.maintenance.plan(store, kinds=["table-export"]).run(spark)
        assert report.is_well, report
        with opened_table(store.context, store.kind_settings.tables, "flights") as table:
            files = file_urls(table, store.kind_settings.tables)
        assert len(files) == 2, "one for each day"
        readers = [opened_by_duckdb, opened_by_polars, opened_by_spark]
        if table_format == "iceberg":
            readers.append(opened_by_pyiceberg)
        if table_format == "delta":
            readers += [opened_by_polars_as_delta, opened_by_deltalake]
        for reader in readers:
            assert sorted(reader(files, spark, store), key=repr) == sorted(expected, key=repr), (
                reader.__name__
            )


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_tb1_a_table_is_read_as_a_dataframe(spark: Any, tmp_path: Path, table_format: str) -> None:
    """Its columns are those of the whole table, also in rows of files that lack some; and so are those of no file."""
    folder, name = tmp_path / "store", "siltstone.table.columns"
    with siltstone.Broker(folder) as broker:
        config = {"siltstone.table.format": table_format, "siltstone.table.value": "json", name: "a int"}
        broker.create_topic("flights", config=config)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(20):
            producer.produce("flights", value="garbage" if number == 7 else f'{{"a": {number}, "b": "x"}}')
        assert producer.flush(60) == 0
        del producer
    with siltstone.open_store(folder) as store:
        with pytest.raises(TableNotThere):
            siltstone.spark.read_table("flights", store=store, spark=spark)
        assert siltstone.maintenance.plan(store, kinds=["table-export"]).run().is_well
    rows = siltstone.spark.read_table("flights", store=folder, spark=spark)
    assert sorted(row.a for row in rows.collect()) == [each for each in range(20) if each != 7]
    assert rows.where("a > 15 and kafka.offset < 19").count() == 3
    dead = siltstone.spark.read_table("flights", store=folder, spark=spark, dead_letters=True)
    assert [(row.offset, bytes(row.value)) for row in dead.collect()] == [(7, b"garbage")]
    with siltstone.open_store(folder) as store:
        topic_id = store.metadata.refresh().topic_ids["flights"]
        store.metadata.execute(AlterTopicConfigs(topic_id, put={name: "a int,b string"}))
    with siltstone.Broker(folder) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        producer.produce("flights", value='{"a": 100, "b": "y"}')
        assert producer.flush(60) == 0
        del producer
    with siltstone.open_store(folder) as store:
        assert siltstone.maintenance.plan(store, kinds=["table-export"], force=True).run().is_well
        newer = siltstone.spark.read_table("flights", store=store, spark=spark)
    assert newer.where("b = 'y'").collect()[0].a == 100 and newer.where("b is null").count() == 19
    assert rows.count() == 19, "a DataFrame is of one moment"


def test_dl9_dead_letters_are_mended_on_spark(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with siltstone.Broker(folder) as broker:
        config = {
            "siltstone.table.format": "iceberg", "siltstone.table.value": "json", "siltstone.table.columns": "a int",
        }  # fmt: skip
        broker.create_topic("flights", config=config)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(20):
            producer.produce("flights", value='{"a": "7"}' if number == 7 else f'{{"a": {number}}}')
        assert producer.flush(60) == 0
        del producer
    source = "def fixed(letter):\n    return letter.value.replace(b'\"', b'').replace(b'a', b'\"a\"')\n"
    with siltstone.open_store(folder) as store:
        assert siltstone.maintenance.plan(store, kinds=["table-export"]).run().is_well
        settings, mending = store.kind_settings.tables, Mending(source, "mend", "fixed")
        kind, scope = TableReplay(settings, "flights", mending), Scope(is_forced=True)
        watch = Watch(kind.name, store.context.clock)
        runner = SparkRunner(spark.sparkContext)
        (unit,) = run(store.context, kind, lambda: runner, scope, Budget(), watch).units
        assert unit.text.startswith("1 dead letter moved"), unit
    rows = siltstone.spark.read_table("flights", store=folder, spark=spark)
    assert sorted(row.a for row in rows.collect()) == list(range(20))


@pytest.mark.nightly
@pytest.mark.s3
@pytest.mark.timeout(900)
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_tb13_executors_merge_a_table_by_key_in_a_bucket_of_s3(
    spark: Any,
    tmp_path: Path,
    s3_server: S3Server,
    table_format: str,
    monkeypatch: pytest.MonkeyPatch,
    record_tried: RecordTried,
) -> None:
    """Three rounds, each of two jobs: one stages the records, the other merges them into the buckets of the table."""
    for name, value in ENVIRONMENT.items():  # of Spark's Python workers; its JVM may be older than the server
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    folder = tmp_path / "store"
    config = {
        "siltstone.table.format": table_format, "siltstone.table.mode": "upsert", "cleanup.policy": "compact",
        "siltstone.table.buckets": "4", "siltstone.table.key": "json", "siltstone.table.key.columns": "id long",
    }  # fmt: skip
    view: dict[int, bytes] = {}
    settings = {"tables.location": s3_server.new_url()}
    for number in range(3):
        with siltstone.Broker(folder) as broker:
            if not number:
                broker.create_topic("newest", config=config)
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            for key in range(number * 20, number * 20 + 60):
                value = None if key % 9 == number else b"%d-%d" % (number, key)
                producer.produce("newest", key=f'{{"id":{" " * number}{key}}}', value=value)
                view.pop(key, None)
                view |= {} if value is None else {key: value}
            assert producer.flush(60) == 0
            del producer
        jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None).size()
        with siltstone.open_store(folder, settings) as store:
            report = siltstone.maintenance.plan(store, kinds=["table-export"], force=True).run(spark)
            assert report.is_well, report
            with opened_table(store.context, store.kind_settings.tables, "newest") as table:
                opened: Any = table
                rows = (
                    opened._table.scan().to_arrow()
                    if table_format == "iceberg"
                    else opened._table.to_pyarrow_table()
                )
        assert spark.sparkContext._jsc.sc().statusStore().jobsList(None).size() >= jobs + 2
        assert {row["key"]["id"]: row["value"] for row in rows.to_pylist()} == view
        assert rows.num_rows == len(view)
        record_tried("rounds on Spark in S3", 1)


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_rule_16_a_dataframe_has_no_rows_that_others_deleted(
    spark: Any, tmp_path: Path, table_format: str
) -> None:
    """Its other columns are those of the table, also a column of the division and nested ones."""
    with table_world(tmp_path, table_format) as world:
        (stream,) = world.kept(value="json", columns="a long, b string", partition_by="identity(b)")
        world.append_values(stream, *[f'{{"a": {number}, "b": "x"}}' for number in range(10)])
        world.export_now()
        with world.table_of() as table:
            (path,) = (each.path for each in table.files())
        store: Any = SimpleNamespace(
            context=world.context, kind_settings=SimpleNamespace(tables=world.settings)
        )
        before = siltstone.spark.read_table("t", store=store, spark=spark)
        if table_format == "delta":
            delete_by_vector(world, path, [0, 1, 2], is_inline=False)
        else:
            delete_by_positions(world, {path: [0, 1, 2]})
        rows = siltstone.spark.read_table("t", store=store, spark=spark)
    assert rows.schema == before.schema and before.count() == 10
    found = sorted(rows.collect(), key=lambda row: row.a)
    assert found == sorted(before.where("a >= 3").collect(), key=lambda row: row.a)
    assert [(row.a, row.b, row.kafka.offset) for row in found] == [(n, "x", n) for n in range(3, 10)]


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_rule_16_a_dataframe_has_what_others_wrote_and_named(
    spark: Any, tmp_path: Path, table_format: str
) -> None:
    """Of Iceberg a column that was renamed and made again, and a file outside the folder of the table; of both a folder
    whose name a URL writes otherwise."""
    with table_world(tmp_path / "a store, with ä", table_format) as world:
        table = ForeignTable(world, "append")
        store: Any = SimpleNamespace(
            context=world.context, kind_settings=SimpleNamespace(tables=world.settings)
        )

        def read_table() -> list[Row]:
            frame = siltstone.spark.read_table("t", store=store, spark=spark)
            rows = frame.selectExpr("* EXCEPT (at)", "unix_micros(at) AS at").collect()
            return [flat_row(each.asDict(recursive=True)) for each in rows]

        table.append(3)
        table.export()
        table.check(read_table)
        if table_format == "delta":
            return
        elsewhere = {"write.data.path": f"{tmp_path}/else where"}
        with iceberg_table(world).transaction() as transaction:
            transaction.set_properties(elsewhere)
        iceberg_table(world).append(table.new_row(a=1_000, b="x"))
        table.check(read_table)
        with iceberg_table(world).update_schema() as update:
            update.rename_column("b", "c")
        table.model.rename("b", "c")
        table.round()
        table.check(read_table)
