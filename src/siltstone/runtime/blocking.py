"""Blocking calls (disk, bucket, SQLite) that are made outside the event loop's thread.

Asynchronous code reaches blocking code through ``BlockingCalls`` only, so a simulation can run a whole node in one
thread.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Submitted = tuple["Future[Any]", Callable[[], Any]]


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
        self._pool = BlockingThreads(name, threads_max)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class BlockingThreads(Executor):
    """A pool of threads that Python does not wait for at its end, unlike those of ``ThreadPoolExecutor``: a call may
    hang in a disk, a database or a bucket, and a program that has stopped its broker must be able to end."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._threads: list[Thread] = []
        self._queue: SimpleQueue[_Submitted | None] = SimpleQueue()
        self._idle = Semaphore(0)
        self._lock = Lock()
        self._is_shut_down = False

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError(f"the threads {self._name} take no more calls: they were shut down")
            self._queue.put((future, lambda: call(*args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._threads_max:
                self._start_thread()
        return future

    def _start_thread(self) -> None:
        """Without memory for one more thread, the threads that there are make the call. Raises RuntimeError when there
        are none."""
        thread = Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Makes the calls that were submitted, and ends the threads; ``wait``: returns when they have ended."""
        assert not cancel_futures, "what was submitted is done"
        with self._lock:
            self._is_shut_down = True
            self._queue.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (submitted := self._queue.get()) is not None:
            _make(*submitted)
            del submitted  # else the result lives until the next call
            self._idle.release()
        self._queue.put(None)  # for the next thread


def _make(future: "Future[Any]", call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as failure:
        future.set_exception(failure)
        del future, call  # the failure has a reference to this frame: else they would keep each other alive
    else:
        future.set_result(result)


class InlineCalls:
    """Makes each call in the event loop's thread, after other tasks had one turn. For tests and simulation."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)
        return call(*args, **kwargs)

    def close(self) -> None:
        return None
