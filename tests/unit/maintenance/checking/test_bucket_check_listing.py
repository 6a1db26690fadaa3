"""A listing that is empty, cut short or out of order is doubted."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from siltstone.maintenance.checking.bucket_check import doubts_of
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import FindingKind
from siltstone.metadata.commands import CommitUpload
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectSummary
from support.engine.batches import batch
from support.maintenance.maintained_store import MaintainedStore

Listing = Sequence[ObjectSummary]


def world_of(objects: int) -> MaintainedStore:
    world = MaintainedStore()
    stream = world.new_stream()
    for _ in range(objects):
        world.append(stream)
    return world


def doubts(world: MaintainedStore, listing: Listing) -> list[str]:
    found = doubts_of(listing, 0, world.image, world.image, world.store)
    return [each.text for each in found if each.kind is FindingKind.LISTING_DOUBTFUL and each.bucket_id == 0]


def whole(world: MaintainedStore) -> list[ObjectSummary]:
    return list(MemoryStore.list(world.store))


def test_a_whole_listing_is_believed() -> None:
    world = world_of(5)
    assert doubts(world, whole(world)) == []


@pytest.mark.parametrize(
    ("spoilt", "expected"),
    [
        (lambda listing: [], "omits"),
        (lambda listing: listing[:3], "omits"),
        (lambda listing: listing[1:], "omits"),
        (lambda listing: listing[::-1], "not in the order"),
        (lambda listing: [listing[0], *listing], "repeats some"),
        (
            lambda listing: [msgspec.structs.replace(listing[0], size_bytes=-1), *listing[1:]],
            "negative sizes",
        ),
        (
            lambda listing: [msgspec.structs.replace(listing[0], modified_ms=-1), *listing[1:]],
            "negative sizes",
        ),
    ],
    ids=["empty", "cut-short", "without-its-beginning", "backwards", "repeated", "size", "time"],
)
def test_a_spoilt_one_is_not(spoilt: Callable[[Listing], Listing], expected: str) -> None:
    world = world_of(5)
    (doubt,) = doubts(world, spoilt(whole(world)))
    assert expected in doubt and "no object is deleted because of it" in doubt


def test_what_is_really_gone_is_no_doubt_about_the_listing() -> None:
    world = world_of(3)
    world.lose(1)
    assert doubts(world, whole(world)) == []


def test_what_was_committed_or_destroyed_meanwhile_need_not_be_listed() -> None:
    world = world_of(2)
    before, listing = world.image, whole(world)
    world.append(0)
    assert [*doubts_of(listing, 0, before, world.image, world.store)] == []
    world.trim(0, 30)
    world.compact([0], [])
    assert [*doubts_of(listing[:0], 0, before, world.image, world.store)] != []
    without = [each for each in listing if "0" * 20 not in each.key]
    assert [*doubts_of(without, 0, before, world.image, world.store)] == []


def test_the_whole_check_finds_it() -> None:
    world = world_of(4)
    store = world.store
    listed = whole(world)[:2]
    store.list = lambda *_: iter(listed)  # type: ignore[method-assign]
    assert [each.kind for each in check(world.context).findings] == [FindingKind.LISTING_DOUBTFUL]


def test_empty_objects_and_unknown_times_are_no_reason_to_doubt() -> None:
    world = world_of(1)
    world.store.put("another/empty", [])
    listing = [msgspec.structs.replace(each, modified_ms=0) for each in whole(world)]
    assert min(each.size_bytes for each in listing) == 0
    assert doubts(world, listing) == []


def test_objects_of_another_bucket_need_not_be_listed() -> None:
    world = world_of(2)
    assert [*doubts_of([], 1, world.image, world.image, world.store)] == []


def test_what_was_only_prepared_before_need_not_be_listed() -> None:
    world = world_of(1)
    object_id, before, listing = world.prepare(), world.image, whole(world)
    world.metadata.execute(CommitUpload(0, 1, world.put(object_id, [batch(0, 30, 10)])))
    assert [*doubts_of(listing, 0, before, world.image, world.store)] == []


def test_without_an_earlier_image_nothing_is_said_of_what_is_omitted() -> None:
    world = world_of(2)
    assert [*doubts_of([], 0, None, world.image, world.store)] == []
