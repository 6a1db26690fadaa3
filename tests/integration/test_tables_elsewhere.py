"""Tables in a bucket of a real S3 server, and a catalog in a real PostgreSQL."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.tables.failures import CommitOvertaken
from siltstone.maintenance.tables.inspecting import opened_table
from support.engine.s3_server import S3Server
from support.metadata.postgres_server import PostgresServer
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
    settings = {"tables.catalog.type": "sql", "tables.catalog.uri": url}
    with siltstone.open_store(filled(tmp_path / "store", "iceberg"), settings) as store:
        tables = store.kind_settings.tables
        report = siltstone.maintenance.plan(store, kinds=["table-export"]).run()
        assert report.is_well, report
        assert not (tmp_path / "store/tables/catalog.sqlite").exists()
        with (
            opened_table(store.context, tables, "flights") as late,
            opened_table(store.context, tables, "flights") as table,
        ):
            assert table.rows == COUNT * 9 // 10
            table.append([], table.ledger)
            with pytest.raises(CommitOvertaken, match=r"table kafka\.flights has changed meanwhile"):
                late.append([], late.ledger)
