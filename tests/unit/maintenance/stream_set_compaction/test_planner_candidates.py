import msgspec

from siltstone.maintenance.stream_set_compaction.planner import choose_candidates
from siltstone.maintenance.stream_set_compaction.retention_class import RetentionClass
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.objects import ObjectKind, ObjectState
from support.maintenance.compaction_sources import F1, NOW_MS, SMALL, Spec, source, streams_of

PAIR: list[Spec] = [{0: [(0, 5, 9)]}, {0: [(5, 9, 9)]}]


def ids(specs: list[Spec], ages: list[int] | None = None, **changes: int) -> tuple[list[int], bool]:
    made = [source(at, spec, NOW_MS - (ages[at] if ages else 0)) for at, spec in enumerate(specs)]
    chosen = choose_candidates(
        [one.metadata for one in made], streams_of(made), msgspec.structs.replace(SMALL, **changes), NOW_MS
    )
    return [held.object_id for held in chosen.objects], chosen.has_remaining


def test_t04_candidate_filter() -> None:
    specs: list[Spec] = [
        {0: [(0, 1, 9)], 1: [(0, 1, 9)]},
        {0: [(1, 2, 9)], 1: [(1, 2, 9)]},
        {2: [(0, 1, 9)]},
        {3: [(0, 1, 9)]},
    ]
    assert ids(specs) == ([0, 1], False)
    assert ids(specs[1:]) == ([], False)


def test_oldest_data_first_and_no_more_than_a_round_takes() -> None:
    assert ids(F1, [5, 7, 6]) == ([1, 2, 0], False)
    assert ids(F1, [5, 7, 6], sources_max=2) == ([1, 2], True)


def test_t07_old_ones_need_no_partner() -> None:
    assert ids([{0: [(0, 1, 9)]}, {1: [(0, 1, 9)]}], [10, 9], force_split_age_ms=10) == ([0], False)


def test_one_without_live_data_is_a_candidate_and_no_partner() -> None:
    made = [source(at, spec) for at, spec in enumerate(PAIR)]
    streams = streams_of(made, starts={0: 5})
    chosen = choose_candidates([one.metadata for one in made], streams, SMALL, NOW_MS)
    assert [held.object_id for held in chosen.objects] == [0]


def test_only_committed_stream_set_objects() -> None:
    made = [
        source(at, spec).metadata for at, spec in enumerate([*PAIR, {0: [(9, 10, 9)]}, {0: [(10, 11, 9)]}])
    ]
    made[2] = msgspec.structs.replace(made[2], kind=ObjectKind.STREAM_OBJECT)
    made[3] = msgspec.structs.replace(made[3], state=ObjectState.DESTROYED)
    chosen = choose_candidates(made, streams_of([source(0, PAIR[0])]), SMALL, NOW_MS)
    assert [held.object_id for held in chosen.objects] == [0, 1]


def test_t08_an_object_listed_twice_counts_once_and_its_last_metadata_wins() -> None:
    first, second = (source(at, spec).metadata for at, spec in enumerate(PAIR))
    newer = msgspec.structs.replace(first, size_bytes=777)
    listed: list[ObjectMetadata] = [first, second, newer]
    chosen = choose_candidates(listed, streams_of([source(0, PAIR[0])]), SMALL, NOW_MS)
    assert [(held.object_id, held.size_bytes) for held in chosen.objects] == [
        (0, 777),
        (1, second.size_bytes),
    ]


def test_one_of_a_compacted_topic_needs_no_partner() -> None:
    made = [source(0, {0: [(0, 1, 9)]}), source(1, {1: [(0, 1, 9)], 2: [(0, 1, 9)]})]
    classes = {0: RetentionClass.NONE, 2: RetentionClass.COMPACTED}
    chosen = choose_candidates([one.metadata for one in made], streams_of(made), SMALL, NOW_MS, classes)
    assert [held.object_id for held in chosen.objects] == [1]


def test_one_of_a_stream_that_the_image_does_not_know_is_partner_of_another() -> None:
    made = [source(at, spec) for at, spec in enumerate(PAIR)]
    chosen = choose_candidates([one.metadata for one in made], {}, SMALL, NOW_MS)
    assert [held.object_id for held in chosen.objects] == [0, 1]
    (alone, _) = made
    assert choose_candidates([alone.metadata], {}, SMALL, NOW_MS).objects == ()


def test_a_round_that_takes_all_leaves_none() -> None:
    assert ids(F1, [5, 7, 6], sources_max=3) == ([1, 2, 0], False)
