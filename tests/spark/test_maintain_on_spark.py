"""Maintenance whose tasks run on Spark: from the command line and from Python, on the Spark of the tests."""

from pathlib import Path
from typing import Any

import pytest

import siltstone
from support.engine.small_store import STREAMS, object_files, small_store
from support.processes.cli import run
from support.processes.tried import RecordTried
from support.spark.other_pythons import bare_python, other_python

pytestmark = pytest.mark.spark

SPLIT = "compaction.split_size_bytes"


@pytest.mark.nightly(tried="runs of maintenance on Spark")
def test_maintain_run_uses_the_spark_that_runs(spark: Any, tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    before = len(object_files(settings.folder))
    arguments = ("--kind", "sso-compaction", "--set", f"{SPLIT}=5KiB", "--store", settings.folder)
    outcome = run("maintain", "run", *arguments)
    assert outcome.status == 0, outcome
    assert f"  objects: done: {before} objects became {STREAMS}, " in outcome.out
    assert "starting Spark (local[*])" in outcome.err
    assert run("check", "--store", settings.folder).status == 0
    assert spark.range(3).count() == 3, "a Spark that was there before stays"


def test_b15_tasks_on_spark_write_to_a_bucket_that_was_added(spark: Any, tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    here = ("--store", settings.folder)
    for words in (("add", tmp_path / "second"), ("strategy", "round-robin")):
        done = run("buckets", *words, *here)
        assert done.status == 0, done.err
    outcome = run("maintain", "run", "--kind", "sso-compaction", "--set", f"{SPLIT}=5KiB", *here)
    assert outcome.status == 0, outcome
    held = {each["id"]: each["objects"] for each in run("buckets", "--json", *here).json["buckets"]}
    assert held[1] == STREAMS, (
        "the empty bucket gets them, and the first one has only what waits for its deletion"
    )
    assert run("check", *here).status == 0


@pytest.mark.nightly(tried="checks of workers")
def test_workers_without_the_package_are_found_by_one_check_and_nothing_is_set_aside(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose Python has no siltstone is the commonest mistake there is on a cluster."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare_python(tmp_path)))
    settings = small_store(tmp_path / "store")
    arguments = ("--set", f"{SPLIT}=5KiB", "--store", settings.folder)
    outcome = run("maintain", "run", *arguments)
    assert outcome.status == 1
    assert outcome.out.count("Spark's workers cannot run tasks: ") == 1 and "Traceback" not in outcome.out
    assert "cannot import siltstone: install siltstone" in outcome.out and "PYSPARK_PYTHON" in outcome.out
    assert outcome.out.splitlines()[-1].startswith("minor-gc: "), "the kinds after it are not tried"
    status = run("maintain", "status", *arguments)
    assert "No unit is set aside." in status.out and "failed" in status.out
    monkeypatch.undo()
    assert run("maintain", "run", *arguments).status == 0


@pytest.mark.nightly
def test_another_python_on_the_workers_is_said_with_what_to_do(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_tried: RecordTried
) -> None:
    record_tried("Pythons", 1)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other_python(tmp_path)))
    settings = small_store(tmp_path / "store")
    with siltstone.open_store(settings.folder, {SPLIT: "5KiB"}) as store:
        report = siltstone.maintenance.plan(store, kinds=["sso-compaction", "major-gc"]).run(spark)
        (ran,) = report.runs
        assert (
            "they have Python 3.9, and the driver 3." in ran.trouble
            and "set PYSPARK_PYTHON to" in ran.trouble
        )
        assert ran.has_no_runner and not ran.units and not report.is_well
        assert "cannot run tasks" in repr(report)


def test_jobs_and_stages_carry_kind_unit_and_job_number(spark: Any, tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    with siltstone.open_store(settings.folder, {SPLIT: "5KiB"}) as store:
        report = siltstone.maintenance.plan(store, kinds=["sso-compaction"]).run(spark)
    label = f"siltstone: sso-compaction object 0 and 3 more, job {report.runs[0].job_id}"
    shown = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    jobs = [shown.apply(at) for at in range(shown.size())]
    assert {job.name() for job in jobs if job.description().toString() == f"Some({label})"} == {label}


def test_a_plan_runs_on_a_session_of_ones_own(spark: Any, tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    with siltstone.open_store(settings.folder, {SPLIT: "5KiB"}) as store:
        report = siltstone.maintenance.plan(store, kinds=["sso-compaction"]).run(spark)
        assert report.is_well and report.runs[0].done[0].objects_after == STREAMS
    assert spark.range(3).count() == 3
    assert run("check", "--store", settings.folder).status == 0
