"""Drivers killed at many a step while they compact streams for which the allowance is too short (K33)."""

import pytest
from msgspec.structs import replace

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.key_compaction.kind import KeyCompaction
from siltstone.model.limits import HOUR_MS
from siltstone.offline.tasks.runner import InProcessRunner
from support.maintenance.keyed_world import KeyedWorld, keyed_world
from support.maintenance.slow_keys import PATIENT, fill_slowly, slow
from support.maintenance.stepping import Killed, Steps, dying_at, stepped
from support.processes.tried import RecordTried

OBJECTS = 16


def compact_until_done(world: KeyedWorld, steps: Steps) -> None:
    """A driver of its own, which continues until all is done."""
    with stepped(world, steps) as context:  # type: ignore[arg-type]
        driver = Driver(context, InProcessRunner, Scope(is_forced=True), Budget())
        kind = KeyCompaction(replace(PATIENT, lease_ms=HOUR_MS), slow(world, "t-0", "t-1", minutes=4))
        for report in driver.run([kind]):
            assert report.is_well, report


def two_streams(world: KeyedWorld) -> list[int]:
    streams = world.topic(partitions=2)
    for stream in streams:
        fill_slowly(world, stream, OBJECTS)
    return streams


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.nightly)])
def test_k33_killed_at_a_step_it_loses_nothing(every: int, record_tried: RecordTried) -> None:
    with keyed_world() as world:
        two_streams(world)
        counted = Steps()
        compact_until_done(world, counted)
    assert counted.names.count("after put") > 4
    steps = range(1, len(counted.names), every)
    record_tried("kills", len(steps))
    for step in steps:
        with keyed_world() as world:
            streams = two_streams(world)
            tables = [world.table(stream) for stream in streams]
            with pytest.raises(Killed):
                compact_until_done(world, dying_at(step))
            assert [world.table(stream) for stream in streams] == tables
            assert check(world.context).is_clean
            world.clock.advance_ms(2 * HOUR_MS)
            compact_until_done(world, Steps())
            assert [world.table(stream) for stream in streams] == tables
            assert [world.stream(stream).cleaned_offset for stream in streams] == [2 * OBJECTS] * 2
            world.assert_sound()
