"""T28 on fixture F2. Adapted: our image keeps one list of ranges per stream, sorted by offset, whatever node or kind of
object they are from; there is no orderId, no owner to look up first, and no sparse index. So the table runs once. The
original gives id 9 to an SO and to the last SSO (9b); here the latter is 11. Limit 0 or less is not asked."""

import pytest
from msgspec.structs import replace

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.commands import CloseStream, DeleteStream, ExpireObjects
from siltstone.metadata.entities import ScanPin
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import (
    OffsetOutOfRange,
    committed_object,
    deletable_objects,
    expired_objects,
    find_ranges,
    grace_is_over,
    is_pinned,
    overdue_pins,
    pinned_from,
)
from siltstone.metadata.refusals import StreamNotExist
from siltstone.metadata.streams import created
from siltstone.model.limits import SCAN_PIN_OVERDUE_MS
from support.metadata.metadata_world import HOUR_MS, MetadataWorld, object_range

F2 = [
    (8, 10, 100), (0, 100, 120), (1, 120, 140), (5, 140, 160), (6, 160, 180), (2, 180, 200), (9, 200, 300),
    (10, 300, 400), (3, 400, 420), (7, 420, 520), (4, 520, 600), (11, 600, 888),
]  # fmt: skip


def image_of(ranges: list[tuple[int, int, int]], start: int, end: int) -> MetadataImage:
    held = tuple(object_range(object_id, 0, left, right) for object_id, left, right in ranges)
    stream = replace(created(0, {}), start_offset=start, end_offset=end, ranges=held)
    return MetadataImage(streams=ShardedMap([(0, stream)]))


@pytest.mark.parametrize(
    ("start", "end", "limit", "ids", "covered"),
    [
        (10, 600, None, [8, 0, 1, 5, 6, 2, 9, 10, 3, 7, 4], (10, 600)),
        (20, 550, 5, [8, 0, 1, 5, 6], (10, 180)),
        (400, 520, None, [3, 7], (400, 520)),
        (401, 519, None, [3, 7], (400, 520)),
        (399, 521, None, [10, 3, 7, 4], (300, 600)),
        (399, 1000, None, [10, 3, 7, 4, 11], (300, 888)),
        (101, 400, None, [0, 1, 5, 6, 2, 9, 10], (100, 400)),
        (10, None, 9, [8, 0, 1, 5, 6, 2, 9, 10, 3], (10, 420)),
        (550, None, None, [4, 11], (520, 888)),
    ],
)
def test_t28_get_objects(start, end, limit, ids, covered) -> None:
    found = find_ranges(image_of(F2, 10, 888), 0, start, end, limit)
    assert [held.object_id for held in found] == ids
    assert (found[0].start_offset, found[-1].end_offset) == covered


@pytest.mark.parametrize(
    ("start", "end", "limit", "ids"),
    [(22, 55, None, [1, 2]), (22, 55, 1, [1]), (10, 21, None, [0, 1]), (59, 60, None, [2])],
)
def test_t28_so_then_sso_then_so(start, end, limit, ids) -> None:
    image = image_of([(0, 10, 20), (1, 20, 40), (2, 40, 60)], 10, 60)
    assert [held.object_id for held in find_ranges(image, 0, start, end, limit)] == ids


@pytest.mark.parametrize(("start", "end"), [(0, 600), (9, 10), (20, 19)])
def test_t28_invalid_offsets(start, end) -> None:
    with pytest.raises(OffsetOutOfRange):
        find_ranges(image_of(F2, 10, 888), 0, start, end)


def test_t28_unknown_and_deleted_streams() -> None:
    with pytest.raises(StreamNotExist):
        find_ranges(MetadataImage(), 0, 0, 1)
    world = MetadataWorld()
    world.register(0)
    world.open_stream()
    world.do(world.upload((0, 0, 10)))
    world.do(CloseStream(0, 1, 0, 0))
    world.do(DeleteStream(0, 1, 0, 0))
    assert 0 in world.image.streams
    with pytest.raises(StreamNotExist):
        find_ranges(world.image, 0, 0, 1)


def test_a_start_that_no_object_holds_yet_finds_nothing() -> None:
    image = image_of(F2, 10, 888)
    assert find_ranges(image, 0, 888) == []
    assert find_ranges(image, 0, 5_000, 6_000) == []
    assert find_ranges(image, 0, 100, 100) == []


def test_a_gap_ends_the_answer() -> None:
    image = image_of([(0, 10, 20), (1, 30, 40)], 10, 40)
    assert [held.object_id for held in find_ranges(image, 0, 10)] == [0]
    assert find_ranges(image, 0, 20) == []


def test_an_object_is_committed_from_its_commit_to_its_destruction() -> None:
    world = MetadataWorld()
    world.register(0)
    world.open_stream()
    upload = world.upload((0, 0, 10))
    assert committed_object(world.image, 0) is None
    world.do(upload)
    found = committed_object(world.image, 0)
    assert found is not None and found.object_id == 0
    world.do(CloseStream(0, 1, 0, 0))
    world.do(DeleteStream(0, 1, 0, 0))
    world.do(world.compaction(world.start_job(), (0,)))
    assert committed_object(world.image, 0) is None
    assert committed_object(world.image, 10**6) is None


def test_prepared_objects_expire_at_their_deadline_the_oldest_first() -> None:
    world = MetadataWorld()
    world.register(0)
    world.prepare(3)
    deadline_ms = world.now_ms + HOUR_MS
    assert expired_objects(world.image, deadline_ms - 1, 10) == []
    assert expired_objects(world.image, deadline_ms, 2) == [0, 1]
    assert expired_objects(world.image, deadline_ms, 10) == [0, 1, 2]


def test_destroyed_objects_may_be_deleted_after_their_grace_period_the_oldest_first() -> None:
    world = MetadataWorld()
    world.register(0)
    world.prepare(3)
    world.now_ms += HOUR_MS
    world.do(ExpireObjects(10))
    rows = [world.image.objects[object_id] for object_id in range(3)]
    assert deletable_objects(world.image, world.now_ms + 99, 100, 10) == []
    assert deletable_objects(world.image, world.now_ms + 100, 100, 2) == rows[:2]
    assert deletable_objects(world.image, world.now_ms + 100, 100, 10) == rows
    assert [grace_is_over(50, now_ms, 10) for now_ms in (59, 60, 61)] == [False, True, True]


@pytest.mark.parametrize("candidates", [None, range(9), [4, 2, 2, 1, 3, 99, 0]])
def test_of_prepared_objects_those_past_their_deadline_are_expired_oldest_first(candidates) -> None:
    """At the deadline, too; candidates that are not prepared are passed over."""
    image = MetadataImage(prepared=ShardedMap([(4, 10), (1, 20), (3, 9), (2, 21)]))
    assert expired_objects(image, 20, 9, candidates) == [1, 3, 4]
    assert expired_objects(image, 20, 2, candidates) == [1, 3]
    assert expired_objects(image, 8, 9, candidates) == []
    assert expired_objects(image, 20, 9, [2, 4]) == [4]


def test_sr27_an_object_is_pinned_from_the_version_of_the_pin_on() -> None:
    """In one entry with the pin: the plan's image does not name it any more, but keeping it does no harm."""
    gone = MetadataWorld()
    gone.register(0)
    gone.prepare()
    (row,) = gone.image.objects.values()
    held = {version: is_pinned(replace(row, destroyed_version=version), 5) for version in (0, 4, 5, 6, 2**40)}
    assert held == {0: False, 4: False, 5: True, 6: True, 2**40: True}
    assert not is_pinned(replace(row, destroyed_version=5), None)


def test_the_oldest_pin_that_counts_says_from_when_on_objects_are_held() -> None:
    pins = [ScanPin("a", 7, 1_000), ScanPin("b", 5, 2_000), ScanPin("c", 9, 500)]
    image = MetadataImage(pins=ShardedMap((pin.token, pin) for pin in pins))
    assert pinned_from(image) == 5
    assert pinned_from(image, {"b"}) == 7
    assert pinned_from(image, {"a", "b", "c"}) is None
    overdue_ms = 1_000 + SCAN_PIN_OVERDUE_MS
    assert (overdue_pins(image, overdue_ms - 1), overdue_pins(image, overdue_ms)) == (["c"], ["a", "c"])
