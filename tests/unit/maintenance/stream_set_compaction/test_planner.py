"""The planning rows of T01 to T07 (docs/scenarios.md) on indexes alone, with the tables' own block sizes."""

import msgspec
import numpy as np
import pytest

from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.planner import (
    BEYOND_STREAM_OBJECTS,
    NO_PARTNER,
    Sharing,
    plan_compaction,
)
from siltstone.model.objects import ObjectRange
from siltstone.offline.blocks.columns import (
    ENTRY,
    MemoryLimitTooSmall,
    OverlappingSources,
    Read,
    Source,
)
from siltstone.offline.settings import CompactionSettings
from support.maintenance.compaction_sources import (
    ARTICLE,
    F1,
    NOW_MS,
    SMALL,
    G,
    Spec,
    iterations,
    plan_of,
    source,
    sources_of,
    stream_objects,
    stream_set_ranges,
    streams_of,
)

AGED = msgspec.structs.replace(SMALL, force_split_age_ms=0)


def settings(**changes: int) -> CompactionSettings:
    return msgspec.structs.replace(SMALL, **changes)


# -- T01 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split_size", [60, 75, 89])
def test_t01_worked_example(split_size: int) -> None:
    plan = plan_of(ARTICLE, settings(split_size_bytes=split_size, memory_bytes=150))
    assert iterations(plan) == [
        ([(1, 30, 120), (2, 400, 435)], [(0, 0, 25)]),
        ([(2, 435, 500)], [(3, 210, 270)]),
    ]
    assert stream_objects(plan) == [(1, 30, 120), (2, 400, 435), (2, 435, 500)]
    assert stream_set_ranges(plan) == [(0, 0, 25), (3, 210, 270)]
    assert plan.compacted_ids == (0, 1, 2)


def test_t01_reads() -> None:
    """SSO-0 holds S0 0-20, S1 30-60, S3 210-230 at 0, 20, 50; SSO-1 two blocks; SSO-2 S2 35 + 65, S3 40."""
    plan = plan_of(ARTICLE, settings(split_size_bytes=60, memory_bytes=150))
    first, second = plan.iteration(0), plan.iteration(1)
    assert first.reads == (Read(0, 0, 50), Read(1, 0, 65), Read(2, 0, 35))
    assert [each.object_id for each in first.sources] == [0, 1, 2]
    assert second.reads == (Read(0, 50, 70), Read(1, 35, 140))
    assert [each.object_id for each in second.sources] == [0, 2]
    assert first.bytes_read == 150
    assert second.bytes_read == 125


def test_t01_parts_of_the_stream_set_object() -> None:
    plan = plan_of(ARTICLE, settings(split_size_bytes=60, memory_bytes=150))
    first, last = plan.iteration(0).part, plan.iteration(1).part
    assert first is not None and last is not None
    assert (first.part_number, first.position, first.trailer) == (1, 0, b"")
    assert (last.part_number, last.position) == (2, 25)
    assert len(last.trailer) == 2 * 72 + 64  # two joined entries and the footer
    sets, _ = plan.new_objects(7)
    assert sets is not None
    assert (sets.object_id, sets.size_bytes) == (7, 25 + 60 + len(last.trailer))


def test_t01_limit_149() -> None:
    plan = plan_of(ARTICLE, settings(split_size_bytes=60, memory_bytes=149))
    assert iterations(plan) == [
        ([(1, 30, 120)], [(0, 0, 25)]),
        ([(2, 400, 500)], [(3, 210, 230)]),
        ([], [(3, 230, 270)]),
    ]


def test_t01_limit_1000() -> None:
    plan = plan_of(ARTICLE, settings(split_size_bytes=60, memory_bytes=1000))
    assert iterations(plan) == [([(1, 30, 120), (2, 400, 500)], [(0, 0, 25), (3, 210, 270)])]


def test_t01_split_size_90_is_not_passed_by_90() -> None:
    plan = plan_of(ARTICLE, settings(split_size_bytes=90, memory_bytes=1000))
    assert stream_objects(plan) == [(2, 400, 500)]
    assert stream_set_ranges(plan) == [(0, 0, 25), (1, 30, 120), (3, 210, 270)]


# -- T02, T03, T04 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split_size", "split", "compacted"),
    [
        (100, [(1, 25, 120), (1, 400, 500), (2, 30, 60)], [(0, 0, 20), (2, 230, 270)]),
        (30, [(0, 0, 20), (1, 25, 120), (1, 400, 500), (2, 30, 60), (2, 230, 270)], []),
        (1000, [(1, 25, 120), (2, 30, 60)], [(0, 0, 20), (1, 400, 500), (2, 230, 270)]),
    ],
)
def test_t02_grouping(split_size: int, split: list[object], compacted: list[object]) -> None:
    plan = plan_of(F1, settings(split_size_bytes=split_size))
    assert stream_objects(plan) == split
    assert stream_set_ranges(plan) == compacted


@pytest.mark.parametrize(
    ("specs", "split_size", "stream_objects_max", "streams_max", "excluded", "split", "compacted"),
    [
        (F1, 70, 2, 100, {2}, [(0, 0, 20), (1, 25, 120)], [(2, 30, 60)]),
        (G, 50, 1, 100, {2}, [(1, 30, 120)], [(0, 0, 25), (2, 30, 60)]),
        (G, 50, 100, 1, {0, 2}, [], []),
        (G, 29, 2, 100, {2}, [(1, 30, 120), (2, 30, 60)], [(0, 0, 25)]),
        (G, 29, 1, 100, {0, 2}, [], []),
    ],
)
def test_t03_limits_exclude_sources(
    specs: list[Spec],
    split_size: int,
    stream_objects_max: int,
    streams_max: int,
    excluded: set[int],
    split: list[object],
    compacted: list[object],
) -> None:
    plan = plan_of(
        specs,
        settings(split_size_bytes=split_size, stream_objects_max=stream_objects_max, streams_max=streams_max),
    )
    assert {each.object_id for each in plan.left_out if each.reason != NO_PARTNER} == excluded
    assert stream_objects(plan) == split
    assert stream_set_ranges(plan) == compacted
    assert plan.has_remaining
    assert not excluded & set(plan.compacted_ids)
    assert plan.is_empty is (not split)


def test_t03_pieces_cut_at_the_memory_limit_count_as_stream_objects() -> None:
    """The commit refuses more of them than the limit. Too many bytes for a round: the youngest wait for the next."""
    specs: list[Spec] = [{0: [(10 * at, 10 * at + 10, 60)]} for at in range(8)]
    limited = settings(split_size_bytes=50, memory_bytes=130, stream_objects_max=4)
    assert stream_objects(plan_of(specs, limited)) == [(0, 0, 20), (0, 20, 40), (0, 40, 60), (0, 60, 80)]
    plan = plan_of(specs, msgspec.structs.replace(limited, stream_objects_max=3))
    assert stream_objects(plan) == [(0, 0, 20), (0, 20, 40), (0, 40, 60)]
    assert [(each.object_id, each.reason) for each in plan.left_out] == [
        (6, BEYOND_STREAM_OBJECTS),
        (7, BEYOND_STREAM_OBJECTS),
    ]


def test_t03_a_run_from_every_source_does_not_take_the_round_with_it() -> None:
    """Differs from the table's source on purpose: there nothing would be left to do, ever."""
    specs: list[Spec] = [{stream: [(at, at + 1, 20)] for stream in range(4)} for at in range(6)]
    plan = plan_of(specs, settings(split_size_bytes=70, stream_objects_max=3))
    assert plan.compacted_ids == (0, 1, 2)
    assert stream_set_ranges(plan) == [(stream, 0, 3) for stream in range(4)]
    assert plan.has_remaining


def test_t04_only_objects_that_share_a_stream() -> None:
    plan = plan_of(
        [
            {0: [(0, 1, 9)], 1: [(0, 1, 9)]},
            {0: [(1, 2, 9)], 1: [(1, 2, 9)]},
            {2: [(0, 1, 9)]},
            {3: [(0, 1, 9)]},
        ]
    )
    assert plan.compacted_ids == (0, 1)
    assert [(each.object_id, each.reason) for each in plan.left_out] == [(2, NO_PARTNER), (3, NO_PARTNER)]


def test_t04_all_disjoint_is_no_plan() -> None:
    plan = plan_of([{0: [(0, 1, 9)]}, {1: [(0, 1, 9)]}, {2: [(0, 1, 9)]}])
    assert plan.is_empty
    assert (plan.object_count, plan.bounds, plan.has_remaining) == (0, (), False)


# -- T05 ------------------------------------------------------------------------------------------------


def test_t05_one_iteration() -> None:
    assert len(plan_of(F1, settings(memory_bytes=1024)).bounds) == 1


def test_t05_cut() -> None:
    plan = plan_of(F1, settings(memory_bytes=300))
    assert iterations(plan) == [
        ([(1, 25, 120)], [(0, 0, 20)]),
        ([(1, 400, 500), (2, 30, 60)], [(2, 230, 270)]),
    ]
    assert [plan.iteration(at).bytes_read for at in range(2)] == [294, 275]


def test_t05_smaller_than_the_largest_block_is_refused() -> None:
    with pytest.raises(MemoryLimitTooSmall, match="raise it to at least that"):
        plan_of(F1, settings(memory_bytes=134))
    assert plan_of(F1, settings(memory_bytes=135)).bounds


def test_t05_room_for_a_part_still_too_small_is_needed() -> None:
    """Largest block of the stream set object 75, a carried piece of up to 99: 174."""
    assert plan_of(F1, settings(memory_bytes=174, part_bytes_min=100)).bounds
    with pytest.raises(MemoryLimitTooSmall):
        plan_of(F1, settings(memory_bytes=173, part_bytes_min=100))


# -- small parts are carried ----------------------------------------------------------------------------


def test_small_part_is_carried_to_the_iteration_that_goes_on() -> None:
    """T01 with a smallest part of 26: S0's 25 bytes are read and written in iteration 2."""
    plan = plan_of(ARTICLE, settings(split_size_bytes=60, memory_bytes=150, part_bytes_min=26))
    assert iterations(plan) == [
        ([(1, 30, 120), (2, 400, 435)], []),
        ([(2, 435, 500)], [(0, 0, 25), (3, 210, 270)]),
    ]
    assert [plan.iteration(at).bytes_read for at in range(2)] == [125, 150]
    part = plan.iteration(1).part
    assert part is not None and (part.part_number, part.position) == (1, 0)


def test_carried_piece_counts_towards_the_memory_of_its_iteration() -> None:
    """With 65 + 20 + 40 = 125 and 25 carried, a limit of 149 no longer holds S3 230-270."""
    plan = plan_of(ARTICLE, settings(split_size_bytes=60, memory_bytes=149, part_bytes_min=26))
    assert all(plan.iteration(at).bytes_read <= 149 for at in range(len(plan.bounds)))
    parts = [part for at in range(len(plan.bounds)) if (part := plan.iteration(at).part)]
    assert [part.part_number for part in parts] == [1, 2]


def test_iteration_of_nothing_but_a_carried_piece_is_no_iteration() -> None:
    """S0 (10 bytes, too small for a part) is alone before a block that fills the memory."""
    specs: list[Spec] = [{0: [(0, 5, 5)], 1: [(0, 1, 95)], 2: [(0, 1, 5)]}, {0: [(5, 6, 5)], 2: [(1, 2, 5)]}]
    plan = plan_of(specs, settings(split_size_bytes=50, memory_bytes=100, part_bytes_min=15))
    assert iterations(plan) == [([(1, 0, 1)], []), ([], [(0, 0, 6), (2, 0, 2)])]


def test_parts_grow_when_there_would_be_too_many() -> None:
    specs: list[Spec] = [{0: [(at, at + 1, 10) for at in range(20)]}, {0: [(20, 21, 10)]}]
    plan = plan_of(specs, settings(split_size_bytes=1000, memory_bytes=120, part_count_max=3))
    assert 1 < part_count(plan) <= 3
    assert part_count(plan_of(specs, settings(split_size_bytes=1000, memory_bytes=50))) == 5


def part_count(plan: CompactionPlan) -> int:
    return sum(plan.iteration(at).part is not None for at in range(len(plan.bounds)))


# -- T06, the part that planning decides ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts", "deleted", "compacted", "split"),
    [
        ({}, (), [(0, 0, 20), (2, 230, 270)], 3),
        ({0: 5}, (), [(0, 0, 20), (2, 230, 270)], 3),
        ({0: 15}, (), [(0, 15, 20), (2, 230, 270)], 3),
        ({0: 15, 1: 60, 2: 60}, (), [(0, 15, 20), (2, 230, 270)], 2),
        ({}, (0,), [(2, 230, 270)], 3),
        ({}, (0, 1, 2), [], 0),
    ],
)
def test_t06_trimmed_and_deleted(
    starts: dict[int, int], deleted: tuple[int, ...], compacted: list[object], split: int
) -> None:
    plan = plan_of(F1, settings(memory_bytes=300), starts=starts, deleted=deleted)
    assert plan.compacted_ids == (0, 1, 2)
    assert stream_set_ranges(plan) == compacted
    assert len(stream_objects(plan)) == split


def test_t06_absent_stream_is_not_a_deleted_one() -> None:
    """H2: with an unproven empty answer nothing is dropped; the objects are left alone, with the reason."""
    sources = sources_of(F1)
    plan = plan_compaction(sources, {}, SMALL, NOW_MS)
    assert plan.is_empty
    assert {each.object_id for each in plan.left_out} == {0, 1, 2}
    assert all("no record says it was deleted" in each.reason for each in plan.left_out)


def test_t06_one_absent_stream_leaves_only_its_objects_out() -> None:
    sources = sources_of([*F1, {1: [(500, 510, 30)], 9: [(0, 5, 10)]}])
    streams = streams_of(sources)
    del streams[9]
    plan = plan_compaction(sources, streams, SMALL, NOW_MS)
    assert plan.compacted_ids == (0, 1, 2)
    assert [each.object_id for each in plan.left_out] == [3]


def test_t06_a_fourth_object_joins() -> None:
    more: Spec = {1: [(500, 520, 106)], 3: [(0, 10, 286), (10, 20, 286)]}
    plan = plan_of([*F1, more], settings(memory_bytes=300), starts={3: 10})
    assert plan.compacted_ids == (0, 1, 2, 3)
    assert stream_objects(plan) == [(1, 25, 120), (1, 400, 520), (2, 30, 60), (3, 10, 20)]
    assert len(stream_set_ranges(plan)) == 2


def test_t06_limit_of_stream_objects_leaves_the_third_out() -> None:
    plan = plan_of(F1, settings(memory_bytes=300, split_size_bytes=70, stream_objects_max=4))
    assert plan.compacted_ids == (0, 1)
    assert stream_set_ranges(plan) == [(2, 30, 60)]
    assert len(stream_objects(plan)) == 2


def test_dead_on_arrival_blocks_are_dropped_by_what_the_commit_recorded() -> None:
    """The index names stream 9, the commit left it out (its stream was deleted, and is forgotten by now)."""
    whole = sources_of([{0: [(0, 5, 10)], 9: [(0, 5, 10)]}, {0: [(5, 9, 10)]}])
    ranges = tuple(held for held in whole[0].metadata.ranges if held.stream_id != 9)
    known = msgspec.structs.replace(whole[0].metadata, ranges=ranges)
    sources = [Source(known, whole[0].index), whole[1]]
    plan = plan_compaction(sources, streams_of(sources), SMALL, NOW_MS)
    assert plan.compacted_ids == (0, 1)
    assert stream_set_ranges(plan) == [(0, 0, 9)]


def test_index_that_holds_less_than_the_image_says_is_left_out() -> None:
    whole = sources_of([{0: [(0, 5, 10)]}, {0: [(5, 9, 10)]}])
    longer = (ObjectRange(0, 1, 5, 12, 10, 0),)
    sources = [whole[0], Source(msgspec.structs.replace(whole[1].metadata, ranges=longer), whole[1].index)]
    plan = plan_compaction(sources, streams_of(sources), SMALL, NOW_MS)
    assert plan.is_empty
    assert "does not hold the offsets that the metadata says" in plan.left_out[0].reason


def test_overlapping_sources_give_the_round_up() -> None:
    with pytest.raises(OverlappingSources, match="objects 0 and 1 both hold offset 4 of stream 0"):
        plan_of([{0: [(0, 5, 10)]}, {0: [(4, 9, 10)]}])


# -- T07 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "normal", "without_s0"), [(0, 3, 2), (1, 2, 1), (2, 2, 2)])
def test_t07_force_split(number: int, normal: int, without_s0: int) -> None:
    assert len(stream_objects(plan_of([F1[number]], AGED))) == normal
    assert len(stream_objects(plan_of([F1[number]], AGED, deleted=(0,)))) == without_s0
    for nothing_lives in ({"starts": {0: 999, 1: 999, 2: 999}}, {"deleted": (0, 1, 2)}):
        plan = plan_of([F1[number]], AGED, **nothing_lives)
        assert (plan.compacted_ids, plan.object_count, plan.bounds) == ((0,), 0, ())
    assert not plan_of([F1[number]], AGED).has_stream_set_object


def test_t07_runs_stay_whole_under_a_small_memory_limit() -> None:
    plan = plan_of([F1[0]], msgspec.structs.replace(AGED, memory_bytes=150))
    assert iterations(plan) == [([(0, 0, 15)], []), ([(1, 25, 60)], []), ([(2, 30, 60)], [])]


def test_t07_a_run_larger_than_the_memory_is_cut() -> None:
    plan = plan_of(
        [{0: [(at, at + 1, 40) for at in range(5)]}], msgspec.structs.replace(AGED, memory_bytes=100)
    )
    assert stream_objects(plan) == [(0, 0, 2), (0, 2, 4), (0, 4, 5)]


def test_t07_together_the_aged_make_one_run_where_they_touch() -> None:
    """Differs from the table's source on purpose: one request an object there, one commit for all here."""
    plan = plan_of(F1, AGED)
    assert stream_objects(plan) == [(0, 0, 20), (1, 25, 120), (1, 400, 500), (2, 30, 60), (2, 230, 270)]


def test_t07_only_the_old_are_split() -> None:
    ages = (SMALL.force_split_age_ms, SMALL.force_split_age_ms - 1, 0)
    sources = [source(at, spec, NOW_MS - ages[at]) for at, spec in enumerate(F1)]
    plan = plan_compaction(sources, streams_of(sources), SMALL, NOW_MS)
    assert stream_objects(plan) == [(0, 0, 15), (1, 25, 60), (2, 30, 60), (1, 60, 120), (1, 400, 500)]
    assert stream_set_ranges(plan) == [(0, 15, 20), (2, 230, 270)]
    assert plan.compacted_ids == (0, 1, 2)


def test_t07_more_streams_than_the_limit_stays_an_ordinary_candidate() -> None:
    plan = plan_of(F1, msgspec.structs.replace(AGED, stream_objects_max=2, split_size_bytes=1000))
    assert 1 in plan.compacted_ids or 2 in plan.compacted_ids
    assert len(stream_objects(plan)) <= 2


@pytest.mark.parametrize("limit", [1, 3, 9, 13, 40])
def test_t07_cuts_of_aged_runs_stay_within_the_limit_of_stream_objects(limit: int) -> None:
    wide: Spec = {0: [(at, at + 1, 60) for at in range(10)]}
    plan = plan_of([wide], msgspec.structs.replace(AGED, memory_bytes=100, stream_objects_max=limit))
    assert len(stream_objects(plan)) == (10 if limit >= 13 else 0)


# -- T12 ------------------------------------------------------------------------------------------------


def test_t12_offsets_beyond_31_bits() -> None:
    """Joined here, where offsets have 64 bits; with 32 the entries had to stay apart (AutoMQ #3339)."""
    far = 2**31
    plan = plan_of([{0: [(0, far, 10)]}, {0: [(far, 2 * far + 5, 10), (2 * far + 5, 2**40, 10)]}])
    assert stream_set_ranges(plan) == [(0, 0, 2**40)]
    assert plan.index_entries_after == 1
    assert int(plan.stream_set_index["end_offset"][0]) == 2**40


# -- the value itself -----------------------------------------------------------------------------------


def test_same_sources_give_the_same_plan() -> None:
    first, second = (plan_of(ARTICLE, settings(split_size_bytes=60, memory_bytes=150)) for _ in range(2))
    assert [first.iteration(at) for at in range(2)] == [second.iteration(at) for at in range(2)]
    assert first.new_objects(9) == second.new_objects(9)


def test_streams_are_shared_by_sources_and_not_by_one_alone() -> None:
    def table(*pairs: tuple[int, int]) -> np.ndarray:
        made = np.zeros(len(pairs), dtype=ENTRY)
        made["stream_id"], made["source"] = zip(*pairs, strict=True)
        return made

    def sharing(found: Sharing, *active: bool) -> list[bool]:
        return [bool(shared) for shared in found.sharing(np.array(active))]

    alone = Sharing(table((3, 0), (5, 0), (5, 0)), 1)
    assert sharing(alone, True) == [False]
    assert alone.streams_of_sources().tolist() == [2]
    three = Sharing(table((3, 0), (5, 1), (5, 2), (9, 2)), 3)
    assert sharing(three, True, True, True) == [False, True, True]
    assert sharing(three, True, False, True) == [False, False, False]
    assert sharing(three, False, False, False) == [False, False, False]
    assert three.streams_of_sources().tolist() == [1, 1, 2]
