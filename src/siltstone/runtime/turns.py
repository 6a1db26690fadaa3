"""Long loops on the event loop: after every ITEMS_PER_TURN items other tasks get a turn."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

ITEMS_PER_TURN = 200
"""Items that take 10 to 20 µs each, so that one turn takes a few milliseconds."""


async def let_others_run() -> None:
    """Continues in the next turn of the event loop. No clock advances meanwhile, not even a virtual one."""
    await asyncio.sleep(0)


async def in_turns(make: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Returns the results of ``make`` for the items, in their order."""
    left = iter(items)
    made: list[R] = []
    while lot := list(islice(left, ITEMS_PER_TURN)):
        if made:
            await let_others_run()
        made += map(make, lot)
    return made


async def one_by_one(ask: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """The results of awaiting ``ask`` for the items, in their order. Each call begins when the one before it has
    ended."""
    answers: list[R] = []
    for number, item in enumerate(items, 1):
        answers.append(await ask(item))
        if number % ITEMS_PER_TURN == 0:
            await let_others_run()
    return answers


async def side_by_side(ask: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """The results of awaiting ``ask`` for the items, in their order. ITEMS_PER_TURN calls run concurrently."""
    left = iter(items)
    answers: list[R] = []
    while lot := list(islice(left, ITEMS_PER_TURN)):
        answers += await _all_of(ask, lot)
    return answers


async def _all_of(ask: Callable[[T], Awaitable[R]], lot: Sequence[T]) -> list[R]:
    return list(await asyncio.gather(*map(ask, lot)))
