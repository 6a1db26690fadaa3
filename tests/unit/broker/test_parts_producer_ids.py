import asyncio

from siltstone.broker.parts import BLOCK_SIZE, ProducerIds
from support.broker.topic_world import in_topic_world


def test_ids_are_given_once_whoever_asks_and_however_often_brokers_start():
    async def scenario(world):
        given: list[int] = []
        for _ in range(3):  # three starts; what is left of a block is lost with the broker
            ids = ProducerIds(world.metadata)
            given += [await ids.next() for _ in range(3)]
        assert given == [0, 1, 2, BLOCK_SIZE, BLOCK_SIZE + 1, BLOCK_SIZE + 2, 2 * BLOCK_SIZE,
                         2 * BLOCK_SIZE + 1, 2 * BLOCK_SIZE + 2]  # fmt: skip

    in_topic_world(scenario)


def test_who_gives_up_while_a_block_is_taken_leaves_the_next_one_to_take_it():
    async def scenario(world):
        ids = ProducerIds(world.metadata)
        first, second = (asyncio.ensure_future(ids.next()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second >= 0

    in_topic_world(scenario)
