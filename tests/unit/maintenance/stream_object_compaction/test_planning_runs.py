import pytest

from siltstone.maintenance.stream_object_compaction.planning import extents_of
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.objects import ObjectKind
from support.maintenance.stream_object_world import member, stream_of

TOUCHING = (member(1, 0, 10, 5), member(2, 10, 20, 5), member(3, 20, 30, 5), member(4, 30, 40, 5))


def ids_of(
    members: tuple[ObjectMetadata, ...],
    start_offset: int = 0,
    *,
    deleted: bool = False,
    cleaned_offset: int = 0,
    is_compacted: bool = False,
) -> list[tuple[int, ...]]:
    stream = stream_of(members, start_offset, deleted=deleted, cleaned_offset=cleaned_offset)
    objects = {each.object_id: each for each in members}
    return [
        tuple(each.object_id for each in extent)
        for extent in extents_of(stream, objects, is_compacted=is_compacted)
    ]


def test_what_touches_is_one_extent() -> None:
    assert ids_of(TOUCHING) == [(1, 2, 3, 4)]


@pytest.mark.parametrize(("start_offset", "first"), [(9, 1), (10, 2), (19, 2), (20, 3), (40, None)])
def test_wholly_trimmed_objects_are_in_none(start_offset: int, first: int | None) -> None:
    expected = [] if first is None else [tuple(range(first, 5))]
    assert ids_of(TOUCHING, start_offset) == expected


def test_a_deleted_stream_has_none() -> None:
    assert ids_of(TOUCHING, deleted=True) == []


def test_never_across_a_gap() -> None:
    assert ids_of((TOUCHING[0], TOUCHING[2], TOUCHING[3])) == [(1,), (3, 4)]


def test_never_across_a_stream_set_object() -> None:
    between = member(9, 10, 20, 5, kind=ObjectKind.STREAM_SET_OBJECT)
    assert ids_of((TOUCHING[0], between, TOUCHING[2], TOUCHING[3])) == [(1,), (3, 4)]


def test_never_across_buckets() -> None:
    elsewhere = member(3, 20, 30, 5, bucket_id=1)
    assert ids_of((*TOUCHING[:2], elsewhere, TOUCHING[3])) == [(1, 2), (3,), (4,)]


@pytest.mark.parametrize(
    ("cleaned_offset", "expected"),
    [
        (0, [(1, 2, 3, 4)]),
        (20, [(1, 2), (3, 4)]),
        (25, [(1, 2), (3, 4)]),
        (40, [(1, 2, 3, 4)]),
    ],
)
def test_clean_and_dirty_stay_apart_in_compacted_topics(
    cleaned_offset: int, expected: list[tuple[int, ...]]
) -> None:
    """One that is clean in part is dirty: it is written anew anyway."""
    assert ids_of(TOUCHING, cleaned_offset=cleaned_offset, is_compacted=True) == expected
    assert ids_of(TOUCHING, cleaned_offset=cleaned_offset) == [(1, 2, 3, 4)]
