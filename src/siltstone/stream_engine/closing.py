"""The end of an engine in time: uploads to a store out of reach go on for an hour, and nobody waits that long."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from siltstone.runtime.clock import Clock


async def ends_while_it_progresses(
    work: Coroutine[Any, Any, None], progress: Callable[[], object], clock: Clock, stalled_ms_max: float
) -> bool:
    """Whether the work has ended by itself. It is cancelled when ``progress`` tells the same for so long. Raises what
    the work raises."""
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


async def _wait(task: "asyncio.Task[None]", clock: Clock, duration_ms: float) -> None:
    rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_after_ms(duration_ms, lambda: None if rung.done() else rung.set_result(None))
    try:
        await asyncio.wait((task, rung), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
