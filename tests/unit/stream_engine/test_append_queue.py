"""Whether anything waits for room, and until nothing does. Room itself: test_engine_room."""

import asyncio

from msgspec.structs import replace

from support.engine.engine_world import SMALL, HeldPuts, World, settled

ROOM_FOR_FOUR = replace(SMALL, tail_cache_bytes_max=4 * 2 * 1024)
"""Appends of 1 KiB, each charged twice that. A cache block takes more than there is room for: none is sealed for its
size."""


def run(tmp_path, scenario, settings=SMALL) -> None:
    async def main() -> None:
        world = World(tmp_path)
        node = await world.open(settings)
        await scenario(world, node)
        await node.close()

    asyncio.run(main())


async def fill(node):
    """More than there is room for; uploads make none until they are let go."""
    stream = await node.new_stream()
    held = HeldPuts(node)
    answers = [node.engine.append(stream, bytes(3000), 1) for _ in range(25)]
    return held, answers


def test_who_asks_for_room_waits_until_nothing_waits(tmp_path):
    async def scenario(world, node):
        engine = node.engine
        assert not engine.has_waiting_appends and engine.bytes_waiting == 0
        await engine.wait_for_room()
        held, answers = await fill(node)
        assert engine.has_waiting_appends
        assert engine.bytes_waiting == engine.statistics().bytes_waiting > 10 * 3000
        waiters = [asyncio.ensure_future(engine.wait_for_room()) for _ in range(3)]
        await settled()
        assert not any(waiter.done() for waiter in waiters)
        waiters.pop().cancel()
        held.release()
        await world.passing(asyncio.gather(*waiters))
        assert not engine.has_waiting_appends and engine.bytes_waiting == 0
        await asyncio.gather(*answers)

    run(tmp_path, scenario)


def test_who_waits_for_room_of_an_engine_that_fails_is_let_go(tmp_path):
    async def scenario(world, node):
        await fill(node)
        waiter = asyncio.ensure_future(node.engine.wait_for_room())
        await settled()
        node.engine._fail(RuntimeError("a reason"))
        await waiter
        assert not node.engine.has_waiting_appends and node.engine.bytes_waiting == 0
        await node.engine.wait_for_room()

    run(tmp_path, scenario)


def test_waiters_that_give_up_leave_nothing_behind(tmp_path):
    async def scenario(world, node):
        held, answers = await fill(node)
        for _ in range(10):
            waiter = asyncio.ensure_future(node.engine.wait_for_room())
            await settled(2)
            waiter.cancel()
            await settled(2)
        assert node.engine._appends._room_waiters == []
        held.release()
        await world.passing(asyncio.gather(*answers))

    run(tmp_path, scenario)


def test_while_an_upload_is_under_way_appends_that_wait_ask_for_no_other(tmp_path):
    """The upload makes room when it is committed. Another upload would put the few records of the active block into an
    object of its own."""

    async def scenario(world, node):
        def blocks_in_flight() -> int:
            return node.engine.statistics().upload.blocks_in_flight

        stream = await node.new_stream()
        held = HeldPuts(node)
        await node.append(stream, bytes(1024))
        flushed = asyncio.ensure_future(node.engine.flush())
        await settled()
        for _ in range(3):
            await node.append(stream, bytes(1024))
        waiting = [node.engine.append(stream, bytes(1024), 1) for _ in range(2)]
        await settled()
        assert blocks_in_flight() == 1 and node.engine.has_waiting_appends
        held.release()
        assert await world.passing(asyncio.gather(*waiting)) == [4, 5]
        await flushed

    run(tmp_path, scenario, ROOM_FOR_FOUR)
