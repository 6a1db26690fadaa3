"""What an executor's Python worker does with one unit: one attempt of the task.

Invariant: a failing attempt tells its cause in one marked line, because what reaches the driver is the text of a Java
exception with a whole traceback in it (``causes.py`` finds the line again). Where it is sent from: ``spark_job.py``.

The cause of a failed Spark job, in one line, from the pages of Java and Python traceback that Spark gives.
"""

import gc
import re
import sys
from collections.abc import Callable, Iterator

from siltstone.maintenance.tasks.task import Task, failure_in_one_line

CAUSE_MARK = "task failed: "

_modules_when_frozen = 0


class TaskFailed(Exception):
    """Carries the cause to the driver; the worker's log has its traceback."""


def attempt_of(task: Task) -> Callable[[Iterator[bytes]], Iterator[bytes]]:
    """The task in the form that ``RDD.mapPartitions`` takes."""

    def attempt(inputs: Iterator[bytes]) -> Iterator[bytes]:
        for given in inputs:
            yield _result(task, given)
        freeze_heap()

    return attempt


def freeze_heap() -> None:
    """Spark's worker collects garbage after every task, 14 to 75 ms once numpy and the like are loaded. What stands
    in the heap at the end of a task is modules, so it is taken out of the collector's sight: again only when new
    modules came, since freezing at every task would keep each task's own garbage for ever."""
    global _modules_when_frozen  # noqa: PLW0603  one heap a process
    if len(sys.modules) != _modules_when_frozen:
        gc.collect()
        gc.freeze()
        _modules_when_frozen = len(sys.modules)


def _result(task: Task, given: bytes) -> bytes:
    try:
        return task(given)
    except Exception as failure:
        raise TaskFailed(f"{CAUSE_MARK}{failure_in_one_line(failure)}") from failure


_MARKED = re.compile(f"^.*TaskFailed: {CAUSE_MARK}(.+)$", re.MULTILINE)
_JAVA = re.compile(r"^: (.+)$", re.MULTILINE)  # py4j puts the exception's own text behind ": "


def cause_in_one_line(failure: BaseException) -> str:
    """What the task raised when it was the task; else what Spark says, such as a worker that died."""
    text = str(failure)
    if marked := _MARKED.findall(text):
        return str(marked[-1]).strip()
    if java := _JAVA.search(text):
        return java[1].strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), type(failure).__name__)
