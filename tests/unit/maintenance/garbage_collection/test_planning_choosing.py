import msgspec
import pytest

from siltstone.carrying.pipeline.kind import Scope
from siltstone.maintenance.garbage_collection.planning import (
    CollectionCandidate,
    Estimate,
    LiveBytes,
    expected_ratio,
    in_scope,
    is_worth_a_look,
    is_worth_a_round,
    judged,
    ordered,
    rounds,
)
from siltstone.model.limits import MIB
from siltstone.model.objects import ObjectKind
from siltstone.offline.blocks.columns import Source
from support.maintenance.compaction_sources import NOW_MS, source

SSO, SO = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT
TARGET = 256 * MIB


def made(object_id: int, size_bytes: int, kind: ObjectKind = SSO, age_ms: int = 0) -> Source:
    whole = source(object_id, {0: [(0, 10, size_bytes)]}, NOW_MS - age_ms)
    return Source(msgspec.structs.replace(whole.metadata, kind=kind), whole.index)


def candidate(
    object_id: int, live: int, size_bytes: int = 100, kind: ObjectKind = SSO, age_ms: int = 0
) -> CollectionCandidate:
    source_made = made(object_id, size_bytes, kind, age_ms)
    found = judged(source_made, LiveBytes(size_bytes, live), 1.0, 1)
    assert found is not None
    return found


@pytest.mark.parametrize(("threshold", "chosen"), [(0.2, [19]), (0.8, [19, 20, 79])])
def test_gc2_strictly_below_the_threshold(threshold: float, chosen: list[int]) -> None:
    sources = {live: made(live, 100 * MIB) for live in (19, 20, 79, 80)}
    found = [
        judged(each, LiveBytes(100 * MIB, live * MIB), threshold, 100 * MIB) for live, each in sources.items()
    ]
    assert [each.object_id for each in found if each] == chosen
    assert all(each.is_sparse for each in found if each)


def test_gc5_small_objects_count_against_the_target_size() -> None:
    found = judged(made(1, MIB), LiveBytes(MIB, int(0.9 * MIB)), 0.2, TARGET)
    assert found is not None and round(found.ratio, 4) == 0.0035
    assert not found.is_sparse
    assert judged(made(1, MIB), LiveBytes(MIB, int(0.9 * MIB)), 0.8, 1) is None


def test_gc5_strictly_below_the_threshold_for_small_ones_too() -> None:
    found = [judged(made(1, 50), LiveBytes(50, live), 0.2, 100) for live in (19, 20)]
    assert [each is not None for each in found] == [True, False]


def test_stream_objects_are_not_small() -> None:
    assert judged(made(1, MIB, SO), LiveBytes(MIB, int(0.9 * MIB)), 0.8, TARGET) is None
    found = judged(made(1, MIB, SO), LiveBytes(MIB, int(0.7 * MIB)), 0.8, TARGET)
    assert found is not None and found.is_sparse


def test_a_low_ratio_by_a_large_index_makes_no_candidate() -> None:
    """All blocks are live, so rewriting would free nothing; the index is three quarters of the object."""
    for size_bytes, is_candidate in ((100, False), (99, True)):
        found = judged(made(1, size_bytes), LiveBytes(25, 25), 0.8, 100)
        assert (found is not None) is is_candidate, "a small one may be merged with others"
        assert judged(made(1, size_bytes, SO), LiveBytes(25, 25), 0.8, 100) is None


def test_small_ones_are_worth_a_round_together_and_sparse_ones_alone() -> None:
    small = judged(made(1, 100), LiveBytes(100, 100), 0.2, TARGET)
    other = judged(made(2, 100), LiveBytes(100, 100), 0.2, TARGET)
    sparse = judged(made(3, 100), LiveBytes(100, 10), 0.2, TARGET)
    assert small and other and sparse
    assert [is_worth_a_round(each) for each in ([small], [small, other], [sparse])] == [False, True, True]


def test_smallest_ratio_first_then_the_oldest_data_then_the_id() -> None:
    chosen = [
        candidate(1, 20),
        candidate(2, 10),
        candidate(3, 20, age_ms=5),
        candidate(4, 10, size_bytes=1000),
        candidate(0, 20),
    ]
    assert [each.object_id for each in ordered(chosen)] == [4, 2, 3, 0, 1]


def test_rounds_of_bounded_bytes() -> None:
    live = {1: 40, 3: 60, 4: 1, 5: 300, 6: 1}
    chosen = [candidate(object_id, size, 1000) for object_id, size in live.items()]
    assert [[each.object_id for each in members] for members in rounds(chosen, 100, 10)] == [
        [1, 3],
        [4],
        [5],
        [6],
    ]
    assert [len(members) for members in rounds(chosen, 10**9, 2)] == [2, 2, 1]
    assert [*rounds([], 100, 10)] == []


@pytest.mark.parametrize(
    ("estimate", "looked_at"),
    [
        (Estimate(100, 20, 0), False),
        (Estimate(100, 19, 0), True),
        (Estimate(100, 19, 70), True),  # batches at the live end may be as small as they like
        (Estimate(100, 20, 1), False),
        (Estimate(0, 0, 0), True),
    ],
)
def test_whose_index_is_read(estimate: Estimate, looked_at: bool) -> None:
    assert is_worth_a_look(SSO, estimate, 0.2, 1) is looked_at


def test_expected_ratio() -> None:
    metadata = made(1, 100).metadata
    assert expected_ratio(metadata, Estimate(100, 10, 5), 1) == 0.15
    assert expected_ratio(metadata, Estimate(100, 10, 5), 1000) == 0.015


def test_a_run_that_is_limited_to_topics_looks_at_objects_with_data_of_theirs() -> None:
    both = source(1, {0: [(0, 10, 5)], 1: [(0, 10, 5)]}).metadata
    other = source(2, {1: [(0, 10, 5)]}).metadata
    unknown = source(3, {9: [(0, 10, 5)]}).metadata
    topics = {0: "flights", 1: "planes"}
    flights = Scope(topics=frozenset({"flights"}))
    assert [in_scope(each, topics, flights) for each in (both, other, unknown)] == [True, False, False]
    assert [in_scope(each, {}, Scope()) for each in (both, other, unknown)] == [True] * 3
