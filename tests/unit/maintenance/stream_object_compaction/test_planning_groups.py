"""T11, and what keeps an object from being copied again and again."""

import msgspec
import pytest

from siltstone.maintenance.stream_object_compaction.planning import (
    Extent,
    MergeGroup,
    extents_of,
    groups_of,
    is_worth_it,
    minor_groups,
)
from siltstone.metadata.entities import ObjectMetadata
from siltstone.offline.settings import Level, StreamObjectCompactionSettings
from support.maintenance.stream_object_world import SMALL, contiguous, member, stream_of

NOW_MS = 1_000_000


def settings(**changes: float) -> StreamObjectCompactionSettings:
    return msgspec.structs.replace(SMALL, **changes)


def ids(groups: list[Extent]) -> list[list[int]]:
    return [[each.object_id for each in members] for members in groups]


def major_groups(extent: Extent, used: StreamObjectCompactionSettings) -> list[Extent]:
    """Of what has all settled, where nothing counts as small."""
    found = [*groups_of(extent, used, NOW_MS)]
    assert {group.level for group in found} <= {Level.MAJOR}
    return [group.members for group in found]


# -- T11: a group of one is none, so those that the table leaves alone are not named ----------------------

GAPPED = (
    member(2, 16, 18, 1024),
    member(3, 18, 19, 256),
    member(4, 19, 20, 256),
    member(5, 30, 31, 256),
    member(6, 31, 32, 256),
)
FAR = (member(1, 0, 2**31 + 5, 3), member(2, 2**31 + 5, 2**40, 2))


@pytest.mark.parametrize(
    ("members", "level", "limit", "expected"),
    [
        pytest.param(GAPPED, Level.MAJOR, 512, [[3, 4], [5, 6]], id="a gap"),
        pytest.param(contiguous(3, 2, 2), Level.MINOR, 4, [[1, 2]], id="a soft limit is passed once"),
        pytest.param(contiguous(5, 2), Level.MINOR, 4, [], id="one at the soft limit is small no more"),
        pytest.param(contiguous(3, 2), Level.MAJOR, 4, [], id="a hard limit is not passed"),
        pytest.param(FAR, Level.MAJOR, 512, [[1, 2]], id="offsets beyond 31 bits are joined"),
    ],
)
def test_t11_grouping(
    members: tuple[ObjectMetadata, ...], level: Level, limit: int, expected: list[list[int]]
) -> None:
    """Composites there are none of here; the same id twice cannot be, as ranges of a stream do not overlap."""
    objects = {each.object_id: each for each in members}
    extents = extents_of(stream_of(members), objects, is_compacted=False)
    if level is Level.MAJOR:
        found = [
            group for extent in extents for group in major_groups(extent, settings(group_bytes_max=limit))
        ]
    else:
        found = [
            group for extent in extents for group in minor_groups(extent, settings(small_object_bytes=limit))
        ]
    assert ids(found) == expected


@pytest.mark.parametrize(
    ("sizes", "count_max", "expected"),
    [
        ((1, 1, 1, 1, 1), 2, [[1, 2], [3, 4]]),
        ((1, 1, 1, 1, 1), 3, [[1, 2, 3], [4, 5]]),
        ((1, 1, 1, 1, 1), 5, [[1, 2, 3, 4, 5]]),
    ],
)
def test_a_group_has_only_so_many_objects(
    sizes: tuple[int, ...], count_max: int, expected: list[list[int]]
) -> None:
    for found in (
        major_groups(contiguous(*sizes), settings(group_objects_max=count_max)),
        minor_groups(contiguous(*sizes), settings(group_objects_max=count_max, small_object_bytes=100)),
    ):
        assert ids(found) == expected


# -- worth it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((60, 40), True),
        ((61, 39), False),
        ((10,), False),
        ((60, 20, 20), True),
        ((20, 61, 19), False),
    ],
)
def test_the_largest_may_be_three_fifths(sizes: tuple[int, ...], expected: bool) -> None:
    assert is_worth_it(contiguous(*sizes), settings(largest_share_max=0.6)) is expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((1000, 10, 10, 10), [[2, 3, 4]]),
        ((10, 10, 1000, 10, 10), [[1, 2], [4, 5]]),
        ((10, 10, 10, 1000), [[1, 2, 3]]),
        ((1000, 100, 10, 1), []),
        ((30, 1, 1, 30), [[1, 2, 3, 4]]),
    ],
)
def test_one_that_is_too_large_a_share_stays_and_its_neighbours_are_joined(
    sizes: tuple[int, ...], expected: list[list[int]]
) -> None:
    assert ids(major_groups(contiguous(*sizes), settings(largest_share_max=0.6))) == expected


def test_what_follows_one_that_stays_joins_what_comes_after_it() -> None:
    """The limit of 100 lets objects 1 and 2 together, of which the first is too large a share."""
    found = major_groups(contiguous(90, 10, 10, 10), settings(largest_share_max=0.6, group_bytes_max=100))
    assert ids(found) == [[2, 3, 4]]


def test_an_object_is_copied_so_many_times_and_no_more() -> None:
    """A stream that grows by an object at each look, a thousand times: bytes written for each byte appended."""
    used = settings(largest_share_max=0.6)
    sizes: list[int] = []
    copied = 0
    for _ in range(1_000):
        sizes.append(16)
        for group in reversed(major_groups(contiguous(*sizes), used)):
            first = group[0].object_id - 1
            together = sum(each.ranges[0].size_bytes for each in group)
            sizes[first : first + len(group)] = [together]
            copied += together
    assert sum(sizes) == 16_000
    assert copied <= 16_000 * 8, "the logarithm of 1,000 to the base of 5/3 is 13.5, at worst"
    assert len(sizes) <= 12


# -- tiers ------------------------------------------------------------------------------------------------


def test_what_has_not_settled_is_joined_only_when_small() -> None:
    used = settings(small_object_bytes=50, settled_ms=100)
    extent = tuple(
        member(at, 10 * at, 10 * at + 10, size, committed_ms=committed_ms)
        for at, (size, committed_ms) in enumerate(
            [(60, 0), (70, 0), (80, NOW_MS), (20, NOW_MS - 99), (30, NOW_MS), (90, NOW_MS), (9, NOW_MS)]
        )
    )
    found = [(group.level, ids([group.members])[0]) for group in groups_of(extent, used, NOW_MS)]
    assert found == [(Level.MAJOR, [0, 1]), (Level.MINOR, [3, 4])]
    later = [(group.level, ids([group.members])[0]) for group in groups_of(extent, used, NOW_MS + 100)]
    assert later == [(Level.MAJOR, [0, 1, 2, 3, 4, 5, 6])]


def test_small_ones_of_both_ages_are_joined() -> None:
    """A settled one that is worth nothing by itself joins young neighbours."""
    used = settings(small_object_bytes=50, settled_ms=100)
    extent = (member(1, 0, 1, 20), member(2, 1, 2, 20, committed_ms=NOW_MS))
    assert [group.level for group in groups_of(extent, used, NOW_MS)] == [Level.MINOR]


def test_what_a_group_says_of_itself() -> None:
    group = MergeGroup(
        Level.MAJOR, (member(7, 30, 40, 600, stream_id=5), member(8, 40, 50, 2_000, stream_id=5))
    )
    assert (group.name, group.stream_id, group.bucket_id) == ("stream-5-30", 5, 0)
    assert (group.size_bytes, group.largest_bytes, group.bytes_for_each_object_less) == (2_600, 2_000, 2_600)
    assert group.small_bytes(part_bytes_min=1_000) == 600
    largest = group.largest_bytes
    assert group.small_bytes(part_bytes_min=largest) < group.small_bytes(part_bytes_min=largest + 1)
