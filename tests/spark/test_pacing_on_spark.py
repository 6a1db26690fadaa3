"""The rate of a run is held inside the tasks of executors, and divided among those that run at a time."""

import time
from pathlib import Path
from typing import Any

import pytest

from siltstone.carrying.pipeline.watch import Cancelled, Watch
from siltstone.model.limits import KIB
from siltstone.object_store.opening import open_store
from siltstone.offline.tasks.pacing import PacedRunner, TaskPace
from siltstone.runtime.clock import SystemClock
from siltstone.spark.spark_runner import SparkRunner
from support.spark.paced_tasks import read_at_pace

pytestmark = pytest.mark.spark


def paced(spark: Any, per_second: int, watch: Watch, units: int = 1) -> PacedRunner:
    return PacedRunner(
        SparkRunner(spark.sparkContext), TaskPace(per_second), units=units, clock=SystemClock(), check=watch.check,
        on_held=watch.held,
    )  # fmt: skip


def test_executors_keep_to_the_rate_together(spark: Any, tmp_path: Path) -> None:
    open_store(tmp_path.as_uri()).put("a", [bytes(64 * KIB)])
    watch = Watch("sso-compaction", SystemClock())
    runner = paced(spark, 128 * KIB, watch, units=4)
    given = f"{tmp_path.as_uri()} {64 * KIB}".encode()
    began = time.monotonic()
    assert runner.run(read_at_pace, [given] * 4) == [b"65536"] * 4, "two run at a time, each at half the rate"
    assert time.monotonic() - began >= 2 * 0.9
    assert watch.held_ms >= 1000 * 0.9, "the first task at least, as time between tasks counts for the next"
    ends = dict(runner.run_each(read_at_pace, iter([given] * 2)))
    assert ends == {0: b"65536", 1: b"65536"}


def test_a_cancelled_run_does_not_wait_for_the_rate(spark: Any, tmp_path: Path) -> None:
    """Its task would take 18 hours."""
    open_store(tmp_path.as_uri()).put("a", [bytes(64 * KIB)])
    watch = Watch("sso-compaction", SystemClock())
    runner = paced(spark, 1, watch)

    def progress(done: int, total: int) -> None:
        watch.cancel("Ctrl-C")
        watch.check()

    with pytest.raises(Cancelled):
        runner.run(read_at_pace, [f"{tmp_path.as_uri()} {64 * KIB}".encode()], progress)
