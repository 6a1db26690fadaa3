"""Runs maintenance tasks in this process: tests, tiny installs, machines without Spark."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from siltstone.maintenance.runner import RunFailed, Task, failure_in_one_line

OnProgress = Callable[[int, int], None]


class InProcessRunner:
    """``threads_max`` 1 runs the units one after another in the calling thread. Memory is that of so many iterations.

    A unit is tried once: the stores retry what is worth it.
    """

    def __init__(self, threads_max: int = 1) -> None:
        if threads_max < 1:
            raise ValueError(f"threads_max is {threads_max}; it must be at least 1")
        self._threads_max = threads_max

    def run(self, task: Task, units: Sequence[bytes], on_progress: OnProgress | None = None) -> list[bytes]:
        if self._threads_max == 1:
            return self._run_inline(task, units, on_progress)
        return self._run_in_threads(task, units, on_progress)

    def close(self) -> None:
        return None

    def _run_inline(self, task: Task, units: Sequence[bytes], on_progress: OnProgress | None) -> list[bytes]:
        results: list[bytes] = []
        for unit in units:
            results.append(_attempt(task, unit))
            if on_progress is not None:
                on_progress(len(results), len(units))
        return results

    def _run_in_threads(
        self, task: Task, units: Sequence[bytes], on_progress: OnProgress | None
    ) -> list[bytes]:
        """The first failure keeps units that have not begun from beginning."""
        pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="maintenance")
        try:
            futures = [pool.submit(_attempt_at, task, units, at) for at in range(len(units))]
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if on_progress is not None:
                    on_progress(done, len(units))
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _attempt_at(task: Task, units: Sequence[bytes], at: int) -> bytes:
    """The unit is made when its turn comes: all units of a large plan at once would fill the memory."""
    return _attempt(task, units[at])


def _attempt(task: Task, unit: bytes) -> bytes:
    try:
        return task(unit)
    except Exception as failure:
        raise RunFailed(failure_in_one_line(failure)) from failure
