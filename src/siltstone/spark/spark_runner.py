"""Runs maintenance tasks on Spark: the Runner that ships.

A user with a Spark of their own gives its context, ``SparkRunner(session.sparkContext)``; everybody else calls
``open_runner``, which starts one and ends it on ``close``. Where next: ``spark_job.py`` (one job), ``session.py`` (how
Spark is started).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from siltstone.maintenance.tasks.runner import RunFailed
from siltstone.maintenance.tasks.task import Task
from siltstone.spark.session import active_context, jvm_has_died, start_context
from siltstone.spark.spark_job import SparkJob

if TYPE_CHECKING:
    from pyspark import SparkContext

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
