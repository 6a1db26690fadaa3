"""Rule 8: sizes and positions of a plan are 64-bit, also where every single block is small enough for 32."""

import pytest

from siltstone.model.limits import GIB
from siltstone.offline.settings import PUT_BYTES_MAX, CompactionSettings
from support.maintenance.compaction_sources import Spec, plan_of

# Two sources; stream 0 continues from one into the other, 6 GiB in all, and so does stream 1.
SPECS: list[Spec] = [
    {0: [(at, at + 1, GIB) for at in range(3)], 1: [(at, at + 1, GIB) for at in range(3)]},
    {0: [(at, at + 1, GIB) for at in range(3, 6)], 1: [(at, at + 1, GIB) for at in range(3, 6)]},
]


def settings(split_size_bytes: int) -> CompactionSettings:
    return CompactionSettings(split_size_bytes=split_size_bytes, memory_bytes=PUT_BYTES_MAX)


@pytest.mark.parametrize(("split_size_bytes", "split"), [(5 * GIB, True), (6 * GIB, False)])
def test_rule_8_a_run_of_more_than_4_gib_is_as_large_as_it_is(split_size_bytes: int, split: bool) -> None:
    plan = plan_of(SPECS, settings(split_size_bytes))
    assert plan.has_stream_set_object is not split
    assert plan.live_bytes == 12 * GIB


def test_rule_8_parts_beyond_4_gib_lie_where_the_ones_before_them_end() -> None:
    plan = plan_of(SPECS, settings(6 * GIB))
    end = 0
    for part in (plan.iteration(at).part for at in range(len(plan.bounds))):
        assert part is not None
        assert part.position == end
        end += (part.end_block - part.first_block) * GIB
    sets, stream_objects = plan.new_objects(0)
    assert sets is not None and not stream_objects
    assert end == 12 * GIB < sets.size_bytes
    assert [held.size_bytes for held in sets.ranges] == [6 * GIB, 6 * GIB]
