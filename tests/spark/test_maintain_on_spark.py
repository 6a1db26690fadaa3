"""Maintenance whose tasks run on Spark: from the command line and from Python, on the Spark of the tests."""

from pathlib import Path
from typing import Any

import pytest

import siltstone
from support.engine.small_store import STREAMS, object_files, small_store
from support.processes.cli import run

pytestmark = pytest.mark.spark

SPLIT = "compaction.split_size_bytes"


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


def test_a_plan_runs_on_a_session_of_ones_own(spark: Any, tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    with siltstone.open_store(settings.folder, {SPLIT: "5KiB"}) as store:
        report = siltstone.maintenance.plan(store, kinds=["sso-compaction"]).run(spark)
        assert report.is_well and report.runs[0].done[0].objects_after == STREAMS
    assert spark.range(3).count() == 3
    assert run("check", "--store", settings.folder).status == 0
