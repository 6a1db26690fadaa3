"""Blocking calls (disk, store, SQLite) made off the event loop.

Everything asynchronous in the store reaches blocking code through ``BlockingCalls`` and nothing else, so a
simulation can run the whole node in one thread.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class BlockingCalls(Protocol):
    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The call's result. Cancelling the wait does not stop the call."""
        ...

    def close(self) -> None:
        """Waits for calls under way."""
        ...


class ThreadedCalls:
    """At most ``threads_max`` calls at a time, each in a thread of its own pool."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class InlineCalls:
    """Runs the call where it stands, giving the event loop one turn first: tests and simulation."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)
        return call(*args, **kwargs)

    def close(self) -> None:
        return None
