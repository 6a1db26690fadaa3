"""Clocks: the machine's, and one of virtual time for tests.

Code that needs the time takes a ``Clock`` as an argument; the linter refuses ``time`` and ``asyncio.sleep`` elsewhere.
"""

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None:
        """Prevents the callback. Does nothing when the callback was called already."""
        ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970, for times that are stored or shown."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary start, never decreasing, for durations and deadlines."""
        ...

    async def sleep_ms(self, duration_ms: float) -> None: ...

    def call_after_ms(self, duration_ms: float, callback: Callable[[], None]) -> Timer:
        """Calls ``callback`` on the event loop. No task is made: there are thousands of time limits and few are
        reached."""
        ...

    def block_ms(self, duration_ms: float) -> None:
        """Blocks the calling thread, which must not be the event loop's (retries of bucket requests, the Spark
        driver)."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(duration_ms / 1000)

    def call_after_ms(self, duration_ms: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(duration_ms / 1000, callback)

    def block_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)


def boottime_ms() -> float:
    """Milliseconds since the machine was started, those included in which it was suspended. A node's own lease runs by
    it: the others' clocks continued while this machine slept."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


class ManualClock:
    """Virtual time for tests. The time changes only in ``advance_ms``, which wakes the sleepers that are due, in order,
    and in ``block_ms``."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms: float = now_ms
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._ticket = count()

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic_ms(self) -> float:
        return self._now_ms

    async def sleep_ms(self, duration_ms: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self._now_ms + duration_ms, next(self._ticket), wake))
        await wake

    def call_after_ms(self, duration_ms: float, callback: Callable[[], None]) -> Timer:
        ringing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ringing.add_done_callback(lambda _: None if ringing.cancelled() else callback())
        heappush(self._sleepers, (self._now_ms + duration_ms, next(self._ticket), ringing))
        return _CancelFuture(ringing)

    def block_ms(self, duration_ms: float) -> None:
        self._now_ms += duration_ms

    def advance_ms(self, duration_ms: float) -> None:
        """Advances the time and wakes the sleepers that are due. They run in the next turn of the event loop."""
        until = self._now_ms + duration_ms
        while self._sleepers and self._sleepers[0][0] <= until:
            self._now_ms, _, wake = heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)
        self._now_ms = until


class _CancelFuture:
    def __init__(self, future: "asyncio.Future[None]") -> None:
        self._future = future

    def cancel(self) -> None:
        self._future.cancel()
