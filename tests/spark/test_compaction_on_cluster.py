"""Compaction on a real cluster while workers and executors are killed: the bytes, and the one commit, of a run that
nobody disturbed."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from siltstone.metadata.entities import JobState
from siltstone.model.objects import ObjectKind
from siltstone.offline.opening.store import open_store
from siltstone.offline.tasks.runner import InProcessRunner
from support.maintenance import compaction_driver
from support.maintenance.compacting import RoundReport, compact
from support.maintenance.live_store import (
    History,
    assert_bucket_is_exact,
    assert_checked,
    assert_reads_back,
    batches,
    copy_of,
    counts,
    digests,
    jobs,
    produce,
    store_settings,
    sweep_after,
)
from support.processes.tried import RecordTried
from support.spark.held_tasks import Gate
from support.spark.spark_cluster import DRIVER_SETTINGS, SparkCluster, start_driver, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(900)]

STREAMS = 20
DRIVER = Path(compaction_driver.__file__).read_text()


def test_kills_in_the_middle_of_tasks_change_no_byte(
    tmp_path: Path, spark_cluster: SparkCluster, record_tried: RecordTried
) -> None:
    settings, history = store_settings(tmp_path / "disturbed"), History()
    asyncio.run(produce(settings, history, STREAMS, batches(400, STREAMS, seed=1)))
    assert counts(settings)[ObjectKind.STREAM_SET_OBJECT] >= 10
    undisturbed = copy_of(settings, tmp_path / "undisturbed")
    with open_store(undisturbed) as store:
        expected = compact(store.context, InProcessRunner(), undisturbed.compaction)
    assert expected.iterations >= 6 and expected.stream_objects >= 3
    in_write, before_answer = Gate(tmp_path / "in-write"), Gate(tmp_path / "before-answer")

    driver = start_driver(
        DRIVER, str(settings.folder), "--master", spark_cluster.master, "--spark", json.dumps(DRIVER_SETTINGS),
        "--in-write", str(in_write.folder), "--before-answer", str(before_answer.folder),
    )  # fmt: skip
    held = wait_until(
        lambda: len(in_write.held_pids()) >= 2 and in_write.held_pids(), "two tasks are writing"
    )
    assert spark_cluster.executor_of(held[0]).pid != spark_cluster.executor_of(held[1]).pid
    spark_cluster.kill_python_worker(held[0])
    wait_until(lambda: len(in_write.held_pids()) >= 3, "the killed worker's unit is written again")
    in_write.open()
    held = wait_until(
        lambda: len(before_answer.held_pids()) >= 2 and before_answer.held_pids(), "two are done"
    )
    spark_cluster.kill_executor_of(held[1])
    wait_until(lambda: len(before_answer.held_pids()) >= 3, "the killed executor's unit is done again")
    assert_reads_back(settings, history)  # by a node, from the old objects
    before_answer.open()
    output, errors = driver.communicate(timeout=600)

    assert errors == ""
    report = msgspec.json.decode(output, type=RoundReport)
    assert report.committed and report.iterations == expected.iterations
    assert digests(settings) == digests(undisturbed)
    assert [job.state for job in jobs(settings)] == [JobState.SUCCEEDED]
    assert_checked(settings)
    assert_reads_back(settings, history)
    sweep_after(settings, hours=1)
    assert_bucket_is_exact(settings)
    record_tried("workers and executors killed under a compaction", 2)
