"""Garbage collection whose tasks are Spark's: the same as in this process, and damage costs one object."""

from pathlib import Path
from typing import Any

import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.carrying.pipeline.set_aside import all_set_aside
from siltstone.model.objects import ObjectKind
from siltstone.object_store.opening import open_store
from siltstone.spark.spark_runner import SparkRunner
from support.maintenance.collecting_world import all_dead_destroyed, collected, collection, settings
from support.maintenance.compaction_world import CompactionWorld

pytestmark = pytest.mark.spark

SSO, SO = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT


def filled(folder: Path) -> CompactionWorld:
    folder.mkdir()
    world = CompactionWorld(open_store(folder.as_uri()))
    for first in range(0, 6, 2):
        world.upload({first: [(0, 10, 800)], first + 1: [(0, 10, 200)]})
        world.trim(first, 10)
    world.make_streams(1)
    world._commit({6: [(0, 10, 900), (10, 20, 250)]}, SO, 0)
    world.trim(6, 10)
    return world


@pytest.mark.parametrize(
    "copy_bytes_per_second", [pytest.param(0, marks=pytest.mark.nightly(tried="collections")), 1000]
)
def test_both_kinds_of_objects(spark: Any, tmp_path: Path, copy_bytes_per_second: int) -> None:
    world = filled(tmp_path / "bucket")
    before = world.records()
    kind = collection(settings=settings(copy_bytes_per_second=copy_bytes_per_second))
    report = collected(world.context, kind, SparkRunner(spark.sparkContext))
    assert [each.outcome for each in report.units] == [Outcome.DONE] * 2
    assert (len(world.ids(SSO)), len(world.ids(SO))) == (1, 1)
    assert world.records() == before
    held = report.held_seconds  # 600 bytes are rewritten, and 250 copied inside a folder
    assert held >= 0.8 if copy_bytes_per_second else held == 0
    world.assert_sound()


def test_gc13_a_damaged_object_costs_the_others_nothing(spark: Any, tmp_path: Path) -> None:
    world = filled(tmp_path / "bucket")
    world.damage(1, 900)
    report = collected(world.context, runner=SparkRunner(spark.sparkContext))
    assert [each.name for each in report.failed] == ["object 1"]
    assert len(report.done) == 2
    (aside,) = all_set_aside(world.metadata.image)
    assert (aside.name, "DamagedBlock" in aside.reason) == ("object 1", True)
    assert 1 in world.ids(SSO)
    assert all_dead_destroyed(world.context).units == ()
