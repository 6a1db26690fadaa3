import asyncio

import pytest

from siltstone.stream_engine.upload.pipeline import UploadTurns
from support.engine.engine_world import settled
from support.scenarios import in_loop


def test_turns_are_taken_in_order_however_they_arrive():
    entered: list[int] = []

    async def take(turns: UploadTurns, ticket: int) -> None:
        async with turns.turn(ticket):
            entered.append(ticket)
            await asyncio.sleep(0)

    async def main() -> None:
        turns = UploadTurns()
        await asyncio.gather(*(take(turns, ticket) for ticket in (3, 1, 0, 2)))

    asyncio.run(main())
    assert entered == [0, 1, 2, 3]


@in_loop
async def test_only_one_is_inside() -> None:
    turns = UploadTurns()
    async with turns.turn(0):
        second = asyncio.ensure_future(turns.turn(1).__aenter__())
        await settled()
        assert not second.done()
    await settled()
    assert second.done()


@in_loop
async def test_who_fails_does_not_pass_the_turn_on() -> None:
    turns = UploadTurns()
    with pytest.raises(RuntimeError):
        async with turns.turn(0):
            raise RuntimeError("refused")
    second = asyncio.ensure_future(turns.turn(1).__aenter__())
    await settled()
    assert not second.done()
    second.cancel()


@in_loop
async def test_a_follower_that_went_away_does_not_hurt_the_one_before() -> None:
    turns = UploadTurns()
    async with turns.turn(0):
        follower = asyncio.ensure_future(turns.turn(1).__aenter__())
        await settled()
        follower.cancel()
        await settled()
