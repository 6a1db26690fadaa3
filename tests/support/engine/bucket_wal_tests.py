"""What the tests of the log in a bucket share."""

import asyncio

from support.engine.wal_lives import BucketLives, WalLife


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def offsets(batches: list) -> list[int]:
    return [one.base_offset for one in batches]


async def recovered(lives: BucketLives, node_epoch: int) -> list[int]:
    """Returns what the next life recovers, under that epoch."""
    life = lives.open()
    found = offsets(await life.begin(node_epoch))
    await life.close()
    return found


async def in_bulks(life: WalLife, *counts: int) -> list[int]:
    """Cuts a bulk after each so many appends, and waits for none of them. → The positions of their ends."""
    ends, offset = [], len(life.sent)
    for number in counts:
        for _ in range(number):
            position = life.append(offset)
            offset += 1
        ends.append(position)
        await life.pass_ms(200, step_ms=20)
    return ends
