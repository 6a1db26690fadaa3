"""Reads, sinks and exports on a real cluster, while Python workers, executors and the cluster's worker processes are
killed in the middle of their tasks, or while each task runs twice: every row comes once.

A night plays each work once, disturbed in a way that the date draws; ``NIGHT=all`` plays all.
"""

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.sinks import STAGING_PREFIX
from siltstone.model.limits import HOUR_MS
from siltstone.offline.context import MaintenanceContext
from siltstone.server.settings.node import load_node_settings
from siltstone.tables.inspecting import file_urls, opened_table
from support.maintenance.compacted_store import maintained
from support.maintenance.sinks import QUIET, create, values
from support.processes.night import drawn_tonight
from support.processes.tried import RecordTried
from support.spark import held_driver
from support.spark.held_driver import EXPORT, EXPORT_IN_WRITE, OBJECTS, READ, RELAY, ROWS, STREAM
from support.spark.held_tasks import Gate
from support.spark.spark_cluster import DRIVER_SETTINGS, SparkCluster, start_driver, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(900)]

EXPECTED = [f"value-{number:06d}" for number in range(ROWS)]
TWICE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.task.duration.threshold": "1s",
}
"""Spark runs a second attempt of a task on another host when the first one has taken a second."""


def kill(cluster: SparkCluster, gate: Gate) -> int:
    """Kills the Python worker of a held task, and then the executor of another attempt."""
    (first, *_) = wait_until(gate.held_pids, "a task is held")
    cluster.kill_python_worker(first)
    seen = {first}
    (second, *_) = wait_until(lambda: {*gate.held_pids()} - seen, "another attempt is held")
    seen |= {*gate.held_pids()}
    cluster.kill_executor_of(second)
    wait_until(lambda: {*gate.held_pids()} - seen, "an attempt after the executor's end is held")
    return 2


def restart_worker(cluster: SparkCluster, gate: Gate) -> int:
    """Kills the cluster's worker process that a held task runs under, and starts one in its place."""
    (first, *_) = wait_until(gate.held_pids, "a task is held")
    seen = {*gate.held_pids()}
    cluster.restart_worker_of(first)
    wait_until(lambda: {*gate.held_pids()} - seen, "an attempt after the worker's end is held")
    return 1


def run_twice(cluster: SparkCluster, gate: Gate) -> int:
    """Waits until two attempts of one task are held, on two executors."""
    held = wait_until(lambda: len(gate.held_pids()) >= 2 and gate.held_pids(), "a second attempt is held")
    assert len({cluster.executor_of(pid).pid for pid in held}) == len(held)
    return 1


WORKS = (RELAY, OBJECTS, STREAM, READ, EXPORT, EXPORT_IN_WRITE)
DISTURBANCES = {
    "killed": (kill, {}, 2),
    "worker-process-killed": (restart_worker, {}, 2),
    "twice": (run_twice, TWICE, 1),
}
CASES = [case for work in WORKS for case in drawn_tonight([(work, how) for how in DISTURBANCES], 1)]


@pytest.mark.parametrize(
    ("work", "disturb", "settings", "partitions"),
    [pytest.param(work, *DISTURBANCES[how], id=f"{work}-{how}") for work, how in CASES],
)
def test_sr17_sw4_ss11_tb7_every_row_comes_once(
    tmp_path: Path,
    spark_cluster: SparkCluster,
    record_tried: RecordTried,
    request: pytest.FixtureRequest,
    work: str,
    disturb: Callable[[SparkCluster, Gate], int],
    settings: dict[str, str],
    partitions: int,
) -> None:
    store, gate = tmp_path / "store", Gate(tmp_path / "gate")

    def play() -> list[str]:
        driver = start_driver(
            Path(held_driver.__file__).read_text(),
            *(spark_cluster.master, json.dumps({**DRIVER_SETTINGS, **settings}), work, str(store)),
            *(str(gate.folder), str(partitions)),
        )
        request.addfinalizer(driver.kill)
        return watched(driver, lambda: record_tried("tasks disturbed", disturb(spark_cluster, gate)), gate)

    with siltstone.Broker(store) as broker:
        made(broker, partitions)
        found = [] if work == OBJECTS else play()
    if work == OBJECTS:
        found = play()
    if work in (EXPORT, EXPORT_IN_WRITE):
        found = exported(store)
    elif work != READ:
        with siltstone.Broker(store) as broker:
            found = [value.decode() for value in values(broker.bootstrap_servers, work, partitions)]
    assert found == EXPECTED
    if work in (RELAY, OBJECTS, STREAM):
        assert_the_sweep_deletes_what_lost_attempts_staged(store)


def watched(driver: "subprocess.Popen[str]", disturb: Callable[[], object], gate: Gate) -> list[str]:
    """Returns what the driver read."""
    try:
        disturb()
    except AssertionError:
        driver.kill()
        print(driver.communicate()[1][-4_000:])
        raise
    gate.open()
    output, errors = driver.communicate(timeout=600)
    assert driver.returncode == 0, errors[-4_000:]
    lines = output.splitlines()
    return json.loads(lines[-1]) if lines else []


def made(broker: siltstone.Broker, partitions: int) -> None:
    """Makes the topics, and writes the rows into the one from which rows are read. All are in objects afterwards."""
    address = broker.bootstrap_servers
    for name in (RELAY, OBJECTS, STREAM):
        create(address, name, partitions)
    create(address, "source", partitions, **{"siltstone.table.format": "parquet"})
    producer = Producer({"bootstrap.servers": address, **QUIET})
    for value in EXPECTED:
        producer.produce("source", key=random.randbytes(1_000).hex(), value=value)
    assert producer.flush(60) == 0
    broker.flush()


def exported(store: Path) -> list[str]:
    """Returns the values of the table. No file of it is there twice."""
    tables = load_node_settings(store, environment={}).tables
    with maintained(store) as context, opened_table(context, tables, "source", dead_letters=False) as table:
        urls = file_urls(table, tables)
    assert len(urls) == len(set(urls))
    rows = [value for url in urls for value in pl.read_parquet(url.removeprefix("file://"))["value"]]
    return sorted(value.decode() for value in rows)


def assert_the_sweep_deletes_what_lost_attempts_staged(store: Path) -> None:
    """It does so after a day."""
    with maintained(store, hours_ahead=25) as context:
        assert staged(context), "the lost attempts have staged rows"
        sweep(context, HOUR_MS)
        assert staged(context) == []


def staged(context: MaintenanceContext) -> list[str]:
    return [each.key for each in context.buckets.store(0).list(STAGING_PREFIX)]
