"""Time comes in through the front door: whoever needs it takes a Clock."""

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None:
        """It will not ring. Too late is no fault."""
        ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970: for what is written down."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds since some start, never going back: for durations and deadlines."""
        ...

    async def sleep_ms(self, duration_ms: float) -> None: ...

    def call_after_ms(self, duration_ms: float, callback: Callable[[], None]) -> Timer:
        """Rings on the event loop, without a task: for the thousands of time limits that are rarely reached."""
        ...

    def block_ms(self, duration_ms: float) -> None:
        """Sleep in a thread that may block (store retries, the Spark driver)."""
        ...


class SystemClock:
    """The machine's clock."""

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


class ManualClock:
    """Virtual time for tests: stands still until ``advance_ms``, which wakes the sleepers due, in order."""

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
        """Move on, waking who is due. The woken run when the event loop next turns."""
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
