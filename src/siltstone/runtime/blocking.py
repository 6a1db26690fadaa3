"""Makes blocking calls (disk, bucket, SQLite) outside the event loop's thread.

Asynchronous code reaches blocking code through ``BlockingCalls`` only, so a simulation can run a whole node in one
thread.
"""

import asyncio
import os
import sys
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Lock, Semaphore, Thread
from typing import Any, ParamSpec, Protocol, TypeVar
from weakref import finalize

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
    """Makes each call in a thread of its own pool, at most ``threads_max`` calls at a time.

    Every append makes a call, so this class does not use ``run_in_executor``, which makes two futures for a call, with
    a lock and a condition, and copies the result from one to the other. That would double the time to hand a call over.
    """

    def __init__(self, name: str, threads_max: int) -> None:
        self._threads = BlockingThreads(name, threads_max)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        answer: Future[T] = loop.create_future()
        self._threads.submit(partial(_make, loop, answer, call, args, kwargs))
        try:
            return await answer
        finally:
            del answer  # a failure refers to this frame; without this line they would keep each other alive

    def close(self) -> None:
        self._threads.shut_down()

    def abandon(self) -> None:
        """Ends the threads after the calls under way, without waiting for them."""
        self._threads.abandon()

    async def end_within(self, seconds_max: float) -> bool:
        """Ends the threads after the calls under way, and waits for that at most so long. Other tasks run meanwhile,
        because a call may wait for one of them. Returns whether the threads have ended."""
        self._threads.abandon()
        waiting = ThreadedCalls("ending", 1)
        try:
            async with asyncio.timeout(seconds_max):
                await waiting.run(self._threads.join)
                return True
        except TimeoutError:
            return False
        finally:
            waiting.abandon()


def _make(
    loop: AbstractEventLoop,
    answer: "Future[T]",
    call: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    if answer.cancelled():
        return
    try:
        result = call(*args, **kwargs)
    except BaseException as failure:
        _tell(loop, _fail, answer, failure)
        del answer, call, args, kwargs  # the failure refers to this frame, too
    else:
        _tell(loop, _succeed, answer, result)


def _tell(loop: AbstractEventLoop, settle: "Callable[[Future[T], Any], None]", *outcome: Any) -> None:
    try:
        loop.call_soon_threadsafe(settle, *outcome)
    except RuntimeError:  # the loop was closed during the call: no task waits for the result
        if not loop.is_closed():
            raise


def _succeed(answer: "Future[T]", result: T) -> None:
    if not answer.done():  # the task that waits may have been cancelled
        answer.set_result(result)


def _fail(answer: "Future[T]", failure: BaseException) -> None:
    if not answer.done():
        answer.set_exception(failure)


class BlockingThreads:
    """A pool of threads that Python does not wait for at its end, unlike those of ``ThreadPoolExecutor``: a call may
    hang in a disk, a database or a bucket, and a program that has stopped its broker must be able to end."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._threads: list[Thread] = []
        self._waiting: deque[Callable[[], None] | None] = deque()
        self._waiting_count = _semaphore()
        self._idle_count = 0
        self._lock = Lock()
        self._is_shut_down = False

    def submit(self, work: Callable[[], None]) -> None:
        """Does the work in a thread; the work must not raise. Raises RuntimeError after ``shut_down``."""
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError(f"the threads {self._name} take no more calls: they were shut down")
            if self._idle_count:
                self._idle_count -= 1
            elif len(self._threads) < self._threads_max:
                self._start_thread()
            self._waiting.append(work)
        self._waiting_count.release()

    def _start_thread(self) -> None:
        """Starts a thread. If there is no memory for one more, the other threads make the call. Raises RuntimeError
        when there are none."""
        thread = Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def abandon(self) -> None:
        """Makes the calls that were submitted and ends the threads; returns at once."""
        with self._lock:
            self._is_shut_down = True
        self._end_one()

    def shut_down(self) -> None:
        """Makes the calls that were submitted, ends the threads, and returns when they have ended."""
        self.abandon()
        self.join()

    def join(self) -> None:
        """Returns when all threads have ended."""
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # without this line the result would live until the next call
            with self._lock:
                self._idle_count += 1
        self._end_one()  # the next thread has to end, too

    def _next(self) -> Callable[[], None] | None:
        while True:
            self._waiting_count.acquire()
            try:
                return self._waiting.popleft()
            except IndexError:
                continue  # a process forked from this one shares the eventfd, and counted work of its own here

    def _end_one(self) -> None:
        self._waiting.append(None)
        self._waiting_count.release()


class _EventSemaphore:
    """A semaphore of the kernel (Linux). ``release`` lets go of the interpreter's lock, so that the thread that wakes
    has it at once. With a lock of Python's it would wake, find the interpreter busy, and sleep until its next system
    call: two more switches for each append (decision 41)."""

    def __init__(self) -> None:
        self._file = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_SEMAPHORE)
        finalize(self, os.close, self._file).atexit = False  # threads may still wait when the process ends

    def release(self) -> None:
        os.eventfd_write(self._file, 1)

    def acquire(self) -> None:
        os.eventfd_read(self._file)


def _semaphore() -> _EventSemaphore | Semaphore:
    return _EventSemaphore() if sys.platform == "linux" else Semaphore(0)


class InlineCalls:
    """Makes each call in the event loop's thread, after other tasks had one turn. For tests and simulation."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)
        return call(*args, **kwargs)

    def close(self) -> None:
        return None
