"""The features that all nodes of a store promise their clients."""

import pytest

from siltstone.metadata.commands import FenceNode, UnregisterNode
from siltstone.metadata.features import (
    TRANSACTION_VERSION,
    FeatureIsFinal,
    PromiseFeature,
    final_level,
    level_of_node,
    put_own_level,
    refuse_to_start,
)
from support.metadata.metadata_world import MetadataWorld

FINALIZE = PromiseFeature(TRANSACTION_VERSION, 2)


def tells(world: MetadataWorld, node_id: int, level: int = 2) -> None:
    world.do(put_own_level(world.image.nodes[node_id].life, TRANSACTION_VERSION, level))


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld()
    made.register(0)
    made.register(1)
    return made


def test_tx39_a_level_is_final_when_every_node_has_it_and_stays_so(world: MetadataWorld) -> None:
    tells(world, 0)
    tells(world, 1, level=1)
    assert world.do(FINALIZE) == final_level(world.image, TRANSACTION_VERSION) == 0
    tells(world, 1)
    assert world.do(FINALIZE) == final_level(world.image, TRANSACTION_VERSION) == 2
    world.register(2)
    assert world.do(FINALIZE) == world.do(PromiseFeature(TRANSACTION_VERSION, 1)) == 2
    assert world.image.keys["feature/transaction.version"] == b"2"
    assert world.image.keys["node-feature/1/transaction.version"] == b"1:2"


def test_tx39_what_an_earlier_life_had_says_nothing_and_a_fenced_node_counts(world: MetadataWorld) -> None:
    tells(world, 0)
    tells(world, 1)
    world.register(1, "second")
    assert level_of_node(world.image, world.image.nodes[1].life, TRANSACTION_VERSION) == 0
    assert world.do(FINALIZE) == 0, "it may be of an older version now"
    world.do(FenceNode(1, world.image.nodes[1].node_epoch))
    assert world.do(FINALIZE) == 0, "it may wake, or be started again as it was"
    world.do(UnregisterNode(1))
    assert world.do(FINALIZE) == 2


def test_a_feature_that_a_program_has_never_heard_of_keeps_it_from_starting(world: MetadataWorld) -> None:
    for node_id in (0, 1):
        world.do(put_own_level(world.image.nodes[node_id].life, "share.version", 1))
    assert world.do(PromiseFeature("share.version", 1)) == 1
    with pytest.raises(FeatureIsFinal, match=r"promised share.version 1 .* this program has 0: start a"):
        refuse_to_start(world.image, {TRANSACTION_VERSION: 2})


def test_tx39_a_program_without_the_level_does_not_start(world: MetadataWorld) -> None:
    refuse_to_start(world.image, {TRANSACTION_VERSION: 1})
    for node_id in (0, 1):
        tells(world, node_id)
    world.do(FINALIZE)
    refuse_to_start(world.image, {TRANSACTION_VERSION: 2})
    for has in ({TRANSACTION_VERSION: 1}, {}):
        with pytest.raises(
            FeatureIsFinal, match=r"promised transaction.version 2 .* this program has [01]: start a"
        ):
            refuse_to_start(world.image, has)
