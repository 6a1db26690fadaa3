"""Partitions of nodes that are gone or drained get other leaders."""

import logging

from siltstone.cluster.placing import Placing, drain_targets, needs_placing, placeable_partitions
from siltstone.metadata.commands import CreateTopic, DrainNode, FenceNode, OpenPartition, RegisterNode
from siltstone.metadata.entities import NO_NODE
from support.metadata.cluster_world import ClusterWorld
from support.scenarios import scenario

ID = f"{7:032x}"


async def in_world(scenario, count=3):
    async with ClusterWorld(count) as world:
        node = world.nodes[0]
        await node.metadata.execute(CreateTopic(0, 1, "t", ID, 4, leaders=(1, 1, 2, 0)))
        placings = [Placing(each.metadata, each.clock, each.life) for each in world.nodes]
        for placing in placings:
            placing.start()
        await scenario(world)
        for placing in placings:
            await placing.close()


def leaders(world):
    return [partition.leader for partition in world.image.topics[ID].partitions]


@scenario(in_world)
async def test_while_every_leader_lives_nothing_is_placed(world) -> None:
    version = world.image.version
    await world.passes(5_000)
    assert (world.image.version, needs_placing(world.image)) == (version, False)


@scenario(in_world)
async def test_closed_partitions_of_a_node_that_ended_are_placed_at_once_and_open_ones_wait(world) -> None:
    await world.nodes[1].metadata.execute(OpenPartition(1, 1, ID, 0))
    await world.nodes[1].membership.close()
    await world.nodes[0].metadata.execute(FenceNode(1, 1))
    assert placeable_partitions(world.image) == [(ID, 1)]
    await world.passes(400)
    assert leaders(world)[0] == 1
    assert leaders(world)[1] in (0, 2)
    before = world.image.version
    await world.passes(3_000)
    assert world.image.version == before, "what cannot be placed costs no record"


@scenario(in_world)
async def test_the_next_node_places_when_the_first_one_does_not(world) -> None:
    world.freeze(0)
    await world.nodes[1].membership.close()
    await world.nodes[2].metadata.execute(FenceNode(1, 1))
    await world.passes(400)
    assert leaders(world)[:2] == [1, 1]
    await world.passes(1_000)
    assert 1 not in leaders(world)


@scenario(in_world)
async def test_n13_the_partitions_of_a_drained_node_get_targets_once(world) -> None:
    await world.nodes[2].metadata.execute(DrainNode(1))
    assert {node_id for *_, node_id in drain_targets(world.image, 0)} == {0, 2}
    await world.passes(400)
    targets = [partition.target for partition in world.image.topics[ID].partitions]
    assert NO_NODE not in targets[:2]
    assert targets[2:] == [NO_NODE, NO_NODE]
    assert drain_targets(world.image, 0) == ()
    version = world.image.version
    await world.passes(2_000)
    assert world.image.version == version


@scenario(in_world)
async def test_without_a_node_that_could_take_them_partitions_stay(world) -> None:
    await world.nodes[0].metadata.execute(DrainNode(1))
    await world.nodes[0].metadata.execute(DrainNode(2))
    await world.nodes[0].metadata.execute(FenceNode(0, 1))
    assert drain_targets(world.image, 1) == ()


@scenario(in_world)
async def test_what_becomes_placeable_next_is_placed_as_soon(world) -> None:
    """Only what cannot be placed is looked for less often."""
    for dead in (1, 2):
        await world.nodes[dead].membership.close()
        await world.nodes[0].metadata.execute(FenceNode(dead, 1))
        await world.passes(300)
        assert dead not in leaders(world)
    assert leaders(world) == [0, 0, 0, 0]


@scenario(in_world)
async def test_an_earlier_life_of_a_node_leaves_placing_to_the_newer_one(world, caplog) -> None:
    caplog.set_level(logging.INFO, "siltstone.cluster.placing")
    await world.nodes[0].metadata.execute(RegisterNode(0, "newer", "wal-of-0"))
    for dead in (1, 2):
        await world.nodes[dead].membership.close()
        await world.nodes[0].metadata.execute(FenceNode(dead, 1))
    await world.passes(2_000)
    assert leaders(world) == [1, 1, 2, 0]
    tried = [each for each in caplog.records if each.name == "siltstone.cluster.placing"]
    assert tried == [], "nothing was tried"
