"""Turns of the event loop: whoever has much to do lets others have theirs in between."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

ITEMS_PER_TURN = 200
"""Of things that take ten or twenty microseconds each: a few milliseconds."""


async def let_others_run() -> None:
    """Goes on in the next turn of the event loop. No time passes by any clock."""
    await asyncio.sleep(0)


async def in_turns(make: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What ``make`` gives for each item, in their order; others run after every so many."""
    left = iter(items)
    made: list[R] = []
    while lot := list(islice(left, ITEMS_PER_TURN)):
        if made:
            await let_others_run()
        made += map(make, lot)
    return made


async def one_by_one(ask: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """The same where ``ask`` may wait for something: each is asked when the one before it has its answer."""
    answers: list[R] = []
    for number, item in enumerate(items, 1):
        answers.append(await ask(item))
        if number % ITEMS_PER_TURN == 0:
            await let_others_run()
    return answers


async def side_by_side(ask: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """What ``ask`` gives for each item, in their order: so many are asked at a time, and others run in between."""
    left = iter(items)
    answers: list[R] = []
    while lot := list(islice(left, ITEMS_PER_TURN)):
        answers += await _all_of(ask, lot)
    return answers


async def _all_of(ask: Callable[[T], Awaitable[R]], lot: Sequence[T]) -> list[R]:
    return list(await asyncio.gather(*map(ask, lot)))
