"""The Spark runner on a real local Spark: order, retries, failures, progress, cancelling."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from siltstone.offline.tasks.runner import RunFailed
from siltstone.spark.spark_runner import SparkRunner, open_runner
from siltstone.spark.starting import SparkAlreadyRunning, start_context
from support.spark import spark_tasks
from support.spark.spark_cluster import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture
def runner(spark: Any) -> SparkRunner:
    return SparkRunner(spark.sparkContext)


def folders(where: Path, count: int) -> list[bytes]:
    made = [where / str(number) for number in range(count)]
    for folder in made:
        folder.mkdir()
    return [os.fsencode(folder) for folder in made]


def attempts(folder: bytes) -> int:
    return spark_tasks.attempts_so_far(Path(os.fsdecode(folder)))


def test_results_come_in_the_order_of_the_units(runner: SparkRunner) -> None:
    units = [bytes([number]) for number in range(20)]
    assert runner.run(spark_tasks.double, units) == [unit * 2 for unit in units]


def test_no_units_need_no_job(runner: SparkRunner) -> None:
    assert runner.run(spark_tasks.fail_always, []) == []


def test_units_run_in_other_processes(runner: SparkRunner) -> None:
    pids = {int(pid) for pid in runner.run(spark_tasks.process_id, [b""] * 4)}
    assert pids
    assert os.getpid() not in pids


@pytest.mark.parametrize(("task", "count"), [(spark_tasks.fail_twice, 3), (spark_tasks.die_once, 2)])
def test_an_attempt_that_fails_or_dies_is_followed_by_another(
    runner: SparkRunner, tmp_path: Path, task: Callable[[bytes], bytes], count: int
) -> None:
    units = folders(tmp_path, 2)
    assert runner.run(task, units) == [b"done", b"done"]
    assert attempts(units[0]) >= count  # a worker that dies may take down no unit but its own


def test_a_unit_that_always_fails_ends_the_run_with_its_cause(runner: SparkRunner, tmp_path: Path) -> None:
    (unit,) = folders(tmp_path, 1)
    with pytest.raises(RunFailed) as raised:
        runner.run(spark_tasks.fail_always, [unit])
    assert str(raised.value) == "the Spark job failed: ValueError: the block at 4096 is damaged"
    assert attempts(unit) == 4


def test_a_worker_that_always_dies_ends_the_run_with_its_cause(runner: SparkRunner, tmp_path: Path) -> None:
    (unit,) = folders(tmp_path, 1)
    with pytest.raises(RunFailed, match="Python worker exited unexpectedly") as raised:
        runner.run(spark_tasks.die_always, [unit])
    assert "\n" not in str(raised.value)
    assert attempts(unit) == 4


def test_progress_is_heard_while_the_job_runs_and_at_its_end(runner: SparkRunner, tmp_path: Path) -> None:
    held, free = folders(tmp_path, 2)
    (Path(os.fsdecode(free)) / "gate").touch()
    heard: list[tuple[int, int]] = []

    def on_progress(done: int, in_all: int) -> None:
        heard.append((done, in_all))
        if done == 1:  # only the one with the open gate can have ended
            (Path(os.fsdecode(held)) / "gate").touch()

    assert runner.run(spark_tasks.wait_for_gate, [held, free], on_progress) == [b"passed", b"passed"]
    assert (1, 2) in heard
    assert heard[-1] == (2, 2)
    assert heard == sorted(heard)


def test_an_interrupt_cancels_the_job(runner: SparkRunner, spark: Any, tmp_path: Path) -> None:
    (unit,) = folders(tmp_path, 1)
    where = Path(os.fsdecode(unit))

    def interrupt(done: int, in_all: int) -> None:
        if list(where.glob("running-*")):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(spark_tasks.wait_for_gate, [unit], interrupt)
    tracker = spark.sparkContext.statusTracker()
    wait_until(
        lambda: list(tracker.getActiveJobsIds()) == [], "no job is active"
    )  # the tracker lags a little
    assert not (where / "passed").exists()
    (where / "gate").touch()
    assert runner.run(spark_tasks.double, [b"a"]) == [b"aa"]  # and the next job runs


def test_a_runner_on_a_running_spark_leaves_it_running(runner: SparkRunner, spark: Any) -> None:
    second = open_runner()
    assert second.run(spark_tasks.double, [b"a"]) == [b"aa"]
    second.close()
    assert runner.run(spark_tasks.double, [b"a"]) == [b"aa"]


def test_a_second_spark_in_one_process_is_refused(spark: Any) -> None:
    with pytest.raises(SparkAlreadyRunning):
        start_context("local[1]")


def test_each_result_is_known_as_soon_as_its_task_has_ended(runner: SparkRunner, tmp_path: Path) -> None:
    held, free = folders(tmp_path, 2)
    (Path(os.fsdecode(free)) / "gate").touch()
    ends = runner.run_each(spark_tasks.wait_for_gate, [held, free])
    assert next(ends) == (1, b"passed")
    (Path(os.fsdecode(held)) / "gate").touch()
    assert list(ends) == [(0, b"passed")]


def test_a_task_that_always_fails_costs_the_tasks_beside_it_nothing(
    runner: SparkRunner, tmp_path: Path
) -> None:
    bad = folders(tmp_path, 1)[0]
    (bad_end,) = runner.run_each(spark_tasks.fail_always, [bad])
    assert isinstance(bad_end[1], RunFailed) and "the block at 4096 is damaged" in str(bad_end[1])
    units = [bytes([number]) for number in range(12)]
    assert dict(runner.run_each(spark_tasks.double, units)) == {n: bytes([n]) * 2 for n in range(12)}


def test_a_run_that_is_closed_early_cancels_its_jobs(runner: SparkRunner, spark: Any, tmp_path: Path) -> None:
    held, free = folders(tmp_path, 2)
    (Path(os.fsdecode(free)) / "gate").touch()
    ends = runner.run_each(spark_tasks.wait_for_gate, [held, free])
    assert next(ends) == (1, b"passed")
    ends.close()
    tracker = spark.sparkContext.statusTracker()
    wait_until(lambda: list(tracker.getActiveJobsIds()) == [], "no job is active")
    assert not (Path(os.fsdecode(held)) / "passed").exists()
