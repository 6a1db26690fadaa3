"""Erasure whose tasks run on Spark, in other processes: from a topic, from its table, and from the table's files."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import siltstone
from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.maintenance.erasing import follow, request_erasure
from siltstone.maintenance.erasure.report import report_of
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.offline.erasures import erasure_of, is_open
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from siltstone.spark.spark_runner import SparkRunner
from support.broker.erased_store import FAST, KEY, OTHER, produce

pytestmark = pytest.mark.spark


def keys_in(folder: Path) -> set[bytes]:
    return {key for path in folder.rglob("*.parquet") for key in pq.read_table(path)["key"].to_pylist()}


def test_records_and_rows_leave_by_tasks_on_spark(spark: Any, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    given = {**FAST, "tables.location": tables.as_uri()}
    with siltstone.Broker(tmp_path / "store", settings=given) as broker:
        broker.create_topic("orders", partitions=2, config={"siltstone.table.format": "parquet"})
        produce(broker, "orders", range(3))
        settings = load_node_settings(tmp_path / "store", flags=given, environment={})
        with open_store(settings) as store:

            def driver(scope: Scope) -> Driver:
                return Driver(store.context, lambda: SparkRunner(spark.sparkContext), scope, Budget())

            broker.flush()
            forced = Scope(is_forced=True)
            list(driver(forced).run(chosen_kinds(store.kind_settings, ["table-export"])))
            assert {KEY.encode(), OTHER.encode()} <= keys_in(tables)

            erasure_id = request_erasure(store.context, "orders", [KEY.encode()]).erasure_id
            reports = [*follow(store.context, store.kind_settings, erasure_id, driver)]
            reports += follow(
                store.context, store.kind_settings, erasure_id, driver
            )  # the files, after the grace
            assert all(each.is_well for each in reports), reports
            image = store.context.metadata.refresh()
            erasure = erasure_of(image, erasure_id)
            assert erasure is not None and not is_open(image, erasure)
            table = report_of(image, erasure, store.context.now_ms()).table
            assert table is not None and table.rows == 3 and table.deleted
    assert KEY.encode() not in keys_in(tables)
    assert OTHER.encode() in keys_in(tables)
    rows = siltstone.scan("orders", store=tmp_path / "store", lease="0").to_arrow()
    assert rows.num_rows == 3 * 19
