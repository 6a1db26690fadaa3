"""Runs maintenance tasks on Spark: the Runner that ships.

A user with a Spark of their own gives its context, ``SparkRunner(session.sparkContext)``; everybody else calls
``open_runner``, which starts one and ends it on ``close``. Where next: ``spark_job.py`` (one job), ``session.py`` (how
Spark is started).

One Spark job: a unit a task, no shuffle, in a job group of its own so that it can be watched and cancelled.

No shuffle, because then a lost executor costs only the inputs it was running: there is no stage to attempt again.
The job is submitted from a thread of its own, so that the thread that wants the results can watch, and hear an
interrupt.
"""

import itertools
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from siltstone.maintenance.tasks.runner import RunFailed
from siltstone.maintenance.tasks.task import Task
from siltstone.spark.task_attempt import attempt_of, cause_in_one_line

if TYPE_CHECKING:
    from pyspark import SparkContext
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from siltstone.spark.session import active_context, jvm_has_died, start_context

if TYPE_CHECKING:
    from pyspark import SparkContext


CANCEL_SECONDS_MAX = 10.0  # Spark answers a cancel in 0.3 s; a driver JVM that has died never does

_ticket = itertools.count(1)


class SparkJob:
    """Started by its making; ends by itself or by ``cancel``."""

    def __init__(self, context: "SparkContext", task: Task, inputs: Sequence[bytes]) -> None:
        from pyspark.util import InheritableThread  # noqa: PLC0415  pyspark loads only when a job runs

        self._context = context
        self._task = task
        self._inputs = inputs
        # Notebook servers let several Python processes share one context, hence the process id.
        self._group = f"siltstone-{os.getpid()}-{next(_ticket)}"
        self._tasks_done = 0
        self._results: list[bytes] | None = None
        self._failure: Exception | None = None
        self._thread = InheritableThread(target=self._run, name=self._group, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether the job has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def results(self) -> list[bytes]:
        """Of a job that has ended, in the order of the inputs. Raises RunFailed."""
        if self._failure is not None:
            raise RunFailed(f"the Spark job failed: {cause_in_one_line(self._failure)}") from self._failure
        assert self._results is not None and len(self._results) == len(self._inputs)
        return self._results

    def tasks_done(self) -> int:
        """As far as the JVM tells: one that has died ends the job, with its own cause."""
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
        """Its running tasks are killed too; each may still be at work for some seconds."""
        from py4j.protocol import Py4JError  # noqa: PLC0415

        with suppress(Py4JError, OSError):
            self._context.cancelJobGroup(self._group)
        self._thread.join(CANCEL_SECONDS_MAX)

    def _run(self) -> None:
        try:
            name = getattr(self._task, "__name__", "task")
            self._context.setJobGroup(self._group, f"siltstone: {name}", interruptOnCancel=True)
            partitions = self._context.parallelize(self._inputs, len(self._inputs))
            self._results = partitions.mapPartitions(attempt_of(self._task)).collect()
        except Exception as failure:  # handed to the thread that asks for the results
            self._failure = failure


PROGRESS_INTERVAL_SECONDS = 0.2  # three calls into the JVM, about 2 ms

OnProgress = Callable[[int, int], None]


class SparkRunner:
    def __init__(self, context: "SparkContext", on_close: Callable[[], None] = lambda: None) -> None:
        self._context = context
        self._on_close = on_close

    def run(self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None) -> list[bytes]:
        """As the port says. An exception in the caller's thread (Ctrl-C, or one that ``on_progress`` raises) cancels
        the job and goes on."""
        if not inputs:
            return []
        try:
            job = SparkJob(self._context, task, inputs)
        except OSError as gone:
            raise RunFailed(f"Spark's JVM does not answer: {gone}") from gone
        try:
            while not job.wait(PROGRESS_INTERVAL_SECONDS):
                if on_progress is not None:
                    on_progress(job.tasks_done(), len(inputs))
        except BaseException:
            job.cancel()
            raise
        results = job.results()
        if on_progress is not None:
            on_progress(len(inputs), len(inputs))
        return results

    @property
    def is_lost(self) -> bool:
        """Its JVM has died, or Spark has stopped, as it does when its master gives it up: no task will run any more."""
        if jvm_has_died():
            return True
        try:
            return self._context._jsc is None or bool(self._context._jsc.sc().isStopped())
        except Exception:  # whatever py4j makes of a JVM that does not answer
            return True

    def close(self) -> None:
        self._on_close()


def open_runner(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkRunner:
    """On the Spark that this process runs already (it then outlives the runner), else on one started for it.

    Raises JavaNotFound and SparkNotStarted.
    """
    if (context := active_context()) is not None:
        return SparkRunner(context)
    context = start_context(master, settings=settings)
    return SparkRunner(context, on_close=lambda: _stop(context))


def _stop(context: "SparkContext") -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's, of a JVM that was not there any more
        with suppress(OSError):
            context.stop()
            return
        context.stop()  # it has given up the JVM now, and lets go of the rest
