"""Measures how long work holds the event loop."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

HELD_MS_MAX = 5.0
"""OB03."""


async def longest_turn_ms(work: Awaitable[T]) -> tuple[T, float]:
    """The result, and the longest CPU time between two turns of another task: what others do on the machine must not
    fail the test."""
    longest, is_done = 0.0, False

    async def others() -> None:
        nonlocal longest
        while not is_done:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    watching = asyncio.ensure_future(others())
    result = await work
    is_done = True
    await watching
    return result, longest * 1_000
