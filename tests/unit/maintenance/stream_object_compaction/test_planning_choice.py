import re

import msgspec
import pytest

from siltstone.maintenance.stream_object_compaction.planning import EXPLAINED_MAX, Choice, choose_groups
from siltstone.metadata.entities import ObjectMetadata
from siltstone.offline.settings import StreamObjectCompactionSettings
from support.maintenance.stream_object_world import SMALL, member, stream_of

Members = tuple[ObjectMetadata, ...]
NOW_MS = 1_000_000


def stream(stream_id: int, *sizes: int, committed_ms: int = 0) -> Members:
    return tuple(
        member(100 * stream_id + at, at, at + 1, size, stream_id=stream_id, committed_ms=committed_ms)
        for at, size in enumerate(sizes)
    )


def chosen(
    *streams: Members, settings: StreamObjectCompactionSettings = SMALL, is_compacted: bool = False
) -> Choice:
    objects = {each.object_id: each for members in streams for each in members}
    named = [(stream_of(members), is_compacted) for members in streams]
    return choose_groups(named, objects, settings, NOW_MS)


def test_most_objects_fewer_for_the_fewest_bytes_first() -> None:
    found = chosen(stream(0, 50, 50), stream(1, 20, 20, 20), stream(2, 10, 15), stream(3, 10, 15))
    assert [group.name for group in found.groups] == ["stream-2-0", "stream-3-0", "stream-1-0", "stream-0-0"]
    assert not found.has_remaining


def test_no_more_groups_than_the_limit() -> None:
    settings = msgspec.structs.replace(SMALL, groups_max=2)
    found = chosen(stream(0, 50, 50), stream(1, 20, 20), stream(2, 10, 10), settings=settings)
    assert [group.stream_id for group in found.groups] == [2, 1]
    assert found.has_remaining


@pytest.mark.parametrize(
    ("members", "changes", "reason"),
    [
        ((member(1, 0, 1, 5), member(2, 2, 3, 5)), {}, "2 stream objects are not contiguous"),
        ((member(1, 0, 1, 5), member(2, 1, 2, 5, bucket_id=1)), {}, "different buckets"),
        (stream(0, 9, 1), {"largest_share_max": 0.6}, "the largest of 2 stream objects holds 90% .* more than 60%"),
        (
            stream(0, 5, 5, committed_ms=NOW_MS),
            {"settled_ms": 60_000},
            "2 of 2 stream objects were committed less than 1 minutes ago",
        ),
        (stream(0, 900_000, 900_000), {}, "too large together"),
    ],
)  # fmt: skip
def test_why_a_stream_stays(members: Members, changes: dict[str, float], reason: str) -> None:
    found = chosen(members, settings=msgspec.structs.replace(SMALL, **changes))
    assert found.groups == ()
    assert re.search(reason, found.left[0].reason)


def test_a_stream_of_one_object_is_not_spoken_of() -> None:
    assert chosen(stream(0, 5)) == Choice((), (), False)


def test_only_so_many_are_explained() -> None:
    members = (member(1, 0, 1, 5), member(2, 2, 3, 5))
    assert len(chosen(*[members] * (EXPLAINED_MAX + 5)).left) == EXPLAINED_MAX


def test_compacted_topics_are_cut_where_they_are_clean() -> None:
    members = stream(0, 5, 5, 5, 5)
    objects = {each.object_id: each for each in members}
    clean = stream_of(members, cleaned_offset=2)
    for is_compacted, expected in ((True, 2), (False, 1)):
        assert len(choose_groups([(clean, is_compacted)], objects, SMALL, NOW_MS).groups) == expected
