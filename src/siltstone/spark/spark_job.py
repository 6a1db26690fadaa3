"""One Spark job: a unit a task, no shuffle, in a job group of its own so that it can be watched and cancelled.

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
from siltstone.spark.causes import cause_in_one_line
from siltstone.spark.unit_attempt import attempt_of

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
