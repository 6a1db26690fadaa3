"""What an executor's Python worker does with one task input, an attempt of the task; and the cause of a failed job.

Invariant: a failing attempt reports its cause in one marked line. The driver gets the text of a Java exception that
contains the Python traceback, and ``cause_in_one_line`` finds the marked line in it. ``spark_runner.py`` submits jobs.
"""

import functools
import gc
import re
import sys
from collections.abc import Callable, Iterator

from siltstone.foundation.credentials import without_credentials
from siltstone.model.limits import MIB
from siltstone.offline.tasks.runner import Task, failure_in_one_line
from siltstone.runtime.freed_memory import keep_freed_memory

CAUSE_MARK = "task failed: "

_MARKED = re.compile(f"^.*TaskFailed: {CAUSE_MARK}(.+)$", re.MULTILINE)
_JAVA = re.compile(r"^: (.+)$", re.MULTILINE)  # py4j writes the text of the Java exception after ": "
_JAVA_FRAME = "\n\tat "
_TRACEBACK = "Traceback (most recent call last):"
_SQL_STATE = " SQLSTATE: "  # Spark writes it behind the text of some errors
_MODULES = re.compile(r"^(?:\w+\.)+(?=\w+(?::|$))")

KEPT_BYTES_MAX = 64 * MIB
"""How much free memory a worker keeps: three reads of the largest size and what is written; with 32 MiB a key
compaction took 6,000 new pages, with 48 none."""

_modules_when_frozen = 0


class TaskFailed(Exception):
    """Raised in a worker; carries the cause to the driver. The worker's log has the traceback."""


def attempt_of(task: Task) -> Callable[[Iterator[bytes]], Iterator[bytes]]:
    """Returns the task in the form that ``RDD.mapPartitions`` takes."""

    def attempt(inputs: Iterator[bytes]) -> Iterator[bytes]:
        keep_memory()
        for given in inputs:
            yield _result(task, given)
        freeze_heap()

    return attempt


@functools.cache
def keep_memory() -> None:
    """Has this worker keep the memory that it frees: a task reads many pieces of some MiB, one after the other, and a
    third of its CPU time went into new pages for them. Called before the first task of the worker starts threads."""
    keep_freed_memory(KEPT_BYTES_MAX)


def freeze_heap() -> None:
    """Excludes loaded modules from garbage collection. Spark's worker collects garbage after every task, which takes
    14 to 75 ms when numpy and the like are loaded; what remains in the heap after a task is modules. The heap is frozen
    again only after new modules were loaded: frozen after every task, it would keep each task's garbage for ever."""
    global _modules_when_frozen  # noqa: PLW0603  one heap a process
    if len(sys.modules) != _modules_when_frozen:
        gc.collect()
        gc.freeze()
        _modules_when_frozen = len(sys.modules)


def _result(task: Task, given: bytes) -> bytes:
    try:
        return task(given)
    except Exception as failure:
        raise TaskFailed(without_credentials(f"{CAUSE_MARK}{failure_in_one_line(failure)}")) from failure


def cause_in_one_line(failure: BaseException) -> str:
    """Returns the exception that the task raised; if it was not the task that failed, Spark's reason, such as a dead
    worker."""
    text = str(failure)
    if marked := _MARKED.findall(text):
        return str(marked[-1]).strip()
    if raised := _raised_by_a_worker(text):
        return raised
    if java := _JAVA.search(text):
        return _with_what_follows(java[1].strip(), text[java.end() :])
    return next((line.strip() for line in text.splitlines() if line.strip()), type(failure).__name__)


def _raised_by_a_worker(text: str) -> str | None:
    """Returns the exception of a Python worker that did not come from the task, such as another version of Python than
    the driver's, or a missing package. Spark has its traceback in its own text, before the frames of Java."""
    _, begins, traceback = text.partition(_JAVA_FRAME)[0].rpartition(_TRACEBACK)
    said = [line for line in traceback.splitlines() if line and not line.startswith(("  ", _SQL_STATE))]
    return _MODULES.sub("", " ".join(line.strip() for line in said)) if begins and said else None


def _with_what_follows(line: str, rest: str) -> str:
    """Adds the lines below a line that ends in a colon, which says nothing without them."""
    if not line.endswith(":"):
        return line
    following = rest.partition(_JAVA_FRAME)[0].split()
    return " ".join((line, *following))
