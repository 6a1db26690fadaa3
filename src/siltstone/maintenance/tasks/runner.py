"""The port to what runs the tasks of maintenance (``Runner``), and the runner of this process; Spark's runner is in
``siltstone.spark``.

``LateRunner`` starts a runner when the first unit needs one, because many runs have no task.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import RLock
from typing import Protocol

from siltstone.maintenance.context import OnProgress
from siltstone.maintenance.tasks.task import Task, failure_in_one_line
from siltstone.model.errors import SiltstoneError, Unavailable


class RunFailed(Unavailable):
    """A task failed, and so did all its retries; the text has the cause in one line. Outputs of other tasks may or may
    not exist, so the driver plans again or gives up."""


class Runner(Protocol):
    def run(self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None) -> list[bytes]:
        """Runs the task once for each input, and returns the results in the order of the inputs. ``on_progress`` is
        called with (tasks done, tasks in all). Raises RunFailed when a task failed for good; the other tasks may then
        have run or not."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the processes that would run tasks have died, so that another runner has to be started."""
        ...

    def close(self) -> None: ...


class RunnerNotStarted(Unavailable):
    """No runner could be started. No unit is to blame for it, and none is set aside."""


class LateRunner:
    """Opens a runner at the first call of ``start``, and keeps it. A runner that ``is_lost`` is closed and replaced
    by a new one."""

    def __init__(self, open_runner: Callable[[], Runner]) -> None:
        self._open = open_runner
        self._starting = RLock()
        self._runner: Runner | None = None

    def start(self) -> Runner:
        """Returns the runner, opened now when there is none. Raises RunnerNotStarted."""
        with self._starting:
            if self._runner is not None and self._runner.is_lost:
                self.close()
            if self._runner is None:
                self._runner = self._opened()
            return self._runner

    def _opened(self) -> Runner:
        try:
            return self._open()
        except SiltstoneError as failure:
            raise RunnerNotStarted(str(failure)) from failure

    def close(self) -> None:
        with self._starting:
            runner, self._runner = self._runner, None
            if runner is not None:
                runner.close()


class InProcessRunner:
    """Runs tasks in this process: for tests, small installations and machines without Spark.

    With ``threads_max`` 1 tasks run one after another in the calling thread. At most ``threads_max`` tasks are in
    memory at a time. A task is tried once, because the object stores retry requests by themselves.
    """

    def __init__(self, threads_max: int = 1) -> None:
        if threads_max < 1:
            raise ValueError(f"threads_max is {threads_max}; it must be at least 1")
        self._threads_max = threads_max

    def run(self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None) -> list[bytes]:
        if self._threads_max == 1:
            return self._run_inline(task, inputs, on_progress)
        return self._run_in_threads(task, inputs, on_progress)

    @property
    def is_lost(self) -> bool:
        return False

    def close(self) -> None:
        return None

    def _run_inline(self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None) -> list[bytes]:
        results: list[bytes] = []
        for given in inputs:
            results.append(_attempt(task, given))
            if on_progress is not None:
                on_progress(len(results), len(inputs))
        return results

    def _run_in_threads(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None
    ) -> list[bytes]:
        """After the first failure no further task is started."""
        pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="maintenance")
        try:
            futures = [pool.submit(_attempt_at, task, inputs, at) for at in range(len(inputs))]
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if on_progress is not None:
                    on_progress(done, len(inputs))
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _attempt_at(task: Task, inputs: Sequence[bytes], at: int) -> bytes:
    """Takes the input out of the sequence only now: a large plan encodes its task inputs one by one, to save memory."""
    return _attempt(task, inputs[at])


def _attempt(task: Task, given: bytes) -> bytes:
    try:
        return task(given)
    except Exception as failure:
        raise RunFailed(failure_in_one_line(failure)) from failure
