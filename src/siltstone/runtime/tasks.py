"""Owned background tasks: each has a name and an owner that hears of its failure."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)


class TaskGroup:
    """The tasks of one component. The first that fails calls ``on_failure`` once, with its exception."""

    def __init__(self, owner: str, on_failure: Callable[[BaseException], None]) -> None:
        self._owner = owner
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = False

    def start(self, name: str, body: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(body, name=f"{self._owner}:{name}")
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def cancel(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def drain(self) -> None:
        """Wait until all have ended by themselves."""
        await asyncio.gather(*list(self._tasks), return_exceptions=True)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (failure := task.exception()) is None:
            return
        log.error("%s failed: %r", task.get_name(), failure)
        if not self._failed:
            self._failed = True
            self._on_failure(failure)
