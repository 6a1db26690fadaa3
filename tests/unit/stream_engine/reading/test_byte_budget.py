import asyncio

import pytest

from siltstone.stream_engine.reading.byte_budget import ByteBudget
from support.engine.committed_world import settle
from support.scenarios import in_loop


def test_room_is_taken_and_given_back():
    budget = ByteBudget(100)
    assert budget.try_acquire(60)
    assert not budget.try_acquire(41)
    assert budget.try_acquire(40)
    budget.release(60)
    assert budget.bytes_used == 40
    assert budget.try_acquire(60)


def test_something_larger_than_the_budget_is_admitted_alone():
    budget = ByteBudget(100)
    assert budget.try_acquire(1000)
    assert not budget.try_acquire(1)
    budget.release(1000)
    assert budget.try_acquire(1)
    assert not budget.try_acquire(1000)


def test_waiting_ones_are_admitted_in_order_and_never_pass_the_limit():
    async def scenario():
        budget = ByteBudget(100)
        admitted: list[int] = []
        peak = 0

        async def one(number: int, size: int) -> None:
            nonlocal peak
            await budget.acquire(size)
            admitted.append(number)
            peak = max(peak, budget.bytes_used)
            await settle(2)
            budget.release(size)

        await asyncio.gather(*(one(number, 30 + number % 50) for number in range(40)))
        assert admitted == list(range(40))
        assert 60 < peak <= 100
        assert budget.bytes_used == 0

    asyncio.run(scenario())


@in_loop
async def test_a_small_one_does_not_overtake_those_who_wait() -> None:
    budget = ByteBudget(100)
    budget.try_acquire(60)
    waiting = asyncio.ensure_future(budget.acquire(60))
    await settle()
    assert not budget.try_acquire(1)
    budget.release(60)
    await waiting
    assert budget.try_acquire(1)


@pytest.mark.parametrize("release_first", [True, False])
@in_loop
async def test_giving_up_the_wait_gives_back_the_room(release_first) -> None:
    budget = ByteBudget(100)
    budget.try_acquire(100)
    given_up = asyncio.ensure_future(budget.acquire(80))
    behind = asyncio.ensure_future(budget.acquire(50))
    await settle()
    if release_first:
        budget.release(100)
        given_up.cancel()
    else:
        given_up.cancel()
        await settle()
        assert budget.bytes_used == 100
        budget.release(100)
    await behind
    assert given_up.cancelled() or given_up.cancelling()
    assert budget.bytes_used == 50


@in_loop
async def test_who_gave_up_at_the_head_of_the_line_holds_up_nobody() -> None:
    budget = ByteBudget(100)
    budget.try_acquire(60)
    given_up = asyncio.ensure_future(budget.acquire(80))
    behind = asyncio.ensure_future(budget.acquire(40))
    await settle()
    assert not behind.done()
    given_up.cancel()
    await asyncio.wait_for(behind, 60)
    assert budget.bytes_used == 100
