"""Stream object compaction whose parts are Spark tasks in other processes: the same bytes as in this process, and a
failure in a task fails its group alone."""

from pathlib import Path
from typing import Any

import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.model.objects import ObjectKind
from siltstone.object_store.opening import open_store
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from siltstone.spark.spark_runner import SparkRunner
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.stream_object_world import add_stream_object, joined_up

pytestmark = pytest.mark.spark


def filled(folder: Path) -> CompactionWorld:
    folder.mkdir()
    world = CompactionWorld(open_store(folder.as_uri()))
    for stream, sizes in enumerate([(1_500, 300, 2_500, 400, 1_000), (100, 200, 300), (2_000, 2_000)]):
        for at, size in enumerate(sizes):
            add_stream_object(world, stream, (10 * at, 10 * at + 10, size))
    return world


def compacted(folder: Path, runner: Runner) -> dict[int, bytes]:
    """The new objects' bytes, once it is sure that no record changed."""
    world = filled(folder)
    before, old = world.records(), world.ids(ObjectKind.STREAM_OBJECT)
    report = joined_up(world, runner=runner)
    assert [each.outcome for each in report.units] == [Outcome.DONE] * 3
    assert sum(each.bytes_read for each in report.units) < 9_000
    assert world.records() == before
    world.assert_sound()
    new = world.ids(ObjectKind.STREAM_OBJECT)
    assert not new & old
    return {object_id: world.bytes_of(object_id) for object_id in new}


def test_spark_writes_the_bytes_that_one_process_writes(spark: Any, tmp_path: Path) -> None:
    by_spark = compacted(tmp_path / "spark", SparkRunner(spark.sparkContext))
    assert len(by_spark) == 3
    assert by_spark == compacted(tmp_path / "alone", InProcessRunner())


def test_damage_found_by_a_task_fails_its_group_alone(spark: Any, tmp_path: Path) -> None:
    world = filled(tmp_path / "bucket")
    victim = sorted(world.ids(ObjectKind.STREAM_OBJECT))[6]
    world.damage(victim, 10)
    report = joined_up(world, runner=SparkRunner(spark.sparkContext))
    assert {each.name: each.outcome for each in report.units} == {
        "stream-0-0": Outcome.DONE,
        "stream-1-0": Outcome.FAILED,
        "stream-2-0": Outcome.DONE,
    }
    assert f"DamagedBlock: the block at 0 of object {victim}, stream 1 [10, 20)" in report.failed[0].text
