"""When the level of a store is raised, and which records wait for it."""

import pytest

from siltstone.metadata.commands import DrainNode
from siltstone.metadata.features import put_own_level
from siltstone.metadata.levels import LEVELS, STORE_LEVEL, KnownLevel, RaiseLevel, put_own_program
from siltstone.metadata.records import NodeDraining
from siltstone.metadata.refusals import NodesTooOld
from support.metadata.metadata_world import MetadataWorld

RAISE = RaiseLevel(2, "0.1.0")


def tells(world: MetadataWorld, node_id: int, level: int = 2) -> None:
    world.do(put_own_level(world.image.nodes[node_id].life, STORE_LEVEL, level))


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld()
    for node_id in (0, 1, 2):
        made.register(node_id)
    return made


def test_op06_the_level_is_raised_when_every_live_node_knows_it_and_once(world: MetadataWorld) -> None:
    tells(world, 0)
    tells(world, 1, level=1)
    world.do(put_own_program(world.image.nodes[1].life, 5))
    with pytest.raises(NodesTooOld) as refusal:
        world.do(RAISE)
    assert refusal.value.node_ids == (1, 2)
    said = str(refusal.value)
    assert (
        "the store stays at level 1: node 1 runs siltstone 0.1.0 and knows level 1; node 2 runs a version before"
        in said
    )
    assert "Install siltstone 0.1.0 or newer there" in said
    assert world.outcome(RAISE) == ("NODES_TOO_OLD", 0)
    tells(world, 1)
    tells(world, 2)
    assert world.outcome(RAISE) == ("OK", 1)
    assert world.outcome(RAISE) == ("OK", 0), "repeated"
    assert world.image.level.number == 2


def test_op06_a_node_that_is_fenced_or_has_ended_does_not_hold_it_up(world: MetadataWorld) -> None:
    tells(world, 0)
    world.fence(1)
    assert world.outcome(RAISE) == ("NODES_TOO_OLD", 0)
    ended = world.image.nodes[2].life
    world.register(2, "started again")
    assert world.outcome(RaiseLevel(2, "0.1.0", (ended,))) == ("NODES_TOO_OLD", 0), (
        "that life is not the one that runs"
    )
    assert world.outcome(RaiseLevel(2, "0.1.0", (world.image.nodes[2].life,))) == ("OK", 1)


def test_op06_an_earlier_life_says_nothing_of_the_program_that_runs_now(world: MetadataWorld) -> None:
    for node_id in (0, 1, 2):
        tells(world, node_id)
    world.register(1, "an older program")
    assert world.outcome(RAISE) == ("NODES_TOO_OLD", 0)


def test_op06_a_level_never_falls_and_an_unknown_one_is_refused() -> None:
    world = MetadataWorld()
    assert world.outcome(RaiseLevel(max(LEVELS) + 1)) == ("LEVEL_NOT_KNOWN", 0)
    assert world.outcome(RaiseLevel(0)) == ("LEVEL_NOT_KNOWN", 0)
    assert world.outcome(RaiseLevel(1)) == ("OK", 0)
    world.do(RAISE)
    assert world.outcome(RaiseLevel(1)) == ("LEVEL_NEVER_FALLS", 0)


def test_op04_a_record_waits_for_its_level(world: MetadataWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEVELS, 3, KnownLevel("0.2.0", "draining", frozenset({NodeDraining})))
    assert world.outcome(DrainNode(0)) == ("LEVEL_TOO_LOW", 0)
    for node_id in (0, 1, 2):
        tells(world, node_id, level=3)
    world.do(RaiseLevel(3, "0.2.0"))
    assert world.outcome(DrainNode(0)) == ("OK", 1)
