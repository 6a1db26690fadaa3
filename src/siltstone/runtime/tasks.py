"""Owned background tasks, and a time limit for work that stops making progress.

Every task that is started in a ``TaskGroup`` has a name, and its failure is logged and reported to the group's owner.
``ends_while_it_progresses`` bounds a shutdown: uploads to an unreachable bucket would otherwise be retried for an hour.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from siltstone.runtime.clock import Clock

OnProgress = Callable[[int, int], None]
"""A long step calls this from time to time with (parts done, parts in all). Parts are tasks, indexes or objects."""

REPORT_AFTER_MS = 2_000
"""By then a request to a bucket has failed at least twice, or hangs."""

REPORT_INTERVAL_MS = 30_000

log = logging.getLogger(__name__)


class TaskGroup:
    """The tasks of one component. The first task that fails calls ``on_failure`` with its exception; later failures are
    only logged. Tasks are cancelled in the order in which they were started: a set has an order by address, which
    differs between two runs of one seed."""

    def __init__(self, owner: str, on_failure: Callable[[BaseException], None]) -> None:
        self._owner = owner
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._failed = False

    def start(self, name: str, body: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(body, name=f"{self._owner}:{name}")
        self._tasks[task] = None
        task.add_done_callback(self._finished)
        return task

    async def cancel(self) -> None:
        """Cancels all running tasks and waits until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def drain(self) -> None:
        """Waits until all tasks have ended by themselves."""
        await asyncio.gather(*list(self._tasks), return_exceptions=True)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (failure := task.exception()) is None:
            return
        log.error("%s failed: %r", task.get_name(), failure)
        if not self._failed:
            self._failed = True
            self._on_failure(failure)


async def ends_while_it_progresses(
    work: Coroutine[Any, Any, None], progress: Callable[[], object], clock: Clock, stalled_ms_max: float
) -> bool:
    """Runs ``work`` and returns True when it has ended by itself. The work is cancelled, and False returned, when the
    value of ``progress()`` has not changed for ``stalled_ms_max``. Raises what the work raises."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            before = progress()
            await _wait(task, clock, stalled_ms_max)
            if not task.done() and progress() == before:
                return False
        task.result()
        return True
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


@asynccontextmanager
async def reported_while_waiting(clock: Clock, report: Callable[[], None]) -> AsyncIterator[None]:
    """Calls ``report`` when the block has taken REPORT_AFTER_MS, and every REPORT_INTERVAL_MS from then on."""

    async def reporting() -> None:
        await clock.sleep_ms(REPORT_AFTER_MS)
        while True:
            report()
            await clock.sleep_ms(REPORT_INTERVAL_MS)

    task = asyncio.ensure_future(reporting())
    try:
        yield
    finally:
        task.cancel()


async def ends_in_time(work: Coroutine[Any, Any, None], clock: Clock, time_limit_ms: float) -> bool:
    """Runs ``work`` and returns True when it has ended by itself; it is cancelled, and False returned, after the time
    limit. Raises what the work raises."""
    return await ends_while_it_progresses(work, lambda: None, clock, time_limit_ms)


async def _wait(task: "asyncio.Task[None]", clock: Clock, duration_ms: float) -> None:
    rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_after_ms(duration_ms, lambda: None if rung.done() else rung.set_result(None))
    try:
        await asyncio.wait((task, rung), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
