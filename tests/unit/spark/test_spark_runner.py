"""The runner without a JVM: a context that runs the tasks in this process. tests/spark has a real Spark."""

import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from siltstone.maintenance.tasks.runner import RunFailed
from siltstone.spark import spark_runner
from siltstone.spark.spark_runner import SparkRunner, open_runner


class Context:
    """What a runner asks of a SparkContext. A task that waits for ``gate`` goes on when the job is cancelled."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.jobs: list[tuple[str, str, bool]] = []
        self.partition_counts: list[int] = []
        self.cancelled: list[str] = []
        self.stages_done: list[int] = []
        self.calls_fail_with: Exception | None = None
        self.stops = 0
        self.defaultParallelism = 2
        self.stop_fails_first = False
        self.has_stopped: bool | Exception = False
        self._jsc: Any = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=self._is_stopped))

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:  # noqa: N802, N803
        self.jobs.append((group, description, interruptOnCancel))

    def parallelize(self, inputs: Sequence[bytes], partition_count: int) -> Any:
        self.partition_counts.append(partition_count)

        def mapped(attempt: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Any:
            return SimpleNamespace(
                collect=lambda: [each for given in inputs for each in attempt(iter([given]))]
            )

        return SimpleNamespace(mapPartitions=mapped)

    def statusTracker(self) -> Any:  # noqa: N802
        if self.calls_fail_with is not None:
            raise self.calls_fail_with
        stages = {
            number: SimpleNamespace(numCompletedTasks=done) for number, done in enumerate(self.stages_done)
        }
        (group, _, _) = self.jobs[-1]
        jobs = {5: SimpleNamespace(stageIds=[*stages, 77])}  # Spark has forgotten stage 77, and job 6
        return SimpleNamespace(
            getJobIdsForGroup=lambda asked: [5, 6] if asked == group else [],
            getJobInfo=jobs.get,
            getStageInfo=stages.get,
        )

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.cancelled.append(group)
        self.gate.set()
        if self.calls_fail_with is not None:
            raise self.calls_fail_with

    def stop(self) -> None:
        self.stops += 1
        if self.stop_fails_first and self.stops == 1:
            raise ConnectionRefusedError

    def _is_stopped(self) -> bool:
        if isinstance(self.has_stopped, Exception):
            raise self.has_stopped
        return self.has_stopped


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(SparkContext, "_gateway", None)  # other tests may have one
    monkeypatch.setattr(spark_runner, "PROGRESS_INTERVAL_SECONDS", 0.01)
    return Context()


def test_there_is_one_task_for_each_input_and_one_result_in_its_place(context: Any) -> None:
    heard: list[tuple[int, int]] = []
    results = SparkRunner(context).run(bytes.upper, [b"a", b"b", b"c"], lambda *now: heard.append(now))
    assert results == [b"A", b"B", b"C"]
    assert context.partition_counts == [3]
    assert heard[-1] == (3, 3)


def test_without_inputs_there_is_no_job(context: Any) -> None:
    assert SparkRunner(context).run(bytes.upper, []) == []
    assert context.jobs == []


def test_each_job_has_a_group_of_its_own_that_says_what_it_does(context: Any) -> None:
    for _ in range(2):
        SparkRunner(context).run(bytes.upper, [b"a"])
    (first, says, is_interrupted), (second, _, _) = context.jobs
    assert first != second
    assert (says, is_interrupted) == ("siltstone: upper", True)


def test_a_failure_is_told_with_its_cause(context: Any) -> None:
    def damaged(_: bytes) -> bytes:
        raise ValueError("at 4096")

    with pytest.raises(RunFailed, match=r"the Spark job failed: .*at 4096"):
        SparkRunner(context).run(damaged, [b"a"])
    assert context.cancelled == [], "it has ended by itself"


def test_progress_is_the_number_of_tasks_that_are_done_in_all_stages(context: Any) -> None:
    context.stages_done = [1, 2]
    heard: list[tuple[int, int]] = []

    def on_progress(done: int, in_all: int) -> None:
        heard.append((done, in_all))
        context.gate.set()

    SparkRunner(context).run(lambda given: given if context.gate.wait(20) else b"", [b""] * 4, on_progress)
    assert (heard[0], heard[-1]) == ((3, 4), (4, 4))


@pytest.mark.parametrize("failure", [Py4JError("gone"), ConnectionRefusedError()])
def test_a_jvm_that_does_not_tell_the_progress_ends_nothing(context: Any, failure: Exception) -> None:
    context.calls_fail_with = failure
    heard: list[tuple[int, int]] = []

    def on_progress(done: int, in_all: int) -> None:
        heard.append((done, in_all))
        context.gate.set()

    task = lambda given: given if context.gate.wait(20) else b"late"  # noqa: E731
    assert SparkRunner(context).run(task, [b"a"], on_progress) == [b"a"]
    assert (heard[0], heard[-1]) == ((0, 1), (1, 1))


@pytest.mark.parametrize("failure", [None, Py4JError("gone"), ConnectionRefusedError()])
def test_an_interrupt_cancels_the_job_and_waits_for_its_end(context: Any, failure: Exception | None) -> None:
    def interrupt(_done: int, _in_all: int) -> None:
        context.calls_fail_with = failure
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SparkRunner(context).run(lambda given: given if context.gate.wait(20) else b"", [b"a"], interrupt)
    ((group, _, _),) = context.jobs
    assert context.cancelled == [group]
    assert group not in {thread.name for thread in threading.enumerate()}


def test_a_jvm_that_is_gone_before_the_job_begins_fails_the_run(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(threading.Thread, "start", gone)
    with pytest.raises(RunFailed, match="JVM does not answer: refused"):
        SparkRunner(context).run(bytes.upper, [b"a"])


@pytest.mark.parametrize(
    ("has_stopped", "is_lost"), [(False, False), (True, True), (Py4JError("no answer"), True)]
)
def test_a_runner_is_lost_with_its_context(
    context: Any, has_stopped: bool | Exception, is_lost: bool
) -> None:
    context.has_stopped = has_stopped
    assert SparkRunner(context).is_lost is is_lost


def test_a_runner_is_lost_when_its_context_was_stopped_here_or_the_jvm_has_died(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = SparkRunner(context)
    monkeypatch.setattr(spark_runner, "jvm_has_died", lambda: True)
    assert runner.is_lost
    monkeypatch.setattr(spark_runner, "jvm_has_died", lambda: False)
    context._jsc = None
    assert runner.is_lost


def test_a_spark_that_runs_already_is_used_and_left_running(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_runner, "active_context", lambda: context)
    runner = open_runner("spark://ignored:1")
    assert runner.run(bytes.upper, [b"a"]) == [b"A"]
    runner.close()
    assert context.stops == 0


@pytest.mark.parametrize(("fails_first", "stops"), [(False, 1), (True, 2)])
def test_a_spark_that_was_started_for_the_runner_is_stopped_with_it(
    context: Any, monkeypatch: pytest.MonkeyPatch, fails_first: bool, stops: int
) -> None:
    asked: list[tuple[str, object]] = []

    def started(master: str, settings: object) -> Any:
        asked.append((master, settings))
        return context

    monkeypatch.setattr(spark_runner, "active_context", lambda: None)
    monkeypatch.setattr(spark_runner, "start_context", started)
    context.stop_fails_first = fails_first
    runner = open_runner("local[2]", {"spark.ui.enabled": "true"})
    assert asked == [("local[2]", {"spark.ui.enabled": "true"})]
    assert context.stops == 0
    runner.close()
    assert context.stops == stops


def test_each_input_is_a_job_whose_end_is_known_while_others_run(context: Any) -> None:
    def task(given: bytes) -> bytes:
        if given == b"bad":
            raise ValueError("at 4096")
        return given if given == b"fast" or context.gate.wait(20) else b"late"

    ends = SparkRunner(context).run_each(task, [b"slow", b"fast", b"bad"])
    known = dict([next(ends), next(ends)])
    assert known[1] == b"fast"
    assert isinstance(known[2], RunFailed) and "at 4096" in str(known[2])
    context.gate.set()
    assert list(ends) == [(0, b"slow")]
    assert context.partition_counts == [1, 1, 1] and context.cancelled == []


def test_an_input_is_taken_when_its_job_can_begin(context: Any) -> None:
    context.defaultParallelism = 1
    taken: list[bytes] = []

    def inputs() -> Iterator[bytes]:
        for given in (b"a", b"b", b"c", b"d", b"e"):
            taken.append(given)
            yield given

    for ended, _ in enumerate(SparkRunner(context).run_each(bytes.upper, inputs())):
        assert len(taken) <= ended + 2 * context.defaultParallelism + 1
    assert len(taken) == 5


def test_a_run_that_is_cancelled_while_it_waits_cancels_all_its_jobs(context: Any) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    ends = SparkRunner(context).run_each(
        lambda given: given if context.gate.wait(20) else b"", [b"a", b"b"], interrupt
    )
    with pytest.raises(KeyboardInterrupt):
        next(ends)
    groups = [group for group, _, _ in context.jobs]
    assert len(groups) == 2 and sorted(context.cancelled) == sorted(groups)
    assert not set(groups) & {thread.name for thread in threading.enumerate()}


def test_jobs_that_cannot_begin_fail_one_by_one(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(threading.Thread, "start", gone)
    ends = dict(SparkRunner(context).run_each(bytes.upper, [b"a", b"b"] * 9))
    assert len(ends) == 18 and all("does not answer" in str(each) for each in ends.values())
