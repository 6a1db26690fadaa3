"""Runs maintenance tasks on Spark: ``SparkRunner`` is the Runner that is used in production.

A user with a Spark of their own passes its context, ``SparkRunner(session.sparkContext)``; other callers use
``open_runner``, which starts a Spark and stops it on ``close``. Each run is one Spark job (``SparkJob``): one Spark
task for each task input, in a job group of its own, so that the job can be watched and cancelled. ``run_each`` makes a
job of each input. Before the first job the workers are asked whether they can run tasks (``worker_check``).

A job has no shuffle, so that a lost executor costs only the task inputs that it was running: no earlier stage has to be
run again. The job is submitted from a thread of its own, so that the calling thread can report progress and handle
Ctrl-C. Read next: ``starting.py`` (how Spark is started), ``task_attempt.py`` (what an executor does).
"""

import itertools
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from siltstone.offline.tasks.runner import (
    LabelOf,
    RunFailed,
    RunnerLost,
    RunnerUnusable,
    Task,
    TaskEnd,
    WorkersUnfit,
)
from siltstone.runtime.tasks import OnProgress
from siltstone.spark.starting import active_context, jvm_has_died, start_context
from siltstone.spark.task_attempt import attempt_of, cause_in_one_line
from siltstone.spark.worker_check import (
    needed_modules,
    question_for,
    unanswered_words,
    unfit_words,
    why_unfit,
    workers_asked,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

CANCEL_SECONDS_MAX = 10.0  # Spark answers a cancel in 0.3 s; a driver JVM that has died never does

PROGRESS_INTERVAL_SECONDS = 0.2  # each time makes three calls into the JVM, about 2 ms

JOBS_AT_ONCE_MAX = 64
"""Each job has a thread in the driver. This many are enough for some dozen executors."""

CALL_SITE = "callSite.short"
"""The property of a thread after which Spark names the stages of its jobs."""

_ticket = itertools.count(1)


class SparkRunner:
    def __init__(
        self,
        context: "SparkContext",
        on_close: Callable[[], None] = lambda: None,
        *,
        progress_seconds: float = PROGRESS_INTERVAL_SECONDS,
    ) -> None:
        """``progress_seconds``: how often Spark is asked how far a job is."""
        self._progress_seconds = progress_seconds
        self._context = context
        self._on_close = on_close
        self._are_workers_fit = False

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        """Implements Runner. An exception in the caller's thread (Ctrl-C, or one that ``on_progress`` raises) cancels
        the job and is raised again."""
        if not inputs:
            return []
        say = on_progress or _say_nothing
        self._check_workers(lambda: say(0, len(inputs)))
        job = self._begun(attempt_of(task), inputs, label or _name_of(task))
        results: list[bytes] = self._results(job, lambda: say(job.tasks_done(), len(inputs)))
        say(len(inputs), len(inputs))
        return results

    def run_each(
        self,
        task: Task,
        inputs: Iterable[bytes],
        on_waiting: Callable[[], None] | None = None,
        label_of: LabelOf | None = None,
    ) -> Generator[TaskEnd, None, None]:
        """Implements Runner. Each input is a Spark job of its own, because the result of a job is known only when all
        its tasks have ended. When the generator ends early, jobs that run are cancelled."""
        self._check_workers(on_waiting or _wait_on)
        numbered = enumerate(inputs)
        running: dict[int, SparkJob] = {}
        try:
            while True:
                taken = list(itertools.islice(numbered, self._jobs_at_once() - len(running)))
                if not taken and not running:
                    return
                for at, given in taken:
                    label = label_of(at) if label_of is not None else _name_of(task)
                    running[at] = self._begun(attempt_of(task), [given], label)
                for job in list(running.values())[:1]:
                    job.wait(self._progress_seconds)
                if on_waiting is not None:
                    on_waiting()
                for at in [at for at, job in running.items() if job.wait(0)]:
                    yield at, self._end_of(running.pop(at))
        finally:
            cancel_all(running.values())

    def _check_workers(self, on_waiting: Callable[[], None]) -> None:
        """Asks the workers, before the first job, whether they can run tasks. Raises WorkersUnfit, with one line that
        says what to do."""
        if self._are_workers_fit:
            return
        slots = range(workers_asked(self.slots))
        job = self._begun(question_for(needed_modules()), slots, "check of the workers")
        try:
            answers = self._results(job, on_waiting)
        except RunFailed as failure:  # the check has no input that could have caused the failure
            raise WorkersUnfit(unanswered_words(str(failure))) from failure.__cause__
        if (words := why_unfit(answers)) is not None:
            raise WorkersUnfit(words)
        self._are_workers_fit = True

    def _begun(self, attempt: "Attempt", inputs: Sequence[Any], label: str) -> "SparkJob":
        try:
            return SparkJob(self._context, attempt, inputs, label)
        except OSError as gone:
            raise RunnerLost(
                f"Spark's JVM does not answer: {gone}; run again, which starts another"
            ) from gone

    def _results(self, job: "SparkJob", on_waiting: Callable[[], None]) -> list[Any]:
        """Waits for the job. Raises RunFailed and RunnerUnusable; what ``on_waiting`` raises cancels the job."""
        try:
            while not job.wait(self._progress_seconds):
                on_waiting()
        except BaseException:
            job.cancel()
            raise
        try:
            return job.results()
        except RunFailed as failure:
            raise self._judged(failure) from failure.__cause__

    def _end_of(self, job: "SparkJob") -> bytes | RunFailed:
        try:
            (result,) = job.results()
        except RunFailed as failure:
            if isinstance(judged := self._judged(failure), RunnerUnusable):
                raise judged from failure.__cause__
            return failure
        assert isinstance(result, bytes)
        return result

    def _judged(self, failure: RunFailed) -> RunFailed | RunnerUnusable:
        """Returns the failure, or RunnerUnusable when no task can be run any more."""
        if failure.__cause__ is not None and (words := unfit_words(failure.__cause__)) is not None:
            return WorkersUnfit(words)
        if self.is_lost:
            return RunnerLost(f"Spark has died or was stopped: {failure}; run again, which starts another")
        return failure

    def _jobs_at_once(self) -> int:
        """Returns how many jobs run at once: twice as many as the executors can run tasks, so that no executor is idle
        and a cluster that grows with its work does grow; and no more, because a task that waits uses up the time that
        its input allows."""
        return max(1, min(JOBS_AT_ONCE_MAX, 2 * self.slots))

    @property
    def slots(self) -> int:
        with suppress(
            Exception
        ):  # py4j raises various exceptions when the JVM does not answer; then the job fails
            return int(self._context.defaultParallelism)
        return 1

    @property
    def is_lost(self) -> bool:
        """Whether no task can run any more: the JVM has died, or the context has stopped, as it does when its master
        removes the application."""
        if jvm_has_died():
            return True
        try:
            return self._context._jsc is None or bool(self._context._jsc.sc().isStopped())
        except Exception:  # py4j raises various exceptions when the JVM does not answer
            return True

    def close(self) -> None:
        self._on_close()


def open_runner(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkRunner:
    """Opens a runner on the Spark that runs in this process, which ``close`` leaves running, or else on a Spark that is
    started for the runner.

    Raises JavaNotFound and SparkNotStarted.
    """
    if (context := active_context()) is not None:
        return SparkRunner(context)
    context = start_context(master, settings=settings)
    return SparkRunner(context, on_close=lambda: _stop(context))


def _stop(context: "SparkContext") -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark warns when the JVM has died already
        with suppress(OSError):
            context.stop()
            return
        context.stop()  # the first call has dropped the JVM and raised; this call releases the rest


def _say_nothing(_done: int, _in_all: int) -> None:
    return None


def _wait_on() -> None:
    return None


def _name_of(task: Task) -> str:
    return getattr(task, "__name__", "task")


def cancel_all(jobs: Iterable["SparkJob"]) -> None:
    """Cancels the jobs, and waits for all of them together no longer than for one."""
    cancelled = list(jobs)
    for job in cancelled:
        job.ask_to_end()
    seconds_left = CANCEL_SECONDS_MAX
    for job in cancelled:
        while not job.wait(PROGRESS_INTERVAL_SECONDS) and seconds_left > 0:
            seconds_left -= PROGRESS_INTERVAL_SECONDS


Attempt = Callable[[Iterator[Any]], Iterator[Any]]
"""A worker calls it with the inputs of one Spark task."""


class SparkJob:
    """One Spark job; each input is a Spark task. The constructor starts it; it ends by itself or by
    ``cancel``. Spark's pages show ``label`` as the description of the job, and as the name of its stage."""

    def __init__(self, context: "SparkContext", attempt: Attempt, inputs: Sequence[Any], label: str) -> None:
        from pyspark.util import InheritableThread  # noqa: PLC0415  pyspark loads only when a job runs

        self._context = context
        self._attempt = attempt
        self._inputs = inputs
        self._label = f"siltstone: {label}"
        # Notebook servers let several Python processes share one context, hence the process id.
        self._group = f"siltstone-{os.getpid()}-{next(_ticket)}"
        self._tasks_done = 0
        self._results: list[Any] | None = None
        self._failure: Exception | None = None
        self._thread = InheritableThread(target=self._run, name=self._group, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Waits for at most this time. Returns whether the job has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def results(self) -> list[Any]:
        """Returns the results of a job that has ended, in the order of the inputs. Raises RunFailed."""
        if self._failure is not None:
            raise RunFailed(f"the Spark job failed: {cause_in_one_line(self._failure)}") from self._failure
        assert self._results is not None and len(self._results) == len(self._inputs)
        return self._results

    def tasks_done(self) -> int:
        """Returns the number of tasks done, as far as the JVM reports it. An error of the JVM is ignored: when the JVM
        has died the job fails, and ``results`` raises the cause."""
        from py4j.protocol import Py4JError  # noqa: PLC0415

        with suppress(Py4JError, OSError):
            self._tasks_done = self._count_tasks()
        return self._tasks_done

    def _count_tasks(self) -> int:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return sum(stage.numCompletedTasks for stage in stages if stage)

    def cancel(self) -> None:
        """Cancels the job and kills its running tasks, which may continue for some seconds."""
        self.ask_to_end()
        self._thread.join(CANCEL_SECONDS_MAX)

    def ask_to_end(self) -> None:
        """Cancels the job, and does not wait for its end."""
        from py4j.protocol import Py4JError  # noqa: PLC0415

        with suppress(Py4JError, OSError):
            self._context.cancelJobGroup(self._group)

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, self._label, interruptOnCancel=True)
            self._context.setLocalProperty(CALL_SITE, self._label)
            # Why an RDD and not a DataFrame: a task input is bytes that no optimiser should touch, and workers need
            # neither pandas nor pyarrow for it.
            partitions = self._context.parallelize(self._inputs, len(self._inputs))
            # Not ``collect``, which would name the stage after a line of pyspark.
            self._results = self._context.runJob(partitions, self._attempt)
        except Exception as failure:  # ``results`` raises it in the calling thread
            self._failure = failure
