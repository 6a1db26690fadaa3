"""What the tests of the reader of committed objects share."""

from support.engine.batches import batch
from support.engine.committed_world import (
    CommittedWorld,
)

BATCHES = [batch(1, offset, 1, 100) for offset in range(100)]


EVERYTHING = 1 << 40


def one_stream_object(block_size_bytes: int = 1024) -> CommittedWorld:
    world = CommittedWorld()
    world.commit(0, BATCHES, block_size_bytes)
    return world


def three_stream_set_objects() -> CommittedWorld:
    """Stream 1 in three objects, others beside it."""
    world = CommittedWorld()
    world.commit(5, [*BATCHES[:30], batch(2, 0)])
    world.commit(3, [batch(0, 0), *BATCHES[30:31]])
    world.commit(9, [*BATCHES[31:], batch(7, 0, 5)])
    return world
