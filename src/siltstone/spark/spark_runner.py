"""Runs maintenance tasks on Spark: the Runner that ships.

A user with a Spark of their own gives its context, ``SparkRunner(session.sparkContext)``; everybody else calls
``open_runner``, which starts one and ends it on ``close``. Where next: ``spark_job.py`` (one job), ``session.py`` (how
Spark is started).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from siltstone.maintenance.runner import Task
from siltstone.spark.session import active_context, start_context
from siltstone.spark.spark_job import SparkJob

if TYPE_CHECKING:
    from pyspark import SparkContext

PROGRESS_INTERVAL_SECONDS = 0.2  # three calls into the JVM, about 2 ms

OnProgress = Callable[[int, int], None]


class SparkRunner:
    def __init__(self, context: "SparkContext", on_close: Callable[[], None] = lambda: None) -> None:
        self._context = context
        self._on_close = on_close

    def run(self, task: Task, units: Sequence[bytes], on_progress: OnProgress | None = None) -> list[bytes]:
        """As the port says. An exception in the caller's thread (Ctrl-C, or one that ``on_progress`` raises) cancels
        the job and goes on."""
        if not units:
            return []
        job = SparkJob(self._context, task, units)
        try:
            while not job.wait(PROGRESS_INTERVAL_SECONDS):
                if on_progress is not None:
                    on_progress(job.tasks_done(), len(units))
        except BaseException:
            job.cancel()
            raise
        results = job.results()
        if on_progress is not None:
            on_progress(len(units), len(units))
        return results

    def close(self) -> None:
        self._on_close()


def open_runner(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkRunner:
    """On the Spark that this process runs already (it then outlives the runner), else on one started for it.

    Raises JavaNotFound and SparkNotStarted.
    """
    if (context := active_context()) is not None:
        return SparkRunner(context)
    context = start_context(master, settings=settings)
    return SparkRunner(context, on_close=context.stop)
