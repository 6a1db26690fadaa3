"""What a store says of its level, of what its nodes run, and of the way back."""

import pytest

from siltstone.cli.levels.standing import WayBack, ended_lives, standing_of
from siltstone.metadata.features import TRANSACTION_VERSION, PromiseFeature, put_own_level
from siltstone.metadata.leases.board import ENDED, Beat
from siltstone.metadata.levels import LEVELS, STORE_LEVEL, KnownLevel, RaiseLevel, put_own_program
from siltstone.model.version import VERSION
from support.metadata.metadata_world import MetadataWorld


@pytest.fixture
def world() -> MetadataWorld:
    """Nodes 0 and 1 run this program, and node 2 one that is older than levels."""
    made = MetadataWorld()
    for node_id in (0, 1, 2):
        made.register(node_id)
    for node_id in (0, 1):
        life = made.image.nodes[node_id].life
        made.do(put_own_program(life, 1_000 + node_id))
        made.do(put_own_level(life, STORE_LEVEL, 2))
    return made


def test_op07_the_way_back_is_open_until_the_level_is_raised(world: MetadataWorld) -> None:
    found = standing_of(world.image, (), 0)
    assert [(node.node_id, node.version, node.since_ms, node.level) for node in found.nodes] == [
        (0, VERSION, 1_000, 2), (1, VERSION, 1_001, 2), (2, None, None, 1),
    ]  # fmt: skip
    assert [node.node_id for node in found.too_old] == [2]
    assert (found.level, found.raised_by, found.raised_ms) == (1, None, None)
    assert found.way_back == WayBack(level=1, program="0.1.0", until_level=2, metadata_version=None)
    world.fence(2)
    assert standing_of(world.image, (), 0).too_old == ()
    before = world.image.version
    world.do(RaiseLevel(2, "0.1.7"))
    found = standing_of(world.image, (), 0)
    assert (found.level, found.raised_by, found.raised_ms) == (2, "0.1.7", world.now_ms)
    assert found.way_back == WayBack(level=2, program="0.1.0", until_level=None, metadata_version=before)


def test_op07_a_level_that_this_program_brings_ends_the_way_back(
    world: MetadataWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LEVELS, 3, KnownLevel("0.2.0", "more"))
    found = standing_of(world.image, (), 0)
    assert (found.way_back.until_level, found.newest_level) == (3, 3)
    assert [node.node_id for node in found.too_old] == [0, 1, 2]


def test_features_that_are_promised_stand_there(world: MetadataWorld) -> None:
    assert standing_of(world.image, (), 0).features == {}
    for node_id in (0, 1, 2):
        world.do(put_own_level(world.image.nodes[node_id].life, TRANSACTION_VERSION, 2))
    world.do(PromiseFeature(TRANSACTION_VERSION, 2))
    assert standing_of(world.image, (), 0).features == {TRANSACTION_VERSION: 2}


def test_nodes_that_ended_all_together_do_not_count(world: MetadataWorld) -> None:
    node = world.image.nodes[2]
    beat = Beat(2, node.node_epoch, 1_700_000_000_000, ENDED)
    assert ended_lives(world.image, (), 0) == ()
    assert ended_lives(world.image, (beat,), 0) == (node.life,)
    assert standing_of(world.image, (beat,), 0).too_old == ()
