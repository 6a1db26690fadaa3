"""GC20: what leaves the stream set object because of its topic's policy."""

import msgspec

from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan, planned_outputs
from siltstone.maintenance.stream_set_compaction.planner import NO_PARTNER, choose_candidates, plan_compaction
from siltstone.maintenance.stream_set_compaction.retention_class import Classes, RetentionClass
from siltstone.offline.settings import CompactionSettings
from support.maintenance.compaction_sources import (
    NOW_MS,
    SMALL,
    Spec,
    source,
    sources_of,
    stream_objects,
    stream_set_ranges,
    streams_of,
)

K = RetentionClass
FLOOR = msgspec.structs.replace(SMALL, small_object_bytes=10, split_size_bytes=1000)
TWO: list[Spec] = [
    {0: [(0, 5, 40)], 1: [(0, 5, 30)], 2: [(0, 5, 11)], 3: [(0, 5, 10)]},
    {0: [(5, 9, 40)]},
]


def plan_with(
    specs: list[Spec], classes: Classes, settings: CompactionSettings = FLOOR, **more: bool
) -> CompactionPlan:
    sources = sources_of(specs)
    return plan_compaction(sources, streams_of(sources), settings, NOW_MS, classes=classes, **more)


def test_streams_of_compacted_topics_are_always_split_off() -> None:
    plan = plan_with(TWO, {3: K.COMPACTED})
    assert stream_objects(plan) == [(3, 0, 5)]
    assert [held[0] for held in stream_set_ranges(plan)] == [0, 1, 2]
    assert [row.reason for row in planned_outputs(plan)][1:] == ["its topic is compacted"]


def test_gc20_other_classes_than_most_of_the_bytes_leave_above_the_floor() -> None:
    plan = plan_with(TWO, {0: K.DAYS, 1: K.FOR_EVER, 2: K.MINUTES, 3: K.FOR_EVER})
    assert stream_objects(plan) == [(1, 0, 5), (2, 0, 5)]
    assert stream_set_ranges(plan) == [(0, 0, 9), (3, 0, 5)]
    assert {
        row.reason for row in planned_outputs(plan) if row.streams == 1 and row.stream_id is not None
    } == {"most of the stream set object has another retention time"}


def test_gc20_the_majority_is_counted_without_what_is_split_anyway() -> None:
    """Stream 0 is large and leaves by itself: of the rest most is kept for ever."""
    large = msgspec.structs.replace(FLOOR, split_size_bytes=60)
    plan = plan_with(TWO, {0: K.DAYS, 1: K.FOR_EVER, 2: K.DAYS, 3: K.FOR_EVER}, large)
    assert stream_objects(plan) == [(0, 0, 9), (2, 0, 5)]
    assert stream_set_ranges(plan) == [(1, 0, 5), (3, 0, 5)]


def test_streams_of_one_class_stay_together() -> None:
    assert stream_objects(plan_with(TWO, dict.fromkeys(range(4), K.WEEKS))) == []
    assert stream_objects(plan_with(TWO, {})) == []


def test_an_object_with_a_compacted_stream_needs_no_partner() -> None:
    alone: list[Spec] = [{0: [(0, 5, 40)], 1: [(0, 5, 30)]}, {2: [(0, 5, 40)]}]
    plan = plan_with(alone, {1: K.COMPACTED})
    assert plan.compacted_ids == (0,)
    assert [left.reason for left in plan.left_out] == [NO_PARTNER]
    assert (stream_objects(plan), stream_set_ranges(plan)) == ([(1, 0, 5)], [(0, 0, 5)])
    made = [source(at, spec) for at, spec in enumerate(alone)]
    metadata, streams = [one.metadata for one in made], streams_of(made)
    chosen = choose_candidates(metadata, streams, FLOOR, NOW_MS, {1: K.COMPACTED})
    assert [held.object_id for held in chosen.objects] == [0]
    trimmed = streams_of(made, starts={1: 5})
    assert choose_candidates(metadata, trimmed, FLOOR, NOW_MS, {1: K.COMPACTED}).objects == ()


def test_sources_that_were_chosen_need_no_partner() -> None:
    plan = plan_with([{0: [(0, 5, 40)]}, {1: [(0, 5, 30)]}], {}, is_every_source_wanted=True)
    assert plan.compacted_ids == (0, 1)
    assert stream_set_ranges(plan) == [(0, 0, 5), (1, 0, 5)]


def test_more_than_one_commit_may_add_leave_in_several_rounds() -> None:
    """The largest first, compacted ones before others; nothing waits for ever."""
    few = msgspec.structs.replace(FLOOR, stream_objects_max=2)
    classes = {0: K.DAYS, 1: K.FOR_EVER, 2: K.COMPACTED, 3: K.COMPACTED}
    plan = plan_with(TWO, classes, few)
    assert stream_objects(plan) == [(2, 0, 5), (3, 0, 5)]
    one = msgspec.structs.replace(FLOOR, stream_objects_max=1)
    plan = plan_with(TWO, classes, one)
    assert stream_objects(plan) == [(2, 0, 5)]
    assert plan.compacted_ids == (0, 1)
    plan = plan_with(TWO, {0: K.DAYS, 1: K.FOR_EVER, 2: K.MINUTES, 3: K.COMPACTED}, few)
    assert stream_objects(plan) == [(1, 0, 5), (3, 0, 5)]
