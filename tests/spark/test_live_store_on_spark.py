"""Compaction of a store that a real node made, on a real local Spark: beside a node that appends, without any node,
and with everything going wrong that can: tasks that fail for good, attempts that run twice or too late, a driver that
is killed."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from siltstone.maintenance.stream_set_compaction.carrying_out import SourcesUnusable
from siltstone.maintenance.stream_set_compaction.task import run_iteration
from siltstone.maintenance.stream_set_compaction.task_input import CODEC, IterationResult
from siltstone.metadata.entities import JobState
from siltstone.metadata.refusals import JobRunning
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.offline.opening.store import open_store
from siltstone.offline.tasks.runner import InProcessRunner, RunFailed, Runner, Task
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.server.components import Node
from siltstone.server.settings.node import NodeSettings
from siltstone.spark.spark_runner import SparkRunner
from support.maintenance import compaction_driver
from support.maintenance.compacting import RoundReport, compact
from support.maintenance.live_store import (
    History,
    appending,
    assert_bucket_is_exact,
    assert_checked,
    assert_reads_back,
    batches,
    copy_of,
    counts,
    digests,
    jobs,
    produce,
    read_stream,
    store_settings,
    sweep_after,
    until_sets,
)
from support.processes.tried import RecordTried
from support.spark.held_tasks import Gate
from support.spark.spark_cluster import start_driver, wait_until

pytestmark = pytest.mark.spark

STREAMS = 20
DRIVER = Path(compaction_driver.__file__).read_text()


@pytest.fixture
def runner(spark: Any) -> SparkRunner:
    return SparkRunner(spark.sparkContext)


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def settings(tmp_path: Path, history: History) -> NodeSettings:
    """A filled store without a node."""
    made = store_settings(tmp_path / "store")
    asyncio.run(produce(made, history, STREAMS, batches(400, STREAMS, seed=2)))
    return made


def compacted(settings: NodeSettings, runner: Runner) -> RoundReport:
    with open_store(settings) as store:
        return compact(store.context, runner, settings.compaction)


def compacted_in_process(settings: NodeSettings, folder: Path) -> dict[int, str]:
    """What the objects of this store should become."""
    copy = copy_of(settings, folder)
    assert compacted(copy, InProcessRunner()).iterations >= 6
    return digests(copy)


# -- with and without a node -----------------------------------------------------------------------------


def test_compaction_needs_no_node(
    settings: NodeSettings, history: History, runner: SparkRunner, tmp_path: Path
) -> None:
    expected = compacted_in_process(settings, tmp_path / "expected")
    before = counts(settings)[ObjectKind.STREAM_SET_OBJECT]
    assert compacted(settings, runner).objects_before == before >= 10
    assert digests(settings) == expected
    assert_checked(settings)
    assert_reads_back(settings, history)


def test_a_node_appends_and_is_read_while_its_store_is_compacted(
    settings: NodeSettings, history: History, runner: SparkRunner
) -> None:
    async def scenario() -> list[RoundReport]:
        reports = []
        async with appending(settings, history, STREAMS) as node:
            for _ in range(3):
                await until_sets(node, 3)
                appended = sum(map(len, history.appended.values()))
                reports.append(await asyncio.to_thread(compacted, settings, runner))
                assert sum(map(len, history.appended.values())) > appended, "the node stood still"
                await assert_node_reads_all(node, history)
        return reports

    reports = asyncio.run(scenario())
    assert all(report.committed and report.objects_before >= 2 for report in reports)
    assert_checked(settings)
    assert_reads_back(settings, history)
    sweep_after(settings, hours=1)
    assert_bucket_is_exact(settings)


async def assert_node_reads_all(node: Node, history: History) -> None:
    for stream in list(node.engine._streams.values()):
        found = await read_stream(node, stream)
        assert found == history.appended[stream.stream_id][: len(found)]
        assert found[-1][1] >= stream.start_offset


# -- tasks that fail, run twice, or come too late --------------------------------------------------------


def test_a_damaged_source_changes_nothing_and_leaves_nothing(
    settings: NodeSettings, history: History, runner: SparkRunner
) -> None:
    before = digests(settings)
    victim, restore = damage_one(settings)
    with pytest.raises(SourcesUnusable, match=f"DamagedBlock: the block at 0 of object {victim}") as raised:
        compacted(settings, runner)
    assert {failure.object_id for failure in raised.value.failures} == {victim}
    restore()
    assert_given_up(settings, history, runner, before, "DamagedBlock")


def test_a_task_that_fails_for_good_changes_nothing_and_leaves_nothing(
    settings: NodeSettings, history: History, runner: SparkRunner
) -> None:
    before = digests(settings)
    with pytest.raises(RunFailed, match="UploadNotFound"):
        compacted(settings, SpoilingRunner(runner))
    assert_given_up(settings, history, runner, before, "UploadNotFound")


class SpoilingRunner:
    """The last task that writes a part is given an upload that there is none of, so every attempt of it raises."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def run(
        self,
        task: Task,
        inputs: Sequence[bytes],
        on_progress: Callable[[int, int], None] | None = None,
        label: str = "",
    ) -> list[bytes]:
        given = [CODEC.decode_input(each) for each in inputs]
        at = max(at for at, each in enumerate(given) if each.iteration.part is not None)
        gone = msgspec.structs.replace(given[at].upload, upload_id="0" * 32)
        spoiled = CODEC.encode_input(msgspec.structs.replace(given[at], upload=gone))
        return self._runner.run(task, [*inputs[:at], *inputs[at + 1 :], spoiled], on_progress)

    @property
    def is_lost(self) -> bool:
        return self._runner.is_lost

    def close(self) -> None:
        self._runner.close()


def assert_given_up(
    settings: NodeSettings, history: History, runner: Runner, before: dict[int, str], cause: str
) -> None:
    assert digests(settings) == before
    assert_reads_back(settings, history)
    (job,) = jobs(settings)
    assert job.state is JobState.FAILED and cause in job.report
    assert_outputs_are_swept(settings)
    assert digests(settings) == before
    assert compacted(settings, runner).committed  # the next round is not in the way of the failed one
    assert_reads_back(settings, history)


def damage_one(settings: NodeSettings) -> tuple[int, Callable[[], object]]:
    """One byte of the newest stream set object. Which, and how to put it back."""
    with open_store(settings) as store:
        objects = store.metadata.image.objects.values()
        victim = max(each.object_id for each in objects if each.kind is ObjectKind.STREAM_SET_OBJECT)
    path = settings.folder / "bucket" / object_key(victim)
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    return victim, lambda: path.write_bytes(content)


def assert_outputs_are_swept(settings: NodeSettings) -> None:
    """Before the time limit they may still be wanted by somebody; after it, and a grace period, they are gone."""
    with open_store(settings) as store:
        prepared = {
            each.object_id
            for each in store.metadata.image.objects.values()
            if each.state is ObjectState.PREPARED
        }
        written = {each.key for each in store.buckets.store(0).list()} & set(map(object_key, prepared))
    assert prepared and written, "nothing was left, so nothing is shown"
    assert sweep_after(settings, hours=23).objects_expired == 0
    assert sweep_after(settings, hours=24.1).objects_expired == len(prepared)
    assert_bucket_is_exact(settings)


class TwiceRunner:
    """Runs every task twice side by side, as speculation does, and tells the first one's results."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.inputs: list[bytes] = []
        self.results: list[tuple[IterationResult, IterationResult]] = []

    def run(
        self,
        task: Task,
        inputs: Sequence[bytes],
        on_progress: Callable[[int, int], None] | None = None,
        label: str = "",
    ) -> list[bytes]:
        self.inputs = list(inputs)
        doubled = self._runner.run(task, [given for given in inputs for _ in range(2)], on_progress)
        results = [
            msgspec.structs.replace(CODEC.decode_result(each), peak_memory_bytes=0, number=0)
            for each in doubled
        ]
        self.results = list(zip(results[::2], results[1::2], strict=True))
        return doubled[::2]

    def close(self) -> None:
        self._runner.close()


def test_attempts_side_by_side_write_the_same(
    settings: NodeSettings, history: History, runner: SparkRunner, tmp_path: Path
) -> None:
    expected = compacted_in_process(settings, tmp_path / "expected")
    twice = TwiceRunner(runner)
    assert compacted(settings, twice).iterations == len(twice.results) >= 6
    assert all(first == second for first, second in twice.results)
    assert digests(settings) == expected
    assert_checked(settings)
    assert_reads_back(settings, history)


@pytest.mark.nightly(tried="attempts")
def test_attempts_after_the_commit_change_nothing(
    settings: NodeSettings, history: History, runner: SparkRunner
) -> None:
    """A straggler of a driver that has long committed: the same bytes again, or an upload that has ended."""
    twice = TwiceRunner(runner)
    compacted(settings, twice)
    committed = digests(settings)
    with_part = [given for given in twice.inputs if CODEC.decode_input(given).iteration.part is not None]
    runner.run(run_iteration, [given for given in twice.inputs if given not in with_part])
    for given in (with_part[0], with_part[-1]):
        with pytest.raises(RunFailed, match="UploadNotFound"):
            runner.run(run_iteration, [given])
    assert digests(settings) == committed
    assert_checked(settings)
    assert_reads_back(settings, history)
    sweep_after(settings, hours=1)
    assert_bucket_is_exact(settings)


# -- a driver that is killed -----------------------------------------------------------------------------


@pytest.mark.nightly  # by day tests/crash kills drivers without a JVM, and test_source workers
def test_a_driver_killed_in_its_job_is_followed_by_the_next(
    tmp_path: Path, history: History, runner: SparkRunner, record_tried: RecordTried
) -> None:
    """Another process compacts once, beside a node that appends here; it is killed in its second round."""
    settings, gate = store_settings(tmp_path / "store"), Gate(tmp_path / "gate")
    asyncio.run(produce(settings, history, STREAMS, batches(200, STREAMS, seed=3)))

    async def scenario() -> None:
        async with appending(settings, history, STREAMS) as node:
            await asyncio.to_thread(kill_a_driver, settings, gate)
            await assert_node_reads_all(node, history)

    asyncio.run(scenario())
    gate.open()
    assert [job.state for job in jobs(settings)] == [JobState.SUCCEEDED, JobState.RUNNING]
    assert_checked(settings)
    assert_reads_back(settings, history)
    with pytest.raises(JobRunning):
        compacted(settings, runner)
    assert_next_driver_takes_over(settings, runner)
    assert_reads_back(settings, history)
    assert_outputs_are_swept(settings)
    assert_reads_back(settings, history)
    record_tried("drivers on Spark killed", 1)


def kill_a_driver(settings: NodeSettings, gate: Gate) -> None:
    """With SIGKILL, when tasks of its second round have written and not answered. Its Spark ends by itself."""
    driver = start_driver(
        DRIVER, str(settings.folder), "--master", "local[2]", "--rounds-before", "1",
        "--before-answer", str(gate.folder), "--lease-ms", str(30 * MINUTE_MS),
    )  # fmt: skip
    try:
        wait_until(lambda: len(gate.held_pids()) >= 2 or driver.poll() is not None, "two tasks are held")
        assert driver.poll() is None, driver.communicate()
        below = psutil.Process(driver.pid).children(recursive=True)
    finally:
        driver.kill()
    output, errors = driver.communicate(timeout=300)
    assert errors == ""
    assert msgspec.json.decode(output, type=RoundReport).committed
    assert any(process.name() == "java" for process in below if process.is_running())
    assert psutil.wait_procs(below, timeout=300)[1] == [], "something of the killed driver still runs"


def assert_next_driver_takes_over(settings: NodeSettings, runner: Runner) -> None:
    later = ManualClock(SystemClock().now_ms() + HOUR_MS)
    with open_store(settings, clock=later) as store:
        store.trust_clock()
        assert compact(store.context, runner, settings.compaction).committed
    assert [job.state for job in jobs(settings)] == [
        JobState.SUCCEEDED,
        JobState.FAILED,
        JobState.SUCCEEDED,
    ]
