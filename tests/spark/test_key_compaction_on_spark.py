"""Key compaction whose tasks run on Spark, in other processes: many streams in one job, the same bytes as here."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import siltstone
from siltstone.carrying.pipeline.kind import Outcome
from siltstone.carrying.pipeline.running import RunReport
from siltstone.model.objects import ObjectState, object_key
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.spark.spark_runner import SparkRunner
from support.broker.keyed_broker import SETTINGS, Keyed, Table, table_of
from support.kafka.raw_kafka import RawConnection, address_of
from support.maintenance.compacted_store import KEYS, compact_keys, maintained, roll, split
from support.spark.key_compaction_tasks import DOOMED, dies_of_one

pytestmark = pytest.mark.spark

NAMES = ["a", "b", "c", "doomed"]


@pytest.fixture(scope="module")
def tables(filled: Path) -> dict[str, Table]:
    return tables_of(filled)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with four compacted topics, in stream objects and closed segments."""
    folder = tmp_path_factory.mktemp("keyed")
    with (
        siltstone.Broker(folder, settings=SETTINGS) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        for name in NAMES:
            Keyed(connection, name).produce(40)
    with maintained(folder) as context:
        split(context)
        roll(context)
    return folder


def tables_of(folder: Path) -> dict[str, Table]:
    with (
        siltstone.Broker(folder, settings=SETTINGS) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        return {name: table_of(connection, Keyed.topic_of(connection, name))[0] for name in NAMES}


def compacted(filled: Path, folder: Path, runner: Runner, now_ms: int) -> tuple[RunReport, dict[int, bytes]]:
    """The report, and the bytes of every object."""
    shutil.copytree(filled, folder)
    with maintained(folder, clock=ManualClock(now_ms)) as context:
        report = compact_keys(context, runner, replace(KEYS, wave_streams_max=3))
        store = context.buckets.store(0)
        objects = context.metadata.refresh().objects.values()
        return report, {
            each.object_id: bytes(store.get_range(object_key(each.object_id), 0, each.size_bytes))
            for each in objects
            if each.state is ObjectState.COMMITTED
        }


def test_spark_writes_the_bytes_that_one_process_writes(
    spark: Any, filled: Path, tables: dict[str, Table], tmp_path: Path
) -> None:
    now_ms = SystemClock().now_ms()
    report, by_spark = compacted(filled, tmp_path / "spark", SparkRunner(spark.sparkContext), now_ms)
    assert report.is_well and len(report.units) == len(NAMES)
    assert all(unit.records_removed > 0 for unit in report.units)
    _, here = compacted(filled, tmp_path / "here", InProcessRunner(), now_ms)
    assert by_spark == here
    assert tables_of(tmp_path / "spark") == tables


def test_an_executor_that_dies_of_one_stream_costs_the_others_nothing(
    spark: Any, filled: Path, tables: dict[str, Table], tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    shutil.copytree(filled, folder)
    with maintained(folder) as context:
        report = compact_keys(context, SparkRunner(spark.sparkContext), task=dies_of_one)
    outcomes = {unit.name: unit.outcome for unit in report.units}
    assert outcomes == {f"{name}-0": Outcome.DONE for name in NAMES} | {DOOMED: Outcome.FAILED}
    (failed,) = report.failed
    assert "more than this executor has" in failed.text
    assert tables_of(folder) == tables
