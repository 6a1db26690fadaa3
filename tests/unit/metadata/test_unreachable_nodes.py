"""Which nodes cannot reach which others, as keys of the metadata."""

import pytest

from siltstone.metadata.commands import FenceNode
from siltstone.metadata.unreachable_nodes import put_unreachable, told_unreachable, unreachable_from
from support.metadata.metadata_world import MetadataWorld


@pytest.fixture
def world() -> MetadataWorld:
    world = MetadataWorld()
    for node_id in (1, 2, 3):
        world.register(node_id)
    return world


def test_what_a_node_writes_is_told_until_it_writes_otherwise(world: MetadataWorld) -> None:
    life = world.image.nodes[1].life
    world.do(put_unreachable(life, [3, 2]))
    assert world.image.keys["unreachable-from/1"] == f"{life.node_epoch}:2,3".encode()
    assert told_unreachable(world.image, life) == unreachable_from(world.image, 1) == (2, 3)
    assert unreachable_from(world.image, 2) == ()
    world.do(put_unreachable(life, []))
    assert told_unreachable(world.image, life) == ()
    assert "unreachable-from/1" not in world.image.keys


def test_neither_an_ended_life_nor_a_node_that_is_gone_counts(world: MetadataWorld) -> None:
    world.do(put_unreachable(world.image.nodes[1].life, [2, 3]))
    world.do(FenceNode(3, world.image.nodes[3].node_epoch))
    assert unreachable_from(world.image, 1) == (2,)
    world.do(FenceNode(1, world.image.nodes[1].node_epoch))
    assert unreachable_from(world.image, 1) == ()
    world.register(1)
    assert unreachable_from(world.image, 1) == ()
