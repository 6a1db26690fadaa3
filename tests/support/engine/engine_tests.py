"""What the tests of a running engine share."""

import asyncio

from support.engine.engine_world import SMALL, Node, World


def run(tmp_path, scenario, settings=SMALL) -> None:
    """The scenario with a node that is closed after it."""

    async def main() -> None:
        world = World(tmp_path)
        async with world.node(settings) as node:
            await scenario(world, node)

    asyncio.run(main())


async def forget_tail(node: Node, world: World) -> None:
    """Commit everything and push it out of the tail cache with appends to another stream."""
    await node.engine.flush()
    other = await node.new_stream()
    for _ in range(20):
        await node.append(other, bytes(4000))
    await world.passing(node.engine.flush())
