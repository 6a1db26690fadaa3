"""Blocking calls (disk, bucket, SQLite) that are made outside the event loop's thread.

Asynchronous code reaches blocking code through ``BlockingCalls`` only, so a simulation can run a whole node in one
thread.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class BlockingCalls(Protocol):
    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Makes the call and returns its result. Cancelling the awaiting task does not stop the call."""
        ...

    def close(self) -> None:
        """Waits until the calls under way have returned."""
        ...


class ThreadedCalls:
    """Makes each call in a thread of its own pool, at most ``threads_max`` calls at a time."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class InlineCalls:
    """Makes each call in the event loop's thread, after other tasks had one turn. For tests and simulation."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)
        return call(*args, **kwargs)

    def close(self) -> None:
        return None
