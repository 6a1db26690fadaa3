"""The runner without a JVM: a context that runs the tasks in this process. tests/spark has a real Spark."""

import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from siltstone.offline.tasks.runner import RunFailed, RunnerLost, WorkersUnfit
from siltstone.spark import spark_runner
from siltstone.spark.spark_runner import (
    CANCEL_SECONDS_MAX,
    JOBS_AT_ONCE_MAX,
    PROGRESS_INTERVAL_SECONDS,
    SparkRunner,
    cancel_all,
    open_runner,
)

CHECK = "siltstone: check of the workers"


class Context:
    """What a runner asks of a SparkContext. A task that waits for ``gate`` continues when the job is cancelled."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.groups: list[str] = []
        self.jobs: list[tuple[str, str, bool]] = []
        self.partition_counts: list[int] = []
        self.properties: list[tuple[str, str]] = []
        self.checks: list[int] = []
        self.check_fails_with: Exception | None = None
        self.answers: list[Any] | None = None
        self.cancelled: list[str] = []
        self.stages_done: list[int] = []
        self.calls_fail_with: Exception | None = None
        self.stops = 0
        self.defaultParallelism = 2
        self.stop_fails_first = False
        self.has_stopped: bool | Exception = False
        self._jsc: Any = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=self._is_stopped))

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:  # noqa: N802, N803
        self.groups.append(group)
        if description != CHECK:
            self.jobs.append((group, description, interruptOnCancel))

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802
        self.properties.append((name, value))

    def parallelize(self, inputs: Sequence[Any], partition_count: int) -> Any:
        assert len(inputs) == partition_count
        return inputs

    def runJob(self, inputs: Sequence[Any], attempt: Callable[[Iterator[Any]], Iterator[Any]]) -> list[Any]:  # noqa: N802
        if isinstance(inputs, range):  # the check of the workers
            self.checks.append(len(inputs))
            if self.check_fails_with is not None:
                raise self.check_fails_with
            if self.answers is not None:
                return self.answers * len(inputs)
        else:
            self.partition_counts.append(len(inputs))
        return [each for given in inputs for each in attempt(iter([given]))]

    def statusTracker(self) -> Any:  # noqa: N802
        if self.calls_fail_with is not None:
            raise self.calls_fail_with
        stages = {
            number: SimpleNamespace(numCompletedTasks=done) for number, done in enumerate(self.stages_done)
        }
        group = self.groups[-1]
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
    return Context()


def runner_on(context: Any) -> SparkRunner:
    return SparkRunner(context, progress_seconds=0.01)


def test_there_is_one_task_for_each_input_and_one_result_in_its_place(context: Any) -> None:
    heard: list[tuple[int, int]] = []
    results = runner_on(context).run(bytes.upper, [b"a", b"b", b"c"], lambda *now: heard.append(now))
    assert results == [b"A", b"B", b"C"]
    assert context.partition_counts == [3]
    assert heard[-1] == (3, 3)


def test_without_inputs_there_is_no_job(context: Any) -> None:
    assert runner_on(context).run(bytes.upper, []) == []
    assert context.jobs == []


def test_each_job_has_a_group_of_its_own_that_says_what_it_does(context: Any) -> None:
    for _ in range(2):
        runner_on(context).run(bytes.upper, [b"a"])
    (first, says, is_interrupted), (second, _, _) = context.jobs
    assert first != second
    assert (says, is_interrupted) == ("siltstone: upper", True)


def test_a_failure_is_told_with_its_cause(context: Any) -> None:
    def damaged(_: bytes) -> bytes:
        raise ValueError("at 4096")

    with pytest.raises(RunFailed, match=r"the Spark job failed: .*at 4096"):
        runner_on(context).run(damaged, [b"a"])
    assert context.cancelled == [], "it has ended by itself"


def test_progress_is_the_number_of_tasks_that_are_done_in_all_stages(context: Any) -> None:
    context.stages_done = [1, 2]
    heard: list[tuple[int, int]] = []

    def on_progress(done: int, in_all: int) -> None:
        heard.append((done, in_all))
        context.gate.set()

    runner_on(context).run(lambda given: given if context.gate.wait(60) else b"", [b""] * 4, on_progress)
    assert (heard[0], heard[-1]) == ((3, 4), (4, 4))


@pytest.mark.parametrize("failure", [Py4JError("gone"), ConnectionRefusedError()])
def test_a_jvm_that_does_not_tell_the_progress_ends_nothing(context: Any, failure: Exception) -> None:
    context.calls_fail_with = failure
    heard: list[tuple[int, int]] = []

    def on_progress(done: int, in_all: int) -> None:
        heard.append((done, in_all))
        context.gate.set()

    task = lambda given: given if context.gate.wait(60) else b"late"  # noqa: E731
    assert runner_on(context).run(task, [b"a"], on_progress) == [b"a"]
    assert (heard[0], heard[-1]) == ((0, 1), (1, 1))


@pytest.mark.parametrize("failure", [None, Py4JError("gone"), ConnectionRefusedError()])
def test_an_interrupt_cancels_the_job_and_waits_for_its_end(context: Any, failure: Exception | None) -> None:
    def interrupt(_done: int, _in_all: int) -> None:
        context.calls_fail_with = failure
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner_on(context).run(lambda given: given if context.gate.wait(60) else b"", [b"a"], interrupt)
    ((group, _, _),) = context.jobs
    assert context.cancelled == [group]
    assert group not in {thread.name for thread in threading.enumerate()}


def test_a_jvm_that_is_gone_before_the_job_begins_fails_the_run(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(threading.Thread, "start", gone)
    with pytest.raises(RunnerLost, match="JVM does not answer: refused"):
        runner_on(context).run(bytes.upper, [b"a"])


@pytest.mark.parametrize(
    ("has_stopped", "is_lost"), [(False, False), (True, True), (Py4JError("no answer"), True)]
)
def test_a_runner_is_lost_with_its_context(
    context: Any, has_stopped: bool | Exception, is_lost: bool
) -> None:
    context.has_stopped = has_stopped
    assert runner_on(context).is_lost is is_lost


def test_a_runner_is_lost_when_its_context_was_stopped_here_or_the_jvm_has_died(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_on(context)
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
        return given if given == b"fast" or context.gate.wait(60) else b"late"

    ends = runner_on(context).run_each(task, [b"slow", b"fast", b"bad"])
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

    for ended, _ in enumerate(runner_on(context).run_each(bytes.upper, inputs())):
        assert len(taken) <= ended + 2 * context.defaultParallelism + 1
    assert len(taken) == 5


def test_a_job_that_lasts_takes_one_of_the_places_of_the_others(context: Any) -> None:
    context.defaultParallelism = 1
    taken: list[bytes] = []

    def inputs() -> Iterator[bytes]:
        for given in (b"slow", b"a", b"b", b"c", b"d"):
            taken.append(given)
            yield given

    def task(given: bytes) -> bytes:
        return given if given != b"slow" or context.gate.wait(60) else b"late"

    ended = 0
    for _ in runner_on(context).run_each(task, inputs()):
        assert len(taken) <= ended + 2, "two at once"
        ended += 1
        if ended == 4:
            context.gate.set()
    assert ended == 5


def test_a_run_that_is_cancelled_while_it_waits_cancels_all_its_jobs(context: Any) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    ends = runner_on(context).run_each(
        lambda given: given if context.gate.wait(60) else b"", [b"a", b"b"], interrupt
    )
    with pytest.raises(KeyboardInterrupt):
        next(ends)
    groups = [group for group, _, _ in context.jobs]
    assert len(groups) == 2 and sorted(context.cancelled) == sorted(groups)
    assert not set(groups) & {thread.name for thread in threading.enumerate()}


def test_jobs_that_cannot_begin_end_the_run_and_no_unit_is_to_blame(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_on(context)
    runner.run(bytes.upper, [b"a"])

    def gone(*_: object) -> None:
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(threading.Thread, "start", gone)
    with pytest.raises(RunnerLost, match="does not answer"):
        list(runner.run_each(bytes.upper, [b"a", b"b"] * 9))


def test_a_job_that_fails_because_spark_has_stopped_is_no_fault_of_its_unit(context: Any) -> None:
    def stopped(_: bytes) -> bytes:
        context.has_stopped = True
        raise ValueError("cut off")

    with pytest.raises(RunnerLost, match=r"died or was stopped: .*cut off; run again"):
        runner_on(context).run(stopped, [b"a"])
    context.has_stopped = False
    with pytest.raises(RunnerLost, match="died or was stopped"):
        list(runner_on(context).run_each(stopped, [b"a"]))


def test_jobs_and_stages_are_named_after_kind_unit_and_job(context: Any) -> None:
    runner = runner_on(context)
    runner.run(bytes.upper, [b"a"], label="sso-compaction object 1 and 2 more, job 7")
    names = ["flights-0", "flights-1"]
    ends = runner.run_each(
        bytes.upper, [b"a", b"b"], label_of=lambda at: f"key-compaction {names[at]}, job 8"
    )
    assert sorted(ends) == [(0, b"A"), (1, b"B")]
    wanted = [
        "siltstone: sso-compaction object 1 and 2 more, job 7",
        "siltstone: key-compaction flights-0, job 8",
        "siltstone: key-compaction flights-1, job 8",
    ]
    assert [description for _, description, _ in context.jobs] == wanted
    assert [value for name, value in context.properties if name == "callSite.short"] == [CHECK, *wanted]


def test_workers_are_asked_once_before_the_first_job(context: Any) -> None:
    context.defaultParallelism = 3
    runner = runner_on(context)
    runner.run(bytes.upper, [b"a"])
    list(runner.run_each(bytes.upper, [b"a"]))
    assert context.checks == [3]


@pytest.mark.parametrize("is_each", [False, True])
def test_workers_that_cannot_run_tasks_end_the_run_before_its_first_job(context: Any, is_each: bool) -> None:
    context.answers = [("host-1", "/usr/bin/python3", "", ("siltstone (ModuleNotFoundError: no)",))]
    runner = runner_on(context)
    with pytest.raises(WorkersUnfit, match="/usr/bin/python3 on host-1 cannot import siltstone: install"):
        list(runner.run_each(bytes.upper, [b"a"])) if is_each else runner.run(bytes.upper, [b"a"])
    assert context.jobs == []
    context.answers = None
    assert runner.run(bytes.upper, [b"a"]) == [b"A"], "they are asked again"


def test_a_check_that_fails_for_another_python_ends_the_run(context: Any) -> None:
    context.check_fails_with = Exception(
        "An error occurred.\n: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "x"\npyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different '
        "version: 3.11 than that in driver: 3.12, PySpark cannot run with different minor versions.\n\tat x"
    )
    with pytest.raises(WorkersUnfit, match=r"have Python 3.11, and the driver 3.12: set PYSPARK_PYTHON"):
        runner_on(context).run(bytes.upper, [b"a"])


def test_a_check_that_fails_for_any_other_reason_is_no_units_fault_either(context: Any) -> None:
    context.check_fails_with = Exception(": java.lang.NullPointerException")
    with pytest.raises(WorkersUnfit, match=r"NullPointerException: check PYSPARK_PYTHON"):
        list(runner_on(context).run_each(bytes.upper, [b"a"]))


def test_a_worker_that_joined_later_without_the_package_ends_the_run(context: Any) -> None:
    def lacking(_: bytes) -> bytes:
        raise ValueError("x.TaskFailed: task failed: ModuleNotFoundError: No module named 'siltstone'")

    with pytest.raises(WorkersUnfit, match="they lack the module siltstone"):
        runner_on(context).run(lacking, [b"a"])
    ends = runner_on(context).run_each(lacking, [b"a", b"b"])
    with pytest.raises(WorkersUnfit, match="they lack the module siltstone"):
        next(ends)


@pytest.mark.parametrize(
    ("parallelism", "jobs"), [(0, 1), (1, 2), (3, 6), (10**6, JOBS_AT_ONCE_MAX), ("of a dead JVM", 2)]
)
def test_twice_as_many_jobs_at_once_as_executors_can_run(context: Any, parallelism: Any, jobs: int) -> None:
    context.defaultParallelism = parallelism
    assert runner_on(context)._jobs_at_once() == jobs


def test_jobs_are_cancelled_together_and_waited_for_as_long_as_for_one() -> None:
    class Job:
        def __init__(self, ends_after: float) -> None:
            self.ends_after, self.waits = ends_after, 0
            self.is_asked = False

        def ask_to_end(self) -> None:
            self.is_asked = True

        def wait(self, seconds: float) -> bool:
            assert all(job.is_asked for job in jobs) and seconds == PROGRESS_INTERVAL_SECONDS
            self.waits += 1
            return self.waits >= self.ends_after

    most = int(CANCEL_SECONDS_MAX / PROGRESS_INTERVAL_SECONDS)
    jobs = [Job(1), Job(3), Job(float("inf")), Job(float("inf")), Job(1)]
    cancel_all(jobs)  # type: ignore[arg-type]
    assert [job.waits for job in jobs[:2]] == [1, 3]
    assert most - 2 <= sum(job.waits for job in jobs) - 5 <= most + 2, "the time is that of all"
    assert jobs[3].waits == jobs[4].waits == 1, "no time is left, and each is looked at once"
