import asyncio

import pytest

from siltstone.runtime.turns import ITEMS_PER_TURN, in_turns, let_others_run, one_by_one, side_by_side
from support.scenarios import in_loop


@in_loop
async def test_others_have_their_turn_in_between() -> None:
    order = []

    async def work(name):
        for step in range(3):
            order.append((step, name))
            await let_others_run()

    await asyncio.gather(work("one"), work("other"))
    assert order == [(step, name) for step in range(3) for name in ("one", "other")]


async def doubled(number):
    return 2 * number


WAYS = {
    "in turns": lambda items: in_turns(lambda number: 2 * number, items),
    "one by one": lambda items: one_by_one(doubled, items),
    "side by side": lambda items: side_by_side(doubled, items),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [0, 1, ITEMS_PER_TURN, ITEMS_PER_TURN + 1, 5 * ITEMS_PER_TURN])
def test_answers_come_in_the_order_of_the_items_and_others_run_meanwhile(way, count):
    async def main():
        turns = 0

        async def count_turns():
            nonlocal turns
            while True:
                await let_others_run()
                turns += 1

        counting = asyncio.ensure_future(count_turns())
        answers = await WAYS[way](iter(range(count)))
        counting.cancel()
        assert answers == [2 * number for number in range(count)]
        assert turns >= count // ITEMS_PER_TURN - 2

    asyncio.run(main())


@in_loop
async def test_side_by_side_is_so_many_at_a_time() -> None:
    asked = []
    gate = asyncio.Event()

    async def ask(number):
        asked.append(number)
        await gate.wait()

    waiting = asyncio.ensure_future(side_by_side(ask, range(2 * ITEMS_PER_TURN)))
    await let_others_run()
    await let_others_run()
    assert len(asked) == ITEMS_PER_TURN
    gate.set()
    await waiting
    assert asked == [*range(2 * ITEMS_PER_TURN)]


def test_one_by_one_asks_when_the_one_before_has_its_answer():
    async def main():
        under_way = most = 0

        async def ask(_):
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await let_others_run()
            under_way -= 1

        await one_by_one(ask, range(10))
        assert most == 1

    asyncio.run(main())
