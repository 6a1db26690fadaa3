"""Tables in a bucket of a real S3 server, a catalog in a real PostgreSQL, and Iceberg's own REST catalog."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog

import siltstone
from oracles.glue import running_glue
from oracles.iceberg_rest import running_rest_catalog
from siltstone.maintenance.checking.check import check
from siltstone.tables.failures import CatalogFailed, CommitOvertaken
from siltstone.tables.inspecting import opened_table
from support.engine.s3_server import S3Server
from support.kafka.kafka_oracles import or_skip
from support.metadata.postgres_server import PostgresServer
from support.processes.ports import free_port
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(240)]

COUNT = 50


def filled(folder: Path, table_format: str) -> Path:
    with siltstone.Broker(folder) as broker:
        config = {"siltstone.table.format": table_format, "siltstone.table.value": "json"}
        broker.create_topic("flights", partitions=2, config=config)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(COUNT):
            producer.produce("flights", value="garbage" if number % 10 == 0 else '{"a": 1}')
        assert producer.flush(60) == 0
        del producer
    return folder


@pytest.mark.s3
@pytest.mark.xdist_group("s3-tables")
@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_tb1_tables_in_a_bucket_of_s3(
    tmp_path: Path, s3_server: S3Server, table_format: str, record_tried: RecordTried
) -> None:
    record_tried("tables", 1)
    settings = {"tables.location": s3_server.new_url()}
    with siltstone.open_store(filled(tmp_path / "store", table_format), settings) as store:
        tables = store.kind_settings.tables
        report = siltstone.maintenance.plan(store, kinds=["table-export"]).run()
        assert report.is_well, report
        with opened_table(store.context, tables, "flights") as table:
            assert table.rows == COUNT * 9 // 10
            assert sum(each.rows for each in table.files()) == table.rows
            assert table.place.startswith(tables.location.partition("?")[0])
            if table_format == "iceberg":
                assert table._table.scan().to_arrow().num_rows == table.rows  # type: ignore[attr-defined]
        with opened_table(store.context, tables, "flights", dead_letters=True) as table:
            assert table.rows == COUNT // 10
        assert check(store.context, tables=tables).is_clean


@pytest.mark.postgres
@pytest.mark.xdist_group("postgres-tables")
def test_tb3_a_catalog_in_postgresql(
    tmp_path: Path, postgres_server: PostgresServer, record_tried: RecordTried
) -> None:
    """Also its refusal of a late commit: it compares the metadata in the database, as SQLite does."""
    record_tried("tables", 1)
    url = (
        postgres_server.tcp_url("unused").partition("?")[0].replace("postgresql://", "postgresql+psycopg://")
    )
    exported_by_catalog(tmp_path / "store", {"tables.catalog.type": "sql", "tables.catalog.uri": url})


def test_tb3_a_rest_catalog_of_apache_iceberg(tmp_path: Path, record_tried: RecordTried) -> None:
    """Also its refusal of a late commit, which the server of the catalog gives."""
    record_tried("tables", 1)
    with running_rest_catalog(tmp_path) as url:
        settings = {"tables.catalog.type": "rest", "tables.catalog.uri": url}
        exported_by_catalog(tmp_path / "store", settings)
        config = {"siltstone.table.format": "iceberg", "siltstone.table.value": "json"}
        with siltstone.Broker(tmp_path / "store") as broker:
            broker.create_topic("more", config=config)
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            producer.produce("more", value='{"a": 1}')
            producer.produce("flights", value='{"a": 1, "b": "new"}')
            assert producer.flush(60) == 0
            del producer
        with siltstone.open_store(tmp_path / "store", settings) as store:
            report = siltstone.maintenance.plan(store, kinds=["table-export"], force=True).run()
            assert report.is_well, report
            tables = store.kind_settings.tables
            with opened_table(store.context, tables, "flights") as table:
                assert table.rows == COUNT * 9 // 10 + 1
                values = table._table.scan().to_arrow()["value"].to_pylist()  # type: ignore[attr-defined]
                assert '{"a": 1, "b": "new"}' in values
            assert check(store.context, tables=tables).is_clean
        names = {tuple(each) for each in load_catalog("asked", type="rest", uri=url).list_tables("kafka")}
        assert {("kafka", "flights"), ("kafka", "more")} <= names
    with (
        pytest.raises(CatalogFailed, match="the catalog does not answer"),
        siltstone.open_store(tmp_path / "store", settings) as store,
        opened_table(store.context, store.kind_settings.tables, "flights"),
    ):
        pass


def test_tb3_the_glue_catalog_that_moto_imitates(tmp_path: Path, record_tried: RecordTried) -> None:
    """Glue compares the version of a table, and refuses a late commit."""
    record_tried("tables", 1)
    with or_skip(lambda: running_glue(free_port())) as url:
        glue = {"endpoint": url, "region": "us-east-1", "access-key-id": "x", "secret-access-key": "x"}
        settings = {f"tables.catalog.glue.{name}": value for name, value in glue.items()}
        exported_by_catalog(tmp_path / "store", {"tables.catalog.type": "glue", **settings})


def exported_by_catalog(folder: Path, settings: dict[str, str]) -> None:
    """Exports a topic into a table of the catalog, not of the one in the store's folder, and tries a late commit."""
    with siltstone.open_store(filled(folder, "iceberg"), settings) as store:
        tables = store.kind_settings.tables
        report = siltstone.maintenance.plan(store, kinds=["table-export"]).run()
        assert report.is_well, report
        assert not (folder / "tables/catalog.sqlite").exists()
        with (
            opened_table(store.context, tables, "flights") as late,
            opened_table(store.context, tables, "flights") as table,
        ):
            assert table.rows == COUNT * 9 // 10
            table.append([], table.ledger)
            with pytest.raises(CommitOvertaken, match=r"table kafka\.flights has changed meanwhile"):
                late.append([], late.ledger)
