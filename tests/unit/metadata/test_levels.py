"""The level of a store: what a node tells of its program, and what a program does with an unknown level."""

import pytest

from siltstone.metadata.entities import StoreLevel
from siltstone.metadata.features import put_own_level
from siltstone.metadata.levels import (
    LEVELS,
    STORE_LEVEL,
    LevelUnknown,
    NodeProgram,
    RaiseLevel,
    known_level,
    newest_level,
    program_of_node,
    put_own_program,
    refuse_unknown_level,
)
from siltstone.metadata.records import LevelRaised
from siltstone.model.version import VERSION
from support.metadata.metadata_world import MetadataWorld, next_image


def test_op04_a_higher_level_is_refused_by_name_when_its_record_is_applied() -> None:
    raised = LevelRaised(newest_level() + 1, "0.2.0", 1_700_000_000_000)
    with pytest.raises(LevelUnknown) as refusal:
        next_image(MetadataWorld().image, [raised])
    said = str(refusal.value)
    assert (
        f"the store has level {newest_level() + 1}, to which siltstone 0.2.0 raised it on 2023-11-14" in said
    )
    assert f"this program is siltstone {VERSION} and knows levels up to {newest_level()}" in said
    assert "Nothing was written: install siltstone 0.2.0 or newer" in said
    assert (refusal.value.level, refusal.value.newest) == (newest_level() + 1, newest_level())
    refuse_unknown_level(StoreLevel(newest_level()))


def test_op04_a_level_in_the_image_has_its_program_its_time_and_its_entry() -> None:
    world = MetadataWorld()
    assert world.image.level == StoreLevel(1, "", 0, 0)
    world.register(0)
    world.do(put_own_level(world.image.nodes[0].life, STORE_LEVEL, 2))
    before = world.image.version
    world.do(RaiseLevel(2, "0.1.9"))
    assert world.image.level == StoreLevel(2, "0.1.9", world.now_ms, before + 1)


def test_a_node_tells_its_program_in_each_life() -> None:
    world = MetadataWorld()
    world.register(3)
    life = world.image.nodes[3].life
    assert program_of_node(world.image, life) is None
    world.do(put_own_program(life, 17))
    world.do(put_own_level(life, STORE_LEVEL, 2))
    assert program_of_node(world.image, life) == NodeProgram(VERSION, 17, 2)
    world.register(3, "second")
    later = world.image.nodes[3].life
    assert program_of_node(world.image, later) is None, "an older program may run there now"
    assert (known_level(world.image, life), known_level(world.image, later)) == (2, 1)


def test_levels_have_no_gap_and_each_says_what_it_brings() -> None:
    assert list(LEVELS) == list(range(1, len(LEVELS) + 1))
    assert all(level.brings and level.program for level in LEVELS.values())
