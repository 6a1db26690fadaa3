"""Compaction whose iterations are Spark tasks in other processes: the same bytes as in this process."""

from pathlib import Path
from typing import Any

import pytest

from siltstone.maintenance.stream_set_compaction.carrying_out import SourcesUnusable
from siltstone.model.objects import ObjectKind
from siltstone.object_store.opening import open_store
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from siltstone.spark.spark_runner import SparkRunner
from support.maintenance.compacting import compact
from support.maintenance.compaction_sources import F1
from support.maintenance.compaction_world import CompactionWorld, scaled

pytestmark = pytest.mark.spark

SETTINGS = CompactionSettings(
    split_size_bytes=400, memory_bytes=1200, part_bytes_min=1, merged_block_bytes_max=1_000_000
)


def filled(folder: Path) -> CompactionWorld:
    folder.mkdir()
    world = CompactionWorld(open_store(folder.as_uri()))
    world.upload(*scaled(F1, 4))
    return world


def compacted(folder: Path, runner: Runner) -> dict[int, bytes]:
    """The new objects' bytes, once it is sure that no record changed."""
    world = filled(folder)
    before = world.records()
    old = world.ids(ObjectKind.STREAM_OBJECT)
    report = compact(world.context, runner, SETTINGS)
    assert (report.iterations, report.stream_objects) == (2, 3)
    assert world.records() == before
    world.assert_sound()
    new = world.ids(ObjectKind.STREAM_OBJECT) | world.ids(ObjectKind.STREAM_SET_OBJECT)
    return {object_id: world.bytes_of(object_id) for object_id in new - old}


def test_spark_writes_the_bytes_that_one_process_writes(spark: Any, tmp_path: Path) -> None:
    by_spark = compacted(tmp_path / "spark", SparkRunner(spark.sparkContext))
    assert len(by_spark) == 4
    assert by_spark == compacted(tmp_path / "alone", InProcessRunner())


def test_damage_found_by_a_task_is_named_by_the_driver(spark: Any, tmp_path: Path) -> None:
    world = filled(tmp_path / "bucket")
    victim = min(world.ids(ObjectKind.STREAM_SET_OBJECT))
    world.damage(victim, 10)
    named = rf"^DamagedBlock: the block at 0 of object {victim}, stream 0 \[0, 15\)"
    with pytest.raises(SourcesUnusable, match=named) as raised:
        compact(world.context, SparkRunner(spark.sparkContext), SETTINGS)
    assert [failure.object_id for failure in raised.value.failures] == [victim]
    assert victim in world.ids(ObjectKind.STREAM_SET_OBJECT)
