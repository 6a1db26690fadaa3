import asyncio

from siltstone.broker.parts import BLOCK_SIZE, ProducerIds
from support.broker.topic_world import in_topic_world
from support.scenarios import scenario


@scenario(in_topic_world)
async def test_ids_are_given_once_whoever_asks_and_however_often_brokers_start(world) -> None:
    given: list[int] = []
    for _ in range(3):  # three starts; what is left of a block is lost with the broker
        ids = ProducerIds(world.metadata)
        given += [await ids.next() for _ in range(3)]
    assert given == [0, 1, 2, BLOCK_SIZE, BLOCK_SIZE + 1, BLOCK_SIZE + 2, 2 * BLOCK_SIZE,
                     2 * BLOCK_SIZE + 1, 2 * BLOCK_SIZE + 2]  # fmt: skip


@scenario(in_topic_world)
async def test_who_gives_up_while_a_block_is_taken_leaves_the_next_one_to_take_it(world) -> None:
    ids = ProducerIds(world.metadata)
    first, second = (asyncio.ensure_future(ids.next()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second >= 0


@scenario(in_topic_world)
async def test_tx58_ids_of_a_remainder_are_given_once_at_all_nodes(world) -> None:
    nodes = [ProducerIds(world.metadata) for _ in range(3)]
    given = [(await ids.next_of(index % 8, 8), index % 8) for ids in nodes for index in range(330)]
    given += [(await ids.next(), None) for ids in nodes]
    assert len({producer_id for producer_id, _ in given}) == len(given)
    assert all(remainder in (producer_id % 8, None) for producer_id, remainder in given)
