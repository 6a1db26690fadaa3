import pytest

from siltstone.maintenance.key_compaction.planning.allowances import (
    LONGEST,
    Allowance,
    Allowances,
    part_of,
)
from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from support.maintenance.keyed_metadata import KeyedMetadata

T = 1_000


@pytest.fixture
def plan() -> StreamPlan:
    """Offsets 0 to 400 in four objects."""
    world = KeyedMetadata()
    world.filled(world.topic(), 100, 200, 300, 400)
    return world.the_plan()


def test_a_stream_of_which_nothing_is_known_has_the_whole_plan(plan: StreamPlan) -> None:
    assert Allowances(T).of(1) == Allowance(T)
    assert Allowance(T).pass_ms_max == 750
    assert part_of(plan, 0, None) == plan
    assert part_of(plan, 0, 400) == plan


def test_a_part_reads_no_object_beyond_it(plan: StreamPlan) -> None:
    part = part_of(plan, 0, 150)
    assert (part.dirty_offset, part.bound, len(part.sources)) == (0, 150, 2)
    assert "ran late after offset 150" in part.limit
    assert part_of(plan, 120, 150).bound == 270, "a trim counts as if it had been compacted"
    assert part_of(plan, 500, 150).dirty_offset == 400


def test_the_next_pass_is_given_what_was_mapped_in_time(plan: StreamPlan) -> None:
    known = Allowances(T)
    assert known.ran_late(1, plan, 130)
    assert known.of(1) == Allowance(T, 130)
    assert known.of(2) == Allowance(T), "other streams are not concerned"


@pytest.mark.parametrize("mapped", [0, 49, 400])
def test_when_too_little_or_all_was_mapped_it_is_given_more_time(plan: StreamPlan, mapped: int) -> None:
    known = Allowances(T)
    assert known.ran_late(1, plan, mapped)
    assert known.of(1) == Allowance(2 * T, 200)


def test_the_time_is_bounded(plan: StreamPlan) -> None:
    known = Allowances(T)
    tries = [known.ran_late(1, plan, 0) for _ in range(6)]
    assert tries == [True] * 4 + [False] * 2
    assert known.of(1).allowance_ms == LONGEST * T
    assert not Allowances(0).ran_late(1, plan, 0), "no time does not become more by doubling"


def test_a_pass_in_time_that_was_fast_is_followed_by_a_larger_one(plan: StreamPlan) -> None:
    known = Allowances(T)
    known.ran_late(1, plan, 100)
    part = part_of(plan, 0, 100)
    known.was_in_time(1, part, plan, T / 4)
    assert known.of(1) == Allowance(T, 100)
    known.was_in_time(1, part, plan, T / 4 - 1)
    assert known.of(1) == Allowance(T, 200)


def test_a_whole_pass_that_was_fast_is_the_end_of_it(plan: StreamPlan) -> None:
    known = Allowances(T)
    known.ran_late(1, plan, 0)
    known.was_in_time(1, plan, plan, T / 2)
    assert known.of(1).allowance_ms == 2 * T, "it took half the time: with less it would be late again"
    known.was_in_time(1, plan, plan, T / 2 - 1)
    assert known.of(1) == Allowance(T)


def test_rule_9_a_bounded_number_of_streams_is_remembered(plan: StreamPlan) -> None:
    known = Allowances(T, streams_max=2)
    for stream in (1, 2, 1, 3):
        known.ran_late(stream, plan, 200)
    assert [known.of(stream).offsets_max for stream in (1, 2, 3)] == [200, None, 200]
