import asyncio

from siltstone.runtime.turns import let_others_run


def test_others_have_their_turn_in_between():
    async def main():
        order = []

        async def work(name):
            for step in range(3):
                order.append((step, name))
                await let_others_run()

        await asyncio.gather(work("one"), work("other"))
        assert order == [(step, name) for step in range(3) for name in ("one", "other")]

    asyncio.run(main())
